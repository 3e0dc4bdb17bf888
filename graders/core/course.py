"""Where the course is, and what it consists of: one grader file a lesson, found by its name."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path

from graders.core.exercise import Exercise, exercises_of

PACKAGE = Path(__file__).parent.parent
_STEM = re.compile(r"test_(\d\d_\w+)")


class UnknownKey(KeyError):
    """No exercise has this key; the message names the keys that are close to it."""

    def __str__(self) -> str:
        """The message without the quotes of KeyError."""
        return str(self.args[0])


@functools.cache
def lessons() -> tuple[str, ...]:
    """The stems of all lessons, in order."""
    names = (_STEM.fullmatch(file.stem) for file in sorted(PACKAGE.glob("test_*.py")))
    return tuple(name[1] for name in names if name)


@functools.cache
def exercises(lesson: str) -> tuple[Exercise, ...]:
    """The exercises of a lesson, in order."""
    return tuple(exercises_of(importlib.import_module(f"graders.test_{lesson}")))


def find_exercise(key: str) -> Exercise:
    """The exercise of this key. Raises `UnknownKey`."""
    for lesson in lessons():
        if lesson[:2] == str(key)[:2]:
            for exercise in exercises(lesson):
                if exercise.key == key:
                    return exercise
    known = [exercise.key for lesson in lessons() for exercise in exercises(lesson)]
    near = [one for one in known if one[:2] == str(key)[:2]] or known
    raise UnknownKey(f"There is no exercise {key!r}. Exercises: {', '.join(near)}.")


def lessons_folder() -> Path:
    """The folder of the learner's notebooks: beside the package in a clone, inside it in a wheel."""
    return _folder("lessons")


def solutions_folder() -> Path:
    """The folder of the sources and the solved notebooks."""
    return _folder("solutions")


def _folder(name: str) -> Path:
    beside = PACKAGE.parent / name
    return beside if (PACKAGE.parent / "pyproject.toml").exists() and beside.is_dir() else PACKAGE / "course" / name


def every_exercise() -> list[Exercise]:
    """All exercises of the course, in order."""
    return [exercise for lesson in lessons() for exercise in exercises(lesson)]


def worked_answer(exercise: Exercise) -> str:
    """The solved exercise cell, from the lesson's source."""
    from graders.core.source import exercise_cells  # here, because only solutions need it

    return exercise_cells((solutions_folder() / f"{exercise.lesson}.py").read_text(encoding="utf-8"))[exercise.key]
