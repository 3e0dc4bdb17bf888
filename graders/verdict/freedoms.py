"""Differences from the reference that exercises may allow, as values for the dict `may_differ` of an exercise."""

from __future__ import annotations

from typing import Any


def no_graph_for_zeros(observed: Any, wanted: Any) -> bool:
    """Allow None for a gradient that is zero everywhere: what is always zero needs no graph."""
    return observed is None and not wanted.tensor.any()


def a_hook_for_all(observed: Any, wanted: Any) -> bool:
    """Allow a hook for all modules to be left: one that asks which module called it acts on that module alone."""
    return all(change in [("hook-left", "torch"), *wanted.found] for change in observed.found)
