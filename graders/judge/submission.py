"""Judging one submission: its run, cell by cell and exercise by exercise."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from graders.core.exercise import Draw, Exercise
from graders.core.results import CheckResult, ExerciseResult, Status
from graders.core.text import clean
from graders.judge.mark import mark
from graders.run.transcript import Cell, Run

_CELL_STATUS = {
    "timed-out": Status.TIMED_OUT,
    "over-limit": Status.OVER_LIMIT,
    "crashed": Status.CRASHED,
}


def judge(
    exercises: Sequence[Exercise], draws: dict[str, list[Draw]], cells: Sequence[str], run: Run
) -> list[ExerciseResult]:
    """The results of a lesson's exercises for one run of the notebook with these code cells."""
    results = []
    for exercise in exercises:
        outcomes = [run.outcome(exercise.key, case) for case in range(len(exercise.cases))]
        try:
            result = mark(exercise, draws[exercise.key], outcomes)
        except Exception as error:  # a defect of this grader: not the learner's zero, and no other exercise's
            result = _defect(exercise, error)
        if result.status is Status.NOT_ATTEMPTED:
            result = _with_reason(result, exercise, cells, run)
        results.append(result)
    return results


def _defect(exercise: Exercise, error: Exception) -> ExerciseResult:
    """An exercise whose grader failed."""
    message = f"The grader of this exercise failed with {type(error).__name__}: {error}"
    return ExerciseResult(exercise.key, Status.NOT_GRADED, 0.0, exercise.points, None, clean(message), (
        *(CheckResult(check.sentence, False, 0.0, exercise.points / len(exercise.checks), "not judged")
          for check in exercise.checks),
    ))  # fmt: skip


def _with_reason(result: ExerciseResult, exercise: Exercise, cells: Sequence[str], run: Run) -> ExerciseResult:
    """A name that is missing because its cell failed says so, and where."""
    homes = [cell for cell in run.cells if cell.status != "ok" and cell.index < len(cells)
             and defines(cells[cell.index], exercise.name)]  # fmt: skip
    if not homes or "defines no" not in result.message:
        return result
    cell = homes[-1]
    status = _CELL_STATUS.get(cell.status, Status.NOT_ATTEMPTED)
    message = f"`{exercise.name}` was not defined, because {explain(cell)}"
    return replace(result, status=status, message=clean(message))


def explain(cell: Cell) -> str:
    """What became of a cell that did not run through. Cells are counted from 1, code cells only."""
    how = {
        "raised": "stopped with",
        "timed-out": "did not end:",
        "over-limit": "went over a limit:",
        "crashed": "crashed:",
        "skipped": "was not run, because earlier cells kept crashing",
    }
    return f"code cell {cell.index + 1} {how.get(cell.status, cell.status)} {cell.message}".strip() + "."


def defines(source: str, name: str) -> bool:
    """Whether a cell would bind `name`; a cell that cannot be parsed is searched as text."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return re.search(rf"^\s*(?:async\s+def|def|class)\s+{name}\b|^\s*{name}\s*=(?!=)", source, re.M) is not None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            return True
    return False
