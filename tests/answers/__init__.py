"""Answers to every exercise: right ones in other styles, and a wrong one for each listed mistake.

A folder a lesson, a file an exercise, each named as its grader. In a file `RIGHT` is a list of sources, and `WRONG` a
list of wrong answers, each with what it violates (`graders.author.answers`). A source is the text of an exercise cell.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from graders.core import course
from graders.verdict.explaining import NOTHING_DONE
from graders.verdict.scene_exercise import SceneExercise


@dataclass(frozen=True)
class Answers:
    """The answers to all exercises of a lesson, by key, in its order."""

    right: dict[str, list[str]]
    wrong: dict[str, dict[str, str]]


def answers_of(lesson: str) -> Answers:
    """The answers of the lesson with this number, stem or file name."""
    stem = course.find_lesson(lesson)
    modules = {key: _module(stem, key) for key in course.exercise_keys(stem)}
    return Answers(
        {key: module.RIGHT for key, module in modules.items()},
        {key: {**dict(_programs(key)), **_wrong(module)} for key, module in modules.items()},
    )


def _wrong(module: ModuleType) -> dict[str, str]:
    """A wrong answer for each mistake: the first, where there are several."""
    found: dict[str, str] = {}
    for wrong in getattr(module, "WRONG", []):
        if wrong.mistake is not None:
            found.setdefault(wrong.mistake, wrong.source)
    return found


def _programs(key: str) -> Iterator[tuple[str, str]]:
    """The mistakes whose programs stand in the file of an exercise, each with its last form as the text of a cell."""
    exercise = course.find_exercise(key)
    if isinstance(exercise, SceneExercise):
        text = exercise.file.read_text()
        helpers = [ast.get_source_segment(text, node) for node in ast.parse(text).body if _is_helper(node)]
        for program in exercise.comparison.stage.programs[exercise.comparison.mistakes.start :]:
            if program is not NOTHING_DONE and inspect.getsourcefile(program.function) == str(exercise.file):
                own = textwrap.dedent(inspect.getsource(program.function))
                own = own.replace(program.function.__name__, exercise.name, 1)
                yield program.id, "\n\n".join([*map(str, helpers), own])


def _is_helper(node: ast.stmt) -> bool:
    """Whether wrong programs may need this statement of their file: any but the exercise itself."""
    return not (isinstance(node, ast.ClassDef) and node.decorator_list)


def _module(lesson: str, key: str) -> ModuleType:
    return importlib.import_module(f"tests.answers.lesson_{lesson}.{course.key_file_stem(key)}")
