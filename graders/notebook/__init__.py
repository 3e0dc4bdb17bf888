"""What a learner calls in a notebook: the same draw, probe and judge as in `pytest graders`."""

from graders.notebook.commands import check, hint, progress, solution

__all__ = ["check", "hint", "progress", "solution"]
