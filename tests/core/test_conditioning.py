"""Draws at the mercy of rounding, and draws that are not."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from graders.core.conditioning import disturbed, well_conditioned

LIMITS = (1e-5, 1e-5)
NEARLY_EQUAL = {"x": 1 + torch.tensor([0.0, 1.0, 3.0, -2.0]) / 2**20}


def normed(draw: dict[str, Any]) -> Any:
    x = draw["x"]
    return [(x - x.mean()) / (x - x.mean()).pow(2).mean().sqrt()]


def test_a_norm_of_nearly_equal_numbers_is_ill_conditioned() -> None:
    assert not well_conditioned(normed, NEARLY_EQUAL, LIMITS)
    assert well_conditioned(normed, {"x": torch.tensor([1.0, 2.0, 4.0, -1.5])}, LIMITS)


def test_disturbed_numbers_are_off_by_half_a_digit_and_equal_ones_stay_equal() -> None:
    x = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    off = disturbed(x) / x.double() - 1
    assert off.dtype == torch.float64
    assert torch.allclose(off.abs(), torch.tensor(2.0**-24, dtype=torch.float64), rtol=1e-6)
    assert 300 < int((off > 0).sum()) < 700
    assert torch.equal(disturbed(-x.flip(0)), -disturbed(x).flip(0))
    assert torch.equal(disturbed(torch.tensor([0.0, torch.inf])), torch.tensor([0.0, torch.inf]).double())
    assert torch.equal(disturbed(x.view(20, 50).T), disturbed(x).view(20, 50).T)
    assert disturbed(torch.tensor(3.0)).shape == ()


def test_the_oracle_gets_both_dtypes_in_lists_and_dicts_and_no_other_tensor_changes() -> None:
    got: list[Any] = []

    def oracle(draw: Any) -> float:
        got.append((draw["a"][0].dtype, draw["b"]["c"].dtype, draw["mask"].dtype, draw["k"]))
        return 0.5

    draw = {"a": [torch.ones(2, dtype=torch.float64)], "b": {"c": torch.ones(1)}, "mask": torch.ones(1).bool(), "k": 2}
    assert well_conditioned(oracle, draw, LIMITS)
    fine, rough = (torch.float64, torch.float64, torch.bool, 2), (torch.float32, torch.float32, torch.bool, 2)
    assert got == [fine, rough, fine]


@pytest.mark.parametrize(
    ("rough", "fine", "good"),
    [
        (1.0, 1.0 + 1e-6, True),
        (1.0, 1.0 + 3e-6, False),
        ([math.inf, 1.0], [math.inf, 1.0], True),
        (math.nan, math.nan, True),
        (math.inf, 1e30, False),
        ([1.0], [1.0, 2.0], False),
        ({"a": (1.0, "text")}, {"a": (1.0, "text")}, True),
        (torch.zeros(2), torch.zeros(3), False),
        (torch.zeros(0), torch.zeros(0), True),
    ],
)
def test_a_tenth_of_the_tolerance(rough: Any, fine: Any, good: bool) -> None:
    results = iter([fine, rough, fine])
    assert well_conditioned(lambda draw: next(results), {}, LIMITS) is good
