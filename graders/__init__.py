"""Hookwork: a course on PyTorch hooks whose exercises are marked by measuring.

In a notebook: `from graders import check, hint, solution, progress`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graders.notebook.commands import check, hint, progress, solution

__all__ = ["check", "hint", "progress", "solution"]


def __getattr__(name: str) -> Any:
    """The functions of the notebook, loaded when first asked for: naming a key should not wait for torch."""
    if name in __all__:
        from graders.notebook import commands

        return getattr(commands, name)
    raise AttributeError(f"module 'graders' has no attribute {name!r}")
