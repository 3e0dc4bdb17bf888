"""How long exercises and the course take, and how hard an exercise is: in words, for whoever plans an evening.

An exercise says its minutes, those that a person with three months of PyTorch takes; a lesson's are on the map of the
course, with the text read and the cells run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graders.core.text import format_count

if TYPE_CHECKING:  # exercises bring torch along
    from graders.core.exercise import Exercise

DIFFICULTIES = {1: "easy", 2: "medium", 3: "hard"}


def describe_effort(exercise: Exercise) -> str:
    """What to expect of an exercise, as in "10 min · easy · core path". Empty where it says nothing."""
    if not exercise.minutes or not exercise.difficulty:
        return ""
    path = "core path" if exercise.core else "go deeper"
    return f"{exercise.minutes} min · {DIFFICULTIES[exercise.difficulty]} · {path}"


def course_hours(minutes: int, exercises: Sequence[Exercise]) -> str:
    """How long the course takes, as in "about 30 hours, or about 20 on the core path of 25 exercises".

    `minutes` are those of all lessons with all of their `exercises`. All of the text is read on the core path, too.
    """
    left_out = sum(exercise.minutes for exercise in exercises if not exercise.core)
    whole, path = (5 * round(total / 300) for total in (minutes, minutes - left_out))
    core = sum(exercise.core for exercise in exercises)
    return f"about {whole} hours, or about {path} on the core path of {format_count(core, 'exercise')}"
