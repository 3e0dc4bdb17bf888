"""What exercises may leave free: for `free`, by the name of an observation."""

from __future__ import annotations

from typing import Any


def no_graph_for_zeros(mine: Any, wanted: Any) -> bool:
    """What is zero everywhere needs no graph: differentiated, it is nothing instead of zeros."""
    return mine is None and not wanted.tensor.any()
