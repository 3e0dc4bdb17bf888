from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from graders.core.exercise import Exercise, Inputs
from graders.core.results import ExerciseResult, Status
from graders.core.transcript import Cell, Outcome, Run, read_transcript
from graders.verdict.judge_exercise import judge_exercise
from graders.verdict.judge_submission import Verdicts, describe_cell, judge_submission
from graders.wire.data import encode
from graders.wire.frames import Frame
from tests.sample import SCALE_SUM, WRAP

MISSING = Outcome(status=Status.NOT_ATTEMPTED, message="the notebook defines no `wrapped_layer`", defined=False)
CELL = "def wrapped_layer(layer):\n    return layer"


STUB_FOUND = Outcome(status=Status.NOT_ATTEMPTED, error="NotImplementedError")


def judged(cells: list[str], *ends: Cell, outcome: Outcome = MISSING, keys: Sequence[str] = ()) -> ExerciseResult:
    """The result of the exercise `wrapped_layer` when its probe ended like this, in a run with these cells."""
    run = Run(tuple(ends), {("90-wrap", 0, 0): outcome})
    (result,) = judge_submission([WRAP], Verdicts({"90-wrap": WRAP.draws(1)}), cells, run, keys)
    return result


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        ("raised", Status.NOT_ATTEMPTED, "code cell 2 failed with NameError: x."),
        ("timed-out", Status.TIMED_OUT, "code cell 2 did not finish: NameError: x."),
        ("over-limit", Status.OVER_LIMIT, "code cell 2 went over a limit: NameError: x."),
        ("crashed", Status.CRASHED, "code cell 2 crashed: NameError: x."),
    ],
)
def test_a_name_is_missing_because_its_cell_failed(end: str, status: Status, reason: str) -> None:
    result = judged(["1", CELL], Cell(0, "ok", ""), Cell(1, end, "NameError: x"))
    assert (result.status, result.score) == (status, 0.0)
    assert result.message == f"`wrapped_layer` was not defined, because {reason}"


INVALID = "SyntaxError: expected ':' (x.py, line 1)"


@pytest.mark.parametrize("error", ["SyntaxError", "IndentationError", "TabError"])
@pytest.mark.parametrize("stub_found", [True, False])
def test_an_answer_that_is_not_valid_python_is_no_missing_one(error: str, stub_found: bool) -> None:
    cells = [CELL, CELL.replace(":", "")]
    result = judged(
        cells, Cell(0, "ok", ""), Cell(1, "raised", f"{error}: no"), outcome=STUB_FOUND if stub_found else MISSING
    )
    assert (result.status, result.score, result.cell) == (Status.SYNTAX_ERROR, 0.0, 2)
    assert result.message == f"`wrapped_layer` was not defined, because code cell 2 failed with {error}: no."


def test_an_answer_behind_a_character_that_nobody_sees_is_found() -> None:
    for character in "\u200b\ufeff\u00a0\u2060":
        result = judged([character + CELL], Cell(0, "raised", INVALID))
        assert (result.status, result.cell) == (Status.SYNTAX_ERROR, 1)


def test_the_metadata_say_what_an_invalid_cell_was_to_define() -> None:
    cells, ends = ["dfe wrapped_layer(layer):"], Cell(0, "raised", INVALID)
    assert judged(cells, ends).status is Status.NOT_ATTEMPTED
    assert judged(cells, ends, keys=["90-wrap"]).status is Status.SYNTAX_ERROR
    assert judged(cells, ends, keys=["90-other"]).status is Status.NOT_ATTEMPTED


def test_beside_an_invalid_cell_the_one_that_python_took_is_named() -> None:
    seen = Outcome(status=Status.RAISED, error="ValueError", message="no")
    result = judged([CELL, CELL.replace(":", "")], Cell(0, "ok", ""), Cell(1, "raised", INVALID), outcome=seen)
    assert (result.status, result.cell) == (Status.RAISED, 1)
    assert result.note == (
        "The answer in code cell 1 counts. Code cell 2 defines `wrapped_layer`, too, but is not valid Python."
    )


def test_the_last_cell_that_failed_and_would_define_the_name_is_named() -> None:
    ends = [Cell(0, "raised", "first"), Cell(1, "raised", "second"), Cell(2, "raised", "third")]
    assert "code cell 2 failed with second." in judged([CELL, CELL, "other = 1 / 0"], *ends).message


def test_a_failed_cell_that_defines_something_else_is_no_reason() -> None:
    result = judged(["other = 1 / 0"], Cell(0, "raised", "no"))
    assert (result.status, result.message) == (
        Status.NOT_ATTEMPTED,
        "`wrapped_layer` is not attempted yet: the notebook defines no `wrapped_layer`.",
    )


def test_a_failed_cell_is_no_reason_when_the_name_is_there() -> None:
    stub = Outcome(status=Status.NOT_ATTEMPTED, error="NotImplementedError")
    assert judged([CELL], Cell(0, "raised", "no"), outcome=stub).message == "`wrapped_layer` is not attempted yet."


NEEDS_NN = Outcome(status=Status.RAISED, error="NameError", message="name 'nn' is not defined", undefined="nn")
NO_PANDAS = "ModuleNotFoundError: No module named 'pandas'"


def test_an_answer_that_needs_a_name_of_a_failed_cell_names_that_cell_and_its_error() -> None:
    cells = ["!pip install pandas\nimport pandas\nfrom torch import nn", CELL]
    result = judged(cells, Cell(0, "raised", NO_PANDAS), Cell(1, "ok", ""), outcome=NEEDS_NN)
    assert (result.status, result.message) == (
        Status.RAISED,
        f"`wrapped_layer` needs `nn`, which was not defined, because code cell 1 failed with {NO_PANDAS}.",
    )
    slow = judged(["import time\ntime.sleep(99)\nnn = 1", CELL], Cell(0, "timed-out", "60 s"), outcome=NEEDS_NN)
    assert (
        slow.message == "`wrapped_layer` needs `nn`, which was not defined, because code cell 1 did not finish: 60 s."
    )


def test_a_name_that_no_failed_cell_would_have_bound_is_the_answers_own_affair() -> None:
    for cells, end in ((["from torch import nn", CELL], "ok"), (["import pandas", CELL], "raised")):
        result = judged(cells, Cell(0, end, NO_PANDAS), outcome=NEEDS_NN)
        assert result.message == "`wrapped_layer` raised NameError: name 'nn' is not defined."


def test_a_failed_cell_that_would_have_bound_everything_of_a_package_is_a_reason_when_no_other_is() -> None:
    ends = Cell(0, "raised", "first"), Cell(1, "raised", "second")
    cells = ["from fastai.vision.all import *", "import pandas", CELL]
    assert "code cell 1 failed with first." in judged(cells, *ends, outcome=NEEDS_NN).message
    assert "code cell 2 failed with second." in judged([*cells[:1], "nn = f()"], *ends, outcome=NEEDS_NN).message
    assert "the notebook defines no" in judged(cells[:1], *ends).message


def test_the_reason_is_followed_to_the_first_cell_that_failed() -> None:
    ends = Cell(0, "raised", NO_PANDAS), Cell(1, "raised", "NameError: name 'nn' is not defined", undefined="nn")
    result = judged(["import pandas\nfrom torch import nn", "class A(nn.Module):\n    pass\n" + CELL], *ends)
    assert result.message == (
        "`wrapped_layer` was not defined, because code cell 2 failed with NameError: name 'nn' is not defined, "
        f"because code cell 1 failed with {NO_PANDAS}."
    )


def test_a_cell_that_the_notebook_does_not_have_is_no_reason() -> None:
    assert "the notebook defines no" in judged([CELL], Cell(7, "raised", "no")).message


def test_each_exercise_is_judged_by_its_own_outcomes() -> None:
    draws: dict[str, Any] = {exercise.key: exercise.draws(1) for exercise in (SCALE_SUM, WRAP)}
    late = Outcome(status=Status.TIMED_OUT, message="late")
    run = Run((), {("90-scale-sum", 0, 0): late, ("90-wrap", 0, 0): MISSING}, ended="died", message="gone")
    results = judge_submission([SCALE_SUM, WRAP], Verdicts(draws), [], run)
    assert [(exercise.key, exercise.status) for exercise in results] == [
        ("90-scale-sum", Status.TIMED_OUT),
        ("90-wrap", Status.NOT_ATTEMPTED),
    ]


def test_a_defect_of_a_grader_is_nobodys_zero_and_costs_no_other_exercise() -> None:
    def judge(exercise: Exercise, draws: Sequence[Inputs], outcomes: Sequence[Outcome]) -> ExerciseResult:
        if exercise is SCALE_SUM:
            raise ZeroDivisionError("a check of ours")
        return judge_exercise(exercise, draws, outcomes)

    verdicts = Verdicts({exercise.key: exercise.draws(1) for exercise in (SCALE_SUM, WRAP)}, judge)
    found = judge_submission([SCALE_SUM, WRAP], verdicts, [], Run((), {("90-wrap", 0, 0): MISSING}))
    assert [result.status for result in found] == [Status.NOT_GRADED, Status.NOT_ATTEMPTED]
    assert found[0].message == "The grader of this exercise failed with ZeroDivisionError: a check of ours"


def test_cells_are_counted_from_one() -> None:
    assert describe_cell(Cell(0, "raised", "ValueError: no")) == "code cell 1 failed with ValueError: no."
    assert describe_cell(Cell(4, "skipped", "")) == "code cell 5 was not run, because earlier cells kept crashing."


def test_the_cell_that_defines_the_answer_is_named_the_last_of_several() -> None:
    assert judged([CELL, "1", CELL, "wrapped_layer(2)"], outcome=MISSING).cell == 3
    assert judged(["1"], outcome=MISSING).cell is None


def test_equal_numbers_are_judged_once_and_others_again() -> None:
    draws = SCALE_SUM.draws(1)
    judged: list[object] = []

    def counted(*given: Any) -> ExerciseResult:
        judged.append(given)
        return judge_exercise(*given)

    verdicts = Verdicts({"90-scale-sum": draws}, counted)
    right, wrong = (
        [observed(draw["x"], factor) for draw, factor in zip(draws, factors)] for factors in ((2, -1), (1, 1))
    )
    results = [
        verdicts.result_for(SCALE_SUM, outcomes) for outcomes in (right, wrong, list(right), wrong[:1] + right[1:])
    ]
    assert [exercise.status for exercise in results] == [Status.PASSED, Status.WRONG, Status.PASSED, Status.WRONG]
    assert len(judged) == 3
    unknown = [replace(outcome, digest="") for outcome in wrong]
    assert verdicts.result_for(SCALE_SUM, unknown).status is Status.WRONG
    assert verdicts.result_for(SCALE_SUM, [replace(outcome, digest="") for outcome in right]).status is Status.PASSED


def test_of_two_places_the_one_that_was_judged_counts() -> None:
    draws = SCALE_SUM.draws(1)
    wrong = {("90-scale-sum", 1, case): observed(draw["x"], 1) for case, draw in enumerate(draws)}
    raised = Outcome(status=Status.RAISED, error="NameError", message="no")
    for first in (raised, Outcome(status=Status.NOT_ATTEMPTED)):
        run = Run((), {("90-scale-sum", 0, 0): first, **wrong})
        (result,) = judge_submission([SCALE_SUM], Verdicts({"90-scale-sum": draws}), ["", ""], run)
        assert result.status is Status.WRONG


def observed(x: Tensor, factor: int) -> Outcome:
    """What comes out of a box for an answer that scales by `factor`."""
    tree, body = encode({"total": factor * x.sum(), "x.grad": torch.full_like(x, factor), "hooks": 0})
    frames = [Frame({"type": "asked", "key": "k", "case": 0, "cells": 0, "nonce": "n"}),
              Frame({"type": "seen", "tree": tree, "nonce": "n"}, body)]  # fmt: skip
    return read_transcript(frames).outcomes["k", 0, 0]
