"""Measure how much rounding changes the right answer to a draw; where it changes too much, we draw again.

A right answer may add numbers in another order than the reference, and so round differently. To see how much that
matters, the reference runs on the same draw in float32, in float64, and in float64 with the last digits of its inputs
disturbed: an error in the last digit of an input acts much like the rounding errors of a float32 computation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

ROUNDING_SHARE = 0.1
"""The share of a check's tolerance that rounding may use up, from 0 to 1."""
HALF_A_DIGIT = 2.0**-24
"""The largest relative error of rounding a number to float32."""


def disturb_last_digits(t: Tensor) -> Tensor:
    """`t` as float64, with every entry moved up or down by half a last digit of float32.

    The digits of an entry decide its direction. So entries that are equal, or equal up to their sign, stay so: a
    constant channel remains constant, and a tie remains a tie.
    """
    fine = t.double()
    digits = fine.abs().float().contiguous().view(torch.int32).long()
    up = (digits * 2654435761 >> 15) & 1
    return fine * (1 + HALF_A_DIGIT * (2 * up.double() - 1))


def share_used(rough: Tensor, fine: Tensor, rtol: float, atol: float) -> float:
    """The largest difference of float64 tensors as a share of atol + rtol * |fine|; inf where only one is finite."""
    apart = (rough - fine).abs() / (atol + rtol * fine.abs())
    apart[(rough == fine) | (rough.isnan() & fine.isnan())] = 0.0  # inf - inf would be NaN
    worst = float(apart.max()) if apart.numel() else 0.0
    return worst if math.isfinite(worst) else math.inf


def looks_like_rounding(shown: Tensor) -> bool:
    """Whether the largest entry of a float64 tensor is what is left where numbers near 1 should have cancelled out.

    A rounding error of such a number is about 1e-16. Scenes that show small numbers on purpose show 1e-12, or 1e-30.
    """
    largest = float(shown.abs().max()) if shown.dtype is torch.float64 and shown.numel() else 0.0
    return 1e-18 < largest < 1e-14
