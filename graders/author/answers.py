"""Loads the right and wrong answers to an exercise that authors write down.

A file `tests/answers/lesson_NN_topic/function_name.py` holds

    RIGHT = ["...", "..."]                       # sources of exercise cells, in other styles than the solution
    WRONG = [
        Wrong(
            "what is wrong with it",
            violates="nothing that happens later changes them",     # a quote from the contract or the rules
            check="test_the_entries_are_copies",                    # the check that refuses it, or "raised"
            mistake="stored-alias",                                 # the mistake it is recognised as; optional
            unshown="only the second of two calls is wrong",        # why no program can show it; optional
            source="...",                               # or `changed(RIGHT[0], ("old text", "new text"))`
        ),
    ]
    SURVIVORS = {"lost copy: return x": "why this mutant is right"}  # headline, or its beginning; … is any text
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from graders.author.places import exercise_files
from graders.core import course
from graders.core.exercise import Exercise, check_sentence
from graders.core.results import ExerciseResult, Status
from graders.core.rules import brief_rules
from graders.core.source import SourceError, exercise_cells

RAISED = "raised"
"""Stands in place of a check for a wrong answer that raises."""


@dataclass(frozen=True)
class Wrong:
    """A wrong answer, as an author writes it down; the module's docstring explains the fields."""

    what: str
    violates: str
    check: str
    source: str
    mistake: str | None = None
    unshown: str = ""


def changed(source: str, *places: tuple[str, str]) -> str:
    """A variant of an answer, in which each old text is replaced by a new one; `places` are such pairs.

    Raises `ValueError` for an old text that does not occur exactly once.
    """
    for old, new in places:
        if source.count(old) != 1:
            raise ValueError(f"this text occurs {source.count(old)} times in the answer, not once: {old!r}")
        source = source.replace(old, new)
    return source


@dataclass(frozen=True)
class Answer:
    """An answer to an exercise, and how it has to be marked. `source` is the text of its cell."""

    what: str
    source: str
    passes: bool = False
    mistake: str | None = None
    """The mistake that a wrong answer has to be recognised as; None when any diagnosis will do."""
    check: str | None = None
    """The check that has to refuse a wrong answer; None when any will do."""
    violates: str | None = None
    unshown: str = ""
    """Why no program shows what is wrong with it; empty when one does."""

    def problem_with(self, result: ExerciseResult) -> str:
        """What is wrong with the result of this answer; empty when it came out as it should."""
        if self.passes and result.status is not Status.PASSED:
            refused = (check.message for check in result.checks if not check.passed)
            why = next(refused, result.message) if result.status is Status.WRONG else result.message
            return f"is {result.status.value}: {why}"
        if not self.passes and result.status is Status.PASSED:
            return "passes"
        if self.mistake is not None and result.mistake != self.mistake:
            return f"is taken for {result.mistake}: {result.message}"
        return "" if self.check is None else self._refused_otherwise(result, self.check)

    def _refused_otherwise(self, result: ExerciseResult, check: str) -> str:
        if check == RAISED:
            return "" if result.status is Status.RAISED else f"is {result.status.value}, not raised"
        if result.status is not Status.WRONG:
            return f"is {result.status.value}, not refused by {check}: {result.message}"
        refused = [check.name for check in result.checks if not check.passed]
        return "" if check_sentence(check) in refused else f"is not refused by {check}, but by: {', '.join(refused)}"


@dataclass(frozen=True)
class Answers:
    """All answers to one exercise. `survivors` maps headlines of mutants that are right to the reasons."""

    every: tuple[Answer, ...]
    survivors: dict[str, str] = field(default_factory=dict)

    @property
    def right(self) -> list[Answer]:
        """The right answers, the solution first."""
        return [answer for answer in self.every if answer.passes]

    def listings(self, headline: str) -> list[str]:
        """The entries of `survivors` that list a mutant with this headline as right."""
        texts = {begin: [re.escape(text.strip()) for text in begin.split("…")] for begin in self.survivors}
        return [begin for begin, parts in texts.items() if re.match(".*".join(parts), headline)]


def answers_to(exercise: Exercise) -> Answers:
    """The solution of an exercise, and the answers in its file. Raises `SourceError` when there is no such file."""
    source = course.lesson_source(exercise.lesson)
    there = _answers_module(exercise)
    solution = f"{imports_of(source)}\n{exercise_cells(source)[exercise.key]}"
    right = enumerate(getattr(there, "RIGHT", []), 1)
    every = (
        Answer("the solution", solution, passes=True),
        *(Answer(f"right answer {number}", text, passes=True) for number, text in right),
        *map(_wrong_answer, getattr(there, "WRONG", [])),
    )
    return Answers(every, dict(getattr(there, "SURVIVORS", {})))


def _wrong_answer(wrong: Wrong) -> Answer:
    what = f"the wrong answer {wrong.what!r}"
    return Answer(
        what,
        wrong.source,
        mistake=wrong.mistake,
        check=wrong.check,
        violates=wrong.violates,
        unshown=wrong.unshown,
    )


def unfounded_quotes(exercise: Exercise, answers: Answers) -> Iterator[str]:
    """Problems with wrong answers whose quotes are in neither the contract nor a rule, or whose checks do not exist."""
    known = [" ".join(text.split()) for text in (exercise.contract, brief_rules())]
    names = {check.name for check in exercise.checks} | {RAISED, None}
    for answer in answers.every:
        if answer.check not in names:
            there = ", ".join(check.name for check in exercise.checks)
            yield f"{exercise.key}: {answer.what} names the check {answer.check}, which is not there: {there}"
        if answer.violates is not None and not any(" ".join(answer.violates.split()) in text for text in known):
            yield f"{exercise.key}: {answer.what} quotes {answer.violates!r}, which is not in the contract or the rules"


def run_answer(source: str) -> dict[str, Any]:
    """The names that the text of an answer's cell defines when it is run."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<answer>", "exec"), namespace)
    return namespace


def imports_of(source: str) -> str:
    """All import statements of a lesson's source, on which its exercise cells may rely."""
    statements = [node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(ast.unparse(statement) for statement in statements)


def _answers_module(exercise: Exercise) -> ModuleType:
    """The module `tests/answers/lesson_NN_topic/function_name.py`. Raises `SourceError` when it is missing."""
    file = exercise_files(exercise.key, exercise.lesson).answers
    if not file.exists():
        raise SourceError(f"{file} is missing: it holds right answers in other styles")
    return load_module(file)


def load_module(file: Path) -> ModuleType:
    """Load a Python file as a module; it may import from files beside it, as in `from .shared import ...`.

    Raises `SourceError`, with the line, when that fails.
    """
    folder = f"answers_{file.parent.name}"
    if folder not in sys.modules:
        _execute_module(folder, file.parent / "__init__.py", [str(file.parent)])
    return _execute_module(f"{folder}.{file.stem}", file)


def _execute_module(name: str, file: Path, folders: list[str] | None = None) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    if spec is None or spec.loader is None or not file.exists():
        raise SourceError(f"{file} cannot be imported")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # an author's slip may raise anything
        del sys.modules[name]
        where = error.lineno if isinstance(error, SyntaxError) else _line_of(error, file)
        raise SourceError(f"{file}, line {where}: {type(error).__name__}: {error}") from error
    return module


def _line_of(error: Exception, file: Path) -> int | str:
    """The line of the file that raised the exception, or called what raised it; "?" if there is none."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return lines[-1] if lines and lines[-1] else "?"
