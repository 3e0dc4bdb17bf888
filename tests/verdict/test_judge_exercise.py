from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from graders.core.difference import Difference, Kind
from graders.core.errors import ExerciseDefect
from graders.core.exercise import Check
from graders.core.expect import Seen
from graders.core.results import CheckResult, ExerciseResult, Status
from graders.core.transcript import Outcome
from graders.verdict.judge_exercise import describe_outcome, judge_exercise
from graders.wire.data import decode, encode
from tests.sample import SCALE_SUM

SEED = 5
DRAWS = SCALE_SUM.draws(SEED)


def right(draw: dict[str, Any], **changes: Any) -> Outcome:
    """What a right answer shows on a draw, with some of its parts changed."""
    factor = {"double": 2.0, "negate": -1.0}[draw["kind"]]
    seen = {"total": factor * draw["x"].sum(), "x.grad": torch.full_like(draw["x"], factor), "hooks": 0, **changes}
    return Outcome(seen=Seen(decode(*encode(seen))))


def marked(*outcomes: Outcome) -> ExerciseResult:
    return judge_exercise(SCALE_SUM, DRAWS, outcomes)


def held(result: ExerciseResult) -> Sequence[bool]:
    """Which checks hold."""
    return [check.passed for check in result.checks]


def test_full_marks_when_every_check_holds_on_every_draw() -> None:
    sentences = ("the sum is right", "the gradient is right", "no hook is left")
    assert marked(*map(right, DRAWS)) == ExerciseResult(
        key="90-scale-sum",
        status=Status.PASSED,
        score=3,
        max_score=3,
        checks=tuple(CheckResult(name=name, passed=True, score=1.0, max_score=1.0) for name in sentences),
    )


def test_a_condition_that_fails_costs_its_share() -> None:
    result = marked(right(DRAWS[0]), right(DRAWS[1], hooks=2))
    assert (result.status, result.score, held(result)) == (Status.WRONG, 2.0, [True, True, False])
    assert [check.score for check in result.checks] == [1.0, 1.0, 0.0]
    assert result.checks[2].message == result.message == "hooks: expected 0, saw 2"


def test_no_condition_earns_points_while_the_task_itself_fails() -> None:
    result = marked(right(DRAWS[0]), right(DRAWS[1], total=torch.tensor(99.0)))
    assert (result.status, result.score, held(result)) == (Status.WRONG, 0.0, [False, True, True])
    assert [(check.score, check.max_score) for check in result.checks] == [(0.0, 1.0)] * 3
    expected = -DRAWS[1]["x"].sum().item()
    assert result.message == f"total: expected {expected:g}, saw 99"
    assert result.checks[0].difference == Difference(Kind.VALUE, "total", "", f"{expected:g}", "99")
    assert result.checks[1].difference is None


def test_a_check_shows_the_first_draw_on_which_it_fails() -> None:
    result = marked(right(DRAWS[0], hooks=3), right(DRAWS[1], hooks=4))
    assert result.checks[2].message == "hooks: expected 0, saw 3"


def test_a_recognised_mistake_explains_the_numbers() -> None:
    result = marked(*(right(draw, total=draw["x"].sum()) for draw in DRAWS))
    assert (result.status, result.mistake) == (Status.WRONG, "not-scaled")
    assert result.message == "You added up `x` itself: scale it first."
    assert result.checks[0].message.startswith("total: expected ")


def test_an_answer_of_any_shape_is_wrong_and_no_error() -> None:
    for seen in (None, [], {}, "text", {"total": None, "x.grad": [1], "hooks": "0"}):
        result = judge_exercise(SCALE_SUM, DRAWS, [Outcome(seen=Seen(decode(*encode(seen))))] * 2)
        assert (result.status, result.score) == (Status.WRONG, 0.0)
        assert result.checks[0].message.startswith("total: expected a tensor, saw ")


RAISED = Outcome(
    seen=None,
    status=Status.RAISED,
    error="ValueError",
    message="no",
    line="line 2 of its cell: raise ValueError",
    call="scale_sum(1, 2)",
)


def test_an_exception_on_one_draw_costs_the_exercise() -> None:
    result = marked(right(DRAWS[0]), RAISED)
    assert (result.status, result.score, result.mistake) == (Status.RAISED, 0.0, None)
    assert result.message == (
        "`scale_sum` raised ValueError: no at line 2 of its cell: raise ValueError. The call was scale_sum(1, 2)."
    )
    assert [(check.passed, check.score, check.max_score, check.message) for check in result.checks] == [
        (False, 0.0, 1.0, "not judged")
    ] * 3


def test_what_was_printed_is_that_of_the_first_draw_that_failed() -> None:
    good, other = (replace(right(draw), printed=f"good {draw['kind']}") for draw in DRAWS)
    bad = replace(right(DRAWS[1], hooks=1), printed="bad")
    assert marked(good, other).printed == "good double"
    assert marked(good, bad).printed == "bad"
    assert marked(good, replace(RAISED, printed="raised")).printed == "raised"


def test_an_exception_can_be_a_known_mistake() -> None:
    message = "grad can be implicitly created only for scalar outputs"
    result = marked(right(DRAWS[0]), Outcome(status=Status.RAISED, error="RuntimeError", message=message))
    assert (result.status, result.mistake) == (Status.RAISED, "no-sum")
    assert result.message == f"Add up the entries with `sum()`. (RuntimeError: {message})"


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (Status.RAISED, Status.NOT_ATTEMPTED, Status.RAISED),
        (Status.TIMED_OUT, Status.RAISED, Status.TIMED_OUT),
        (Status.TIMED_OUT, Status.OVER_LIMIT, Status.OVER_LIMIT),
        (Status.OVER_LIMIT, Status.CRASHED, Status.CRASHED),
        (Status.CRASHED, Status.NOT_GRADED, Status.NOT_GRADED),
        (Status.NOT_GRADED, Status.SUSPECT, Status.SUSPECT),
    ],
)
def test_the_gravest_end_of_its_draws_is_that_of_the_exercise(first: Status, second: Status, status: Status) -> None:
    assert marked(Outcome(status=first), Outcome(status=second)).status == status
    assert marked(Outcome(status=second), Outcome(status=first)).status == status


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (Outcome(status=Status.NOT_ATTEMPTED, error="NotImplementedError"), "`scale_sum` is not attempted yet."),
        (
            Outcome(status=Status.NOT_ATTEMPTED, message="the notebook defines no `scale_sum`", defined=False),
            "`scale_sum` is not attempted yet: the notebook defines no `scale_sum`.",
        ),
        (Outcome(status=Status.RAISED, error="E", message="m"), "`scale_sum` raised E: m."),
        (
            Outcome(status=Status.RAISED, error="KeyboardInterrupt", line="line 4 of its cell: pass", call="f(1)"),
            "`scale_sum` was interrupted before it finished at line 4 of its cell: pass. The call was f(1).",
        ),
        (Outcome(status=Status.TIMED_OUT, message="late"), "`scale_sum` did not finish: late."),
        (Outcome(status=Status.OVER_LIMIT, message="memory"), "`scale_sum` went over a limit: memory."),
        (Outcome(status=Status.CRASHED, message="gone"), "`scale_sum` gave no result: gone."),
        (
            Outcome(status=Status.SUSPECT, message="odd"),
            "The answer did not follow the protocol (odd). An instructor should look at it.",
        ),
        (
            Outcome(status=Status.NOT_GRADED, message="disk full"),
            "This could not be graded, through no fault of the learner: disk full.",
        ),
    ],
)
def test_every_end_is_one_sentence(outcome: Outcome, sentence: str) -> None:
    assert describe_outcome(SCALE_SUM, outcome) == sentence


def test_a_defect_of_a_check_is_not_the_learners_wrong_answer() -> None:
    def fail(seen: Seen, draw: Any) -> None:
        raise ExerciseDefect("the reference fails")

    defective = replace(SCALE_SUM, checks=(Check("test_it", fail),))
    with pytest.raises(ExerciseDefect, match="the reference fails"):
        judge_exercise(defective, DRAWS, [right(draw) for draw in DRAWS])


@pytest.mark.parametrize(
    ("error", "call", "parts"),
    [
        ("E" * 100, "", ("m… at line 2 of its cell: xxx",)),
        ("RuntimeError", "f(" + "1" * 280, ("raised RuntimeError: mmmm", "m… at line 2 of its", "The call was f(1111")),
    ],
)
def test_a_long_exception_leaves_room_for_the_line_and_the_call(error: str, call: str, parts: Sequence[str]) -> None:
    line = "line 2 of its cell: " + "x" * 280
    outcome = Outcome(status=Status.RAISED, error=error, message="m" * 300, line=line, call=call)
    sentence = marked(outcome, RAISED).message
    assert sentence == describe_outcome(SCALE_SUM, outcome)
    assert len(sentence) <= 300
    assert all(part in sentence for part in parts)


def test_a_check_that_fails_in_its_own_way_makes_the_answer_suspect() -> None:
    def fails(seen: Seen, draw: Any) -> None:
        raise TypeError("what is this?")

    result = judge_exercise(
        replace(SCALE_SUM, checks=(Check("test_it_holds", fails),)), DRAWS, [right(draw) for draw in DRAWS]
    )
    assert (result.status, result.score) == (Status.SUSPECT, 0.0)
    assert result.message == (
        "The answer could not be judged: the check whether it holds failed on it with TypeError: what is this?. "
        "An instructor should look at it."
    )
    assert [(check.passed, check.message) for check in result.checks] == [(False, "not judged")]
