"""A check whose expected numbers depend on rounding is found, whatever the exercise says in its `oracle`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from graders.core.exercise import Check
from graders.core.expect import Seen, expect
from graders.judge.certain import uncertain
from graders.run.transcript import Outcome
from tests.sample import TestScaleSum as SCALE_SUM

PLAIN = torch.arange(1.0, 9.0) / 7
NEARLY_OPPOSITE = torch.cat([PLAIN, -PLAIN + 2.0**-20])


def compared(x: Tensor, check: Callable[..., None]) -> list[str]:
    exercise = replace(SCALE_SUM, checks=(Check("test_it", check),))
    return list(uncertain(exercise, [{"x": x}], [Outcome(seen=Seen({"total": 0.0, "y": 0.0}))]))


def total(seen: Any, x: Any) -> None:
    expect(seen["total"]).close_to(x.sum())


def relative(seen: Any, x: Any) -> None:
    expect(seen["total"]).close_to(float(x.sum()), rtol=1e-5, atol=0)


def after_another(seen: Any, x: Any) -> None:
    expect(seen["y"]).close_to(x.abs())
    relative(seen, x)


def behind_a_condition_on_the_dtype(seen: Any, x: Any) -> None:
    relative(seen, x)
    expect(Seen(str(x.dtype))).equals("torch.float32")
    expect(seen["y"]).close_to(x)


@pytest.mark.parametrize("check", [total, relative, after_another, behind_a_condition_on_the_dtype])
def test_well_conditioned_numbers_are_certain(check: Callable[..., None]) -> None:
    assert compared(PLAIN, check) == []


@pytest.mark.parametrize("check", [relative, after_another, behind_a_condition_on_the_dtype])
def test_a_sum_of_nearly_opposite_numbers_is_not(check: Callable[..., None]) -> None:
    (problem,) = compared(NEARLY_OPPOSITE, check)
    assert problem.startswith("case 0: what is expected of 'total' moves by ")
    assert problem.endswith("of its tolerance when the draw is rounded otherwise, more than 0.1; name it in `oracle`")


def test_what_is_far_below_the_absolute_tolerance_may_move() -> None:
    assert compared(NEARLY_OPPOSITE, total) == []


def test_comparisons_as_close_as_float64_allows_are_left_alone() -> None:
    def closely(seen: Any, x: Any) -> None:
        expect(seen["total"]).close_to(float(x.sum()), rtol=1e-12, atol=0)
        expect(seen["y"]).close_to(x.double())

    assert compared(NEARLY_OPPOSITE.double(), total) == []
    assert compared(NEARLY_OPPOSITE, closely) == []


def test_another_number_of_entries_is_no_less_uncertain_than_another_number() -> None:
    def of_those_above(seen: Any, x: Any) -> None:
        expect(seen["y"]).close_to(x[x >= PLAIN[2]] if x.dtype == torch.float32 else x[:1])

    (problem,) = compared(PLAIN, of_those_above)
    assert "moves by inf of its tolerance" in problem


def test_numbers_are_compared_again_afterwards() -> None:
    compared(PLAIN, total)
    with pytest.raises(AssertionError, match="expected the number 1"):
        expect(Seen("a text")).close_to(1.0)
