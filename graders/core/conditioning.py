"""Conditioning: whether the right answer of a draw stands out from rounding. Where it does not, we draw again.

A right answer may add up in another order than we do, and rounds differently. How much that matters is told by what the
reference shows for the same draw in float32, in float64, and in float64 from inputs that were rounded otherwise: what a
computation in float32 gets wrong is much like what a wrong last digit of its inputs does.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

ROUNDING_SHARE = 0.1
"""The part of the tolerance that rounding may use up."""
HALF_A_DIGIT = 2.0**-24
"""By how much rounding to float32 changes a number at most, as a part of it."""


def disturb_last_digits(t: Tensor) -> Tensor:
    """In float64, every number up or down by half a digit of float32; which of the two, its own digits decide.

    So equal numbers stay equal, also up to their sign: a constant channel stays constant, and a tie a tie.
    """
    fine = t.double()
    digits = fine.abs().float().contiguous().view(torch.int32).long()
    up = (digits * 2654435761 >> 15) & 1
    return fine * (1 + HALF_A_DIGIT * (2 * up.double() - 1))


def share_used(rough: Tensor, fine: Tensor, rtol: float, atol: float) -> float:
    """The largest part of the tolerance by which float64 tensors of equal shape differ; inf if one alone is finite."""
    apart = (rough - fine).abs() / (atol + rtol * fine.abs())
    apart[(rough == fine) | (rough.isnan() & fine.isnan())] = 0.0  # also where both are infinite
    worst = float(apart.max()) if apart.numel() else 0.0
    return worst if math.isfinite(worst) else math.inf
