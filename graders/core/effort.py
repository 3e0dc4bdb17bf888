"""Say in words how long exercises and the course take, and how hard an exercise is, to help plan an evening.

The minutes of an exercise are for a person with three months of experience in PyTorch. Those of a lesson, in
`course_map`, also include reading the text and running the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graders.core.text import format_count

if TYPE_CHECKING:  # importing exercises loads torch
    from graders.core.exercise import Exercise

DIFFICULTIES = {1: "easy", 2: "medium", 3: "hard"}


def describe_effort(exercise: Exercise) -> str:
    """The time, difficulty and path of an exercise, as in "10 min · easy · core path"; empty if it declares none."""
    if not exercise.minutes or not exercise.difficulty:
        return ""
    path = "core path" if exercise.core else "go deeper"
    return f"{exercise.minutes} min · {DIFFICULTIES[exercise.difficulty]} · {path}"


def course_hours(minutes: int, exercises: Sequence[Exercise]) -> str:
    """How long the course takes, as in "about 30 hours, or about 20 on the core path of 25 exercises".

    `minutes` is the total of all lessons, including all of their `exercises`. The core path skips exercises but no
    text. Hours are rounded to multiples of 5.
    """
    path, core = core_path(minutes, exercises)
    return f"about {_hours(minutes)} hours, or about {path} on the core path of {format_count(core, 'exercise')}"


def core_path(minutes: int, exercises: Sequence[Exercise]) -> tuple[int, int]:
    """The hours that the core path takes, and how many of the exercises it has; see `course_hours`."""
    left_out = sum(exercise.minutes for exercise in exercises if not exercise.core)
    return _hours(minutes - left_out), sum(exercise.core for exercise in exercises)


def _hours(minutes: int) -> int:
    return 5 * round(minutes / 300)
