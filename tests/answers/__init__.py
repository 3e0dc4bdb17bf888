"""Answers to every exercise: right ones in other styles, and a wrong one for each listed mistake.

A folder a lesson, a file an exercise, each named as its grader. In a file `RIGHT` is a list of sources, and `WRONG` a
list of wrong answers, each with what it violates (`graders.author.answers`). A source is the text of an exercise cell.
"""

from __future__ import annotations

import ast
import dis
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, ModuleType

from graders.core import course
from graders.core.cells import bound_names
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
    """The mistakes whose programs stand alone in the file of an exercise, each with its last form as a cell's text.

    A box has no module of a grader: programs that take something from one are left out.
    """
    exercise = course.find_exercise(key)
    if isinstance(exercise, SceneExercise):
        for program in exercise.comparison.stage.programs[exercise.comparison.mistakes.start :]:
            if program is not NOTHING_DONE and inspect.getsourcefile(program.function) == str(exercise.file):
                own = textwrap.dedent(inspect.getsource(program.function))
                own = own.replace(program.function.__name__, exercise.name, 1)
                statements = _statements_used_by(own, exercise.file.read_text())
                if not any(statement.startswith("from graders") for statement in statements):
                    yield program.id, "\n\n".join([*statements, own])


def _statements_used_by(own: str, text: str) -> list[str]:
    """The statements of a file that a function needs, in the file's order."""
    statements = [str(ast.get_source_segment(text, node)) for node in ast.parse(text).body]
    used, pending = set[str](), [own]
    while pending:
        wanted = _global_names(compile(pending.pop(), "cell", "exec"))
        found = {statement for statement in statements if bound_names(statement) & wanted} - used
        used |= found
        pending += found
    return [statement for statement in statements if statement in used]


def _global_names(code: CodeType) -> set[str]:
    """The names that this code, and the functions in it, look up outside functions."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    own = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return own.union(*map(_global_names, inner))


def _module(lesson: str, key: str) -> ModuleType:
    return importlib.import_module(f"tests.answers.lesson_{lesson}.{course.key_file_stem(key)}")
