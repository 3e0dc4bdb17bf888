"""What `import graders` finds in the box: the learner's helpers, which do nothing while a notebook is marked.

This file becomes `graders/__init__.py` there.
"""

from __future__ import annotations


def check(key: str, *, more: bool = False) -> None:
    """Show nothing: the notebook is being marked."""


def hint(key: str) -> None:
    """Show nothing: the notebook is being marked."""


def solution(key: str) -> None:
    """Show nothing: the notebook is being marked."""


def replay(key: str, *, stop: bool = False) -> None:
    """Show nothing: the notebook is being marked."""


def progress(way: str | None = None) -> None:
    """Show nothing: the notebook is being marked."""


def toolbox() -> None:
    """Show nothing: the notebook is being marked."""


def rules() -> None:
    """Show nothing: the notebook is being marked."""


def guess(key: object = "", /, *unnamed: object, **values: object) -> None:
    """Show nothing: the notebook is being marked."""


def compare(key: str, /, **values: object) -> None:
    """Show nothing: the notebook is being marked."""
