"""How long exercises, lessons and the course take, and how hard an exercise is: in words, for whoever plans an evening.

An exercise says its minutes, those that a person with three months of PyTorch takes. What lies between the exercises is
counted: text and code of a lesson's source are read slowly, and cells are run and guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from graders.core.text import plural

if TYPE_CHECKING:  # exercises bring torch along
    from graders.core.exercise import Exercise

DIFFICULTIES = {1: "easy", 2: "medium", 3: "hard"}
WORDS_PER_MINUTE = 100
"""Of text about code that stands beside it, guesses included."""
LINES_PER_MINUTE = 12
"""Of code that is read and run."""
_CELL = re.compile(r"^# %%(.*)$", re.M)


def effort(exercise: Exercise) -> str:
    """What to expect of an exercise, as in "10 min · easy · core path". Empty where it says nothing."""
    if not exercise.minutes or not exercise.difficulty:
        return ""
    path = "core path" if exercise.core else "go deeper"
    return f"{exercise.minutes} min · {DIFFICULTIES[exercise.difficulty]} · {path}"


def reading_minutes(source: str) -> float:
    """How long the text and the code of a lesson's source take, without its exercises and what draws figures."""
    words = lines = 0
    parts = _CELL.split(source)
    for header, body in zip(parts[1::2], parts[2::2]):
        if "[markdown]" in header:
            words += sum(len(line.lstrip("# ").split()) for line in body.split("\n"))
        elif "exercise=" not in header and '"figure"' not in header:
            lines += sum(bool(line.strip()) for line in body.split("\n"))
    return words / WORDS_PER_MINUTE + lines / LINES_PER_MINUTE


def lesson_hours(source: str, exercises: Iterable[Exercise]) -> str:
    """How long a lesson takes with all of its exercises, to the half hour, as in "about 2.5 hours"."""
    minutes = reading_minutes(source) + sum(exercise.minutes for exercise in exercises)
    halves = max(1, round(minutes / 30))
    return f"about {halves / 2:g} hour{'' if halves <= 2 else 's'}"


def course_hours(sources: Mapping[str, Iterable[Exercise]]) -> str:
    """How long the course takes, as in "about 30 hours, or about 20 on the core path of 25 exercises".

    `sources` are the lessons' sources with their exercises. All of the text is read on the core path, too.
    """
    reading = sum(map(reading_minutes, sources))
    every = [exercise for exercises in sources.values() for exercise in exercises]
    core = [exercise for exercise in every if exercise.core]
    whole, path = (5 * round((reading + sum(one.minutes for one in some)) / 300) for some in (every, core))
    return f"about {whole} hours, or about {path} on the core path of {plural(len(core), 'exercise')}"
