"""Hookwork: a course on PyTorch hooks whose exercises are marked by measuring.

In a notebook: `from graders import check, hint, solution, progress`.
"""

from graders.notebook import check, hint, progress, solution

__all__ = ["check", "hint", "progress", "solution"]
