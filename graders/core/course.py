"""Find the lessons and exercises of the course by name: each lesson is a folder of graders, each exercise a file."""

from __future__ import annotations

import difflib
import functools
import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graders.core.errors import HookworkError
from graders.core.source import exercise_cells, explanations, prediction_keys

if TYPE_CHECKING:  # importing exercises loads torch, and listing lessons and keys should be quick
    from graders.core.exercise import Exercise

PACKAGE = Path(__file__).parent.parent
EXERCISES = PACKAGE / "exercises"
_FOLDER = re.compile(r"lesson_(\d\d_\w+)")


class UnknownKey(HookworkError):
    """No exercise has this key; the message suggests keys that are close to it."""


class UnknownLesson(HookworkError):
    """No lesson has this number or stem; the message suggests a close one, or lists them all."""


@functools.cache
def lesson_stems() -> tuple[str, ...]:
    """The stems of all lessons, such as `01_where_gradients_live`, in order."""
    names = (_FOLDER.fullmatch(file.parent.name) for file in sorted(EXERCISES.glob("lesson_*/__init__.py")))
    return tuple(name[1] for name in names if name)


@functools.cache
def lesson_exercises(lesson: str) -> tuple[Exercise, ...]:
    """The exercises of a lesson, in the order of its source. Imports their graders, and so torch."""
    from graders.core.exercise import exercises_in_module

    folder = EXERCISES / f"lesson_{lesson}"
    modules = (
        importlib.import_module(f"graders.exercises.{folder.name}.{file.stem}") for file in folder.glob("test_*.py")
    )
    place = {key: number for number, key in enumerate(exercise_keys(lesson))}
    found = [exercise for module in modules for exercise in exercises_in_module(module)]
    return tuple(sorted(found, key=lambda exercise: (place.get(exercise.key, len(place)), exercise.key)))


@functools.cache
def lesson_source(lesson: str) -> str:
    """The text of a lesson's source, `solutions/<stem>.py`."""
    return (solutions_folder() / f"{lesson}.py").read_text(encoding="utf-8")


def exercise_keys(lesson: str) -> tuple[str, ...]:
    """The keys of a lesson's exercises, in order. They are read from its source, without importing the graders."""
    return tuple(exercise_cells(lesson_source(lesson)))


def all_prediction_keys() -> tuple[str, ...]:
    """The keys of all predictions in the course, in order."""
    return tuple(key for lesson in lesson_stems() for key in prediction_keys(lesson_source(lesson)))


def explanation(prediction: str) -> str:
    """What explains the outcome of the prediction with this key, as Markdown; "" if the course has none."""
    lesson = next((lesson for lesson in lesson_stems() if lesson[:2] == prediction[:2]), None)
    return explanations(lesson_source(lesson)).get(prediction, "") if lesson else ""


def key_file_stem(key: str) -> str:
    """A key without its number, as file names have it: `scale_grad` for `03-scale-grad`."""
    return key[3:].replace("-", "_")


def lesson_title(lesson: str) -> str:
    """The title of a lesson, such as "1. Where gradients live": the first heading of its source, up to a colon."""
    heading = re.search(r"^# # Lesson (\d+\. [^:\n]+)", lesson_source(lesson), re.M)
    return heading[1].strip() if heading else lesson


def find_lesson(name: str) -> str:
    """The stem of the lesson with this number ("3" or "03"), stem or file name. Raises `UnknownLesson`."""
    stem = name.removesuffix(".ipynb")
    for lesson in lesson_stems():
        if stem == lesson or (stem.isdecimal() and int(stem) == int(lesson[:2])):
            return lesson
    raise UnknownLesson(f"There is no lesson {name!r}. {_suggest_names(stem, lesson_stems(), 'Lessons')}")


def find_exercise(key: str) -> Exercise:
    """The exercise with this key. Raises `UnknownKey`."""
    for lesson in lesson_stems():
        if lesson[:2] == str(key)[:2]:
            for exercise in lesson_exercises(lesson):
                if exercise.key == key:
                    return exercise
    every = [name for lesson in lesson_stems() for name in exercise_keys(lesson)]
    near = [name for name in every if name[:2] == str(key)[:2]]
    raise UnknownKey(f"There is no exercise {key!r}. {_suggest_names(str(key), near or every, 'Exercises')}")


def _suggest_names(name: str, every: Sequence[str], what: str) -> str:
    """Suggest up to three names close to `name`; if none is close, list them all under the heading `what`."""
    wanted = name.lower().replace("_", "-")
    plain = {name.replace("_", "-"): name for name in every}
    for name in list(plain):  # the number may be missing: scale-grad means 03-scale-grad
        plain.setdefault(name[3:], plain[name])
    found = [wanted] if wanted in plain else difflib.get_close_matches(wanted, plain, 3, 0.75)
    close = dict.fromkeys(plain[name] for name in found)
    return f"Did you mean {' or '.join(close)}?" if close else f"{what}: {', '.join(every)}."


def lessons_folder() -> Path:
    """The folder of the learners' notebooks: next to the package in a clone, inside it when installed from a wheel."""
    return _course_folder("lessons")


def solutions_folder() -> Path:
    """The folder of the lessons' sources and the solved notebooks."""
    return _course_folder("solutions")


def _course_folder(name: str) -> Path:
    beside = PACKAGE.parent / name
    return beside if (PACKAGE.parent / "pyproject.toml").exists() and beside.is_dir() else PACKAGE / "course" / name


def every_exercise() -> list[Exercise]:
    """All exercises of the course, in the order of the notebooks. Imports their graders, and so torch."""
    return [exercise for lesson in lesson_stems() for exercise in lesson_exercises(lesson)]


def worked_answer(exercise: Exercise) -> str:
    """The code of the solved exercise cell, from the lesson's source."""
    return exercise_cells(lesson_source(exercise.lesson))[exercise.key]
