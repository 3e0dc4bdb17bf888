"""What exercises may leave free: for `free`, by the name of an observation."""

from __future__ import annotations

from typing import Any


def no_graph_for_zeros(mine: Any, wanted: Any) -> bool:
    """What is zero everywhere needs no graph: differentiated, it is nothing instead of zeros."""
    return mine is None and not wanted.tensor.any()


def a_hook_for_all(mine: Any, wanted: Any) -> bool:
    """What changed may be that a hook for all modules is left: one that asks which module it is in acts on one."""
    return all(list(change) in [["hook-left", "torch"], *map(list, wanted)] for change in mine)
