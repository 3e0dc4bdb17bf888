"""Hookwork: a course on PyTorch hooks whose exercises are marked by measuring what an answer does.

In a notebook: `from graders import check, hint, solution, progress, replay, guess, compare, rules, toolbox`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graders.learner.notebook.commands import check, hint, progress, replay, rules, solution, toolbox
    from graders.learner.notebook.predictions import compare, guess

__all__ = ["check", "compare", "guess", "hint", "progress", "replay", "rules", "solution", "toolbox"]


def __getattr__(name: str) -> Any:
    """Load a notebook function on first use, so that `import graders` and Tab completion needn't wait for torch."""
    if name in __all__:
        return getattr(import_module(f"graders.learner.notebook.{_MODULES.get(name, 'commands')}"), name)
    raise AttributeError(f"module 'graders' has no attribute {name!r}")


_MODULES = {"compare": "predictions", "guess": "predictions"}
