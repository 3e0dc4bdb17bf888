"""Judges one submission: turns its run into a result for each exercise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from graders.core.cells import bound_names_by_cell
from graders.core.exercise import Exercise, Inputs
from graders.core.results import ExerciseResult, Status
from graders.core.transcript import Cell, Outcome, Run
from graders.verdict.judge_exercise import judge_exercise, unjudged_result

_CELL_STATUS = {
    "timed-out": Status.TIMED_OUT,
    "over-limit": Status.OVER_LIMIT,
    "crashed": Status.CRASHED,
}


Judge = Callable[[Exercise, Sequence[Inputs], Sequence[Outcome]], ExerciseResult]


class Verdicts:
    """The inputs of a lesson, and a cache of results by what the probes saw.

    Right answers all give the same numbers, and many wrong ones the same wrong numbers, so each is judged only once.
    """

    def __init__(self, draws: dict[str, list[Inputs]], judge: Judge = judge_exercise) -> None:
        """`draws` maps the key of each exercise to one draw for each case."""
        self.draws, self._judge = draws, judge
        self._judged: dict[tuple[str, tuple[Outcome, ...]], ExerciseResult] = {}

    def result_for(self, exercise: Exercise, outcomes: Sequence[Outcome]) -> ExerciseResult:
        """The result of an exercise for the outcomes of all its cases."""
        # The digest stands for the values that were seen, since `==` of two tensors is not one truth value.
        key = exercise.key, tuple(replace(outcome, seen=None) for outcome in outcomes)
        if key in self._judged:
            return self._judged[key]
        try:
            result = self._judge(exercise, self.draws[exercise.key], outcomes)
        except Exception as error:  # a defect of this grader must cost no points, here or in other exercises
            return _grader_defect(exercise, error)
        if all(outcome.digest or outcome.seen is None for outcome in outcomes):
            self._judged[key] = result
        return result


_INVALID = ("SyntaxError", "IndentationError", "TabError")


def judge_submission(
    exercises: Sequence[Exercise], verdicts: Verdicts, cells: Sequence[str], run: Run, keys: Sequence[str] = ()
) -> list[ExerciseResult]:
    """The results of a lesson's exercises for one run of the notebook with these code cells.

    If an exercise was asked in two places, the better result counts; if they are equally good, the one from where the
    exercise is defined. `keys` has for each cell the exercise that its metadata name, or "".
    """
    bound = list(bound_names_by_cell(cells))
    invalid = {cell.index for cell in run.cells if _is_invalid(cell) and cell.index < len(bound)}
    named = {exercise.key: exercise.name for exercise in exercises}
    for index in invalid & set(range(len(keys))):  # a cell such as `dfe f(x):` does not show what it was to define
        bound[index] |= {named[keys[index]]} if keys[index] in named else set()
    results = []
    for exercise in exercises:
        outcomes_by_place = run.outcomes_by_place(exercise.key, len(exercise.cases))
        judged = [(verdicts.result_for(exercise, outcomes), outcomes) for outcomes in outcomes_by_place]
        result, outcomes = max(judged, key=lambda pair: _result_rank(pair[0]))
        if result.status is Status.NOT_ATTEMPTED:
            result = _with_reason(result, exercise, bound, run)
        if result.status is Status.RAISED:
            result = _with_missing_name(result, exercise, bound, run, outcomes)
        homes = [index for index, names in enumerate(bound) if exercise.name in names]
        valid = [index for index in homes if index not in invalid]
        if valid and result.status is not Status.SYNTAX_ERROR and valid[-1] != homes[-1]:
            result = replace(result, note=_note_on_invalid(exercise, valid[-1], homes[-1]))
            homes = valid
        results.append(replace(result, cell=homes[-1] + 1 if homes else None))
    return results


def _note_on_invalid(exercise: Exercise, counts: int, invalid: int) -> str:
    return (
        f"The answer in code cell {counts + 1} counts. Code cell {invalid + 1} defines `{exercise.name}`, too, but is "
        "not valid Python."
    )


def _is_invalid(cell: Cell) -> bool:
    """Whether a cell did not run at all, because it is not valid Python."""
    return cell.status == "raised" and cell.message.partition(":")[0] in _INVALID


def _result_rank(result: ExerciseResult) -> tuple[float, bool, bool]:
    """A key to compare results: points first, then whether it was judged, then whether it was attempted.

    A suspect result ranks with the judged ones, above those without numbers: somebody has to look at it.
    """
    judged = result.status in (Status.PASSED, Status.WRONG, Status.SUSPECT)
    return result.score, judged, result.status is not Status.NOT_ATTEMPTED


def _grader_defect(exercise: Exercise, error: Exception) -> ExerciseResult:
    """The result of an exercise whose grader failed."""
    message = f"The grader of this exercise failed with {type(error).__name__}: {error}"
    return unjudged_result(exercise, Status.NOT_GRADED, message)


def _with_reason(
    result: ExerciseResult, exercise: Exercise, bound: Sequence[frozenset[str]], run: Run
) -> ExerciseResult:
    """The result, which says so if the name is missing, or only a stub has it, because its cell failed."""
    cell = _failed_home(bound, run.cells, exercise.name)
    if cell is None or (result.defined and not _is_invalid(cell)):
        return result
    status = Status.SYNTAX_ERROR if _is_invalid(cell) else _CELL_STATUS.get(cell.status, Status.NOT_ATTEMPTED)
    message = f"`{exercise.name}` was not defined, because {_whole_reason(cell, bound, run)}"
    return replace(result, status=status, message=message)


def _with_missing_name(
    result: ExerciseResult, exercise: Exercise, bound: Sequence[frozenset[str]], run: Run, outcomes: Sequence[Outcome]
) -> ExerciseResult:
    """The result, which says so if the answer uses a name that is missing because another cell failed."""
    for name in filter(None, (outcome.undefined for outcome in outcomes)):
        if cell := _failed_home(bound, run.cells, name, "*"):
            message = f"`{exercise.name}` needs `{name}`, which was not defined, because "
            return replace(result, message=message + _whole_reason(cell, bound, run))
    return result


def _failed_home(bound: Sequence[frozenset[str]], ended: Sequence[Cell], *names: str) -> Cell | None:
    """The last failed cell that would have bound the first of `names`, or else the next name; None if there is none.

    `bound` has the names that each cell binds; "*" stands for those of a star import.
    """
    failed = [cell for cell in ended if cell.status != "ok" and cell.index < len(bound)]
    homes = (cell for name in names for cell in reversed(failed) if name in bound[cell.index])
    return next(homes, None)


def _whole_reason(cell: Cell, bound: Sequence[frozenset[str]], run: Run) -> str:
    """What happened to a cell and, if it lacked a name that an earlier failed cell would have bound, to that cell."""
    reason = describe_cell(cell)
    while cell.undefined and (earlier := _failed_home(bound, run.cells[: run.cells.index(cell)], cell.undefined, "*")):
        cell = earlier
        reason = f"{reason.removesuffix('.')}, because {describe_cell(cell)}"
    return reason


def describe_cell(cell: Cell) -> str:
    """What happened to a cell that did not finish normally. Only code cells are counted, from 1."""
    how = {
        "raised": "failed with",
        "timed-out": "did not finish:",
        "over-limit": "went over a limit:",
        "crashed": "crashed:",
        "skipped": "was not run, because earlier cells kept crashing",
    }
    return f"code cell {cell.index + 1} {how.get(cell.status, cell.status)} {cell.message}".strip() + "."
