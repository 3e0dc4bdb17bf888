"""Judging in a process of its own: what goes over its limits is suspect, and the next answer is judged as ever."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from graders.core.expect import Seen
from graders.core.results import Status
from graders.core.transcript import Outcome
from graders.verdict.bounded_worker import LARGE, BoundedWorker, Bounds, is_large
from graders.verdict.judge_exercise import judge_exercise
from graders.verdict.judge_submission import Verdicts
from tests.heavy import HEAVY
from tests.sample import SCALE_SUM

DRAWS = HEAVY.draws(1)


def answered(what: str) -> list[Outcome]:
    return [Outcome(seen=Seen([what]), size=LARGE + 1)]


@pytest.fixture(scope="module")
def bench() -> Iterator[BoundedWorker]:
    found = BoundedWorker(Bounds(seconds=4, memory=256 << 20))
    yield found
    found.close()


@pytest.mark.parametrize(
    ("what", "why"),
    [("time", "judging it took more than 4 seconds or 256 MiB"),
     ("memory", "the check whether it ends failed on it with MemoryError")],
)  # fmt: skip
def test_what_goes_over_the_limits_is_suspect_and_the_next_is_judged(bench: BoundedWorker, what: str, why: str) -> None:
    result = bench.judge(HEAVY, DRAWS, answered(what))
    assert (result.status, result.score, result.max_score) == (Status.SUSPECT, 0.0, 1)
    assert result.message == f"The answer could not be judged: {why}. An instructor should look at it."
    assert bench.judge(HEAVY, DRAWS, answered("good")).status is Status.PASSED


def test_the_clock_ends_what_uses_no_core() -> None:
    bench = BoundedWorker(Bounds(seconds=1000, clock=0.5))
    assert bench.judge(HEAVY, DRAWS, answered("time")).status is Status.SUSPECT


def test_it_comes_to_the_same_result(bench: BoundedWorker) -> None:
    draws = SCALE_SUM.draws(1)
    outcomes = [Outcome(seen=Seen({"total": 1.0}), size=LARGE + 1) for _ in draws]
    assert bench.judge(SCALE_SUM, draws, outcomes) == judge_exercise(SCALE_SUM, draws, outcomes)


def test_a_defect_of_ours_is_raised_here_too(bench: BoundedWorker) -> None:
    with pytest.raises(RuntimeError, match=r"AttributeError: .*'GONE'"):
        bench.judge(replace(HEAVY, class_name="GONE"), DRAWS, answered("good"))


def test_only_large_answers_are_judged_there() -> None:
    assert not is_large([])
    assert not is_large([Outcome(size=LARGE), Outcome(status=Status.RAISED)])
    assert is_large([Outcome(size=1), Outcome(size=LARGE + 1)])
    assert Verdicts({HEAVY.key: DRAWS}).result_for(HEAVY, answered("good")).status is Status.PASSED


def test_a_check_that_fails_in_its_own_way_is_suspect() -> None:
    result = judge_exercise(HEAVY, DRAWS, answered("raise"))
    assert (result.status, result.score) == (Status.SUSPECT, 0.0)
    assert result.message == (
        "The answer could not be judged: the check whether it ends failed on it with TypeError: what is this?. "
        "An instructor should look at it."
    )
    assert [(check.passed, check.message) for check in result.checks] == [(False, "not judged")]
