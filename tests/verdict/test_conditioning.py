"""Numbers that rounding moves, and by how much it may."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from graders.verdict.conditioning import ROUNDING_SHARE, disturb_last_digits, looks_like_rounding, share_used


def test_disturbed_numbers_are_off_by_half_a_digit_and_equal_ones_stay_equal() -> None:
    x = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    off = disturb_last_digits(x) / x.double() - 1
    assert off.dtype == torch.float64
    assert torch.allclose(off.abs(), torch.tensor(2.0**-24, dtype=torch.float64), rtol=1e-6)
    assert 300 < int((off > 0).sum()) < 700
    assert torch.equal(disturb_last_digits(-x.flip(0)), -disturb_last_digits(x).flip(0))
    assert torch.equal(disturb_last_digits(torch.tensor([0.0, torch.inf])), torch.tensor([0.0, torch.inf]).double())
    assert torch.equal(disturb_last_digits(x.view(20, 50).T), disturb_last_digits(x).view(20, 50).T)
    assert disturb_last_digits(torch.tensor(3.0)).shape == ()


@pytest.mark.parametrize(
    ("rough", "fine", "good"),
    [
        (1.0, 1.0 + 1e-6, True),
        (1.0, 1.0 + 3e-6, False),
        ([math.inf, 1.0], [math.inf, 1.0], True),
        (math.nan, math.nan, True),
        (math.inf, 1e30, False),
        ([], [], True),
        ([torch.nan, 1.0], [0.5, 1.0], False),
        ([0.5, 1.0], [torch.nan, 1.0], False),
    ],
)
def test_a_tenth_of_the_tolerance(rough: Any, fine: Any, good: bool) -> None:
    numbers = (torch.tensor(one, dtype=torch.float64) for one in (rough, fine))
    assert (share_used(*numbers, 1e-5, 1e-5) <= ROUNDING_SHARE) is good


def test_what_rounding_leaves_of_a_sum_that_is_zero_is_told_from_other_small_numbers() -> None:
    left = torch.tensor([0.1, 0.2, -0.3], dtype=torch.float64).sum()
    assert left != 0
    assert looks_like_rounding(left)
    for other in (0.0, 1e-12, 1e-30, 1e-60, 1.0):
        assert not looks_like_rounding(torch.tensor(other, dtype=torch.float64))
    assert not looks_like_rounding(torch.tensor([1.0, 1e-17], dtype=torch.float64))
    assert not looks_like_rounding(torch.tensor([], dtype=torch.float64))
