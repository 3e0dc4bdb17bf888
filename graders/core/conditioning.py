"""Conditioning: whether the right answer of a draw stands out from rounding. Where it does not, we draw again.

A right answer may add up in another order than we do, and rounds differently. How much that matters is told by the
expected values when they are computed from the same draw in float32, in float64, and in float64 from inputs that were
rounded otherwise: what a computation in float32 gets wrong is much like what a wrong last digit of its inputs does.

At every draw that is asked of the numbers that an exercise names in its `oracle`. Which numbers its checks compare is
known only when there is an answer: `hookwork build --check` holds them against the same measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

SHARE = 0.1
"""The part of the tolerance that rounding may use up."""
HALF_A_DIGIT = 2.0**-24
"""By how much rounding to float32 changes a number at most, as a part of it."""


def well_conditioned(oracle: Callable[[Any], Any], draw: Any, tolerance: tuple[float, float]) -> bool:
    """Whether `oracle(draw)` agrees within a tenth of `tolerance` (rtol, atol), however it is rounded.

    The oracle gets the draw with all floating tensors in the dtype in question, and returns tensors, numbers, and
    lists, tuples or dicts of them. A result that is not finite in one of the dtypes, or of another shape, disagrees.
    """
    fine, *others = (
        list(_numbers(oracle(cast(draw, to)))) for to in (torch.Tensor.double, torch.Tensor.float, disturbed)
    )
    return all(_agree(rough, fine, tolerance) for rough in others)


def disturbed(t: Tensor) -> Tensor:
    """In float64, every number up or down by half a digit of float32; which of the two, its own digits decide.

    So equal numbers stay equal, also up to their sign: a constant channel stays constant, and a tie a tie.
    """
    fine = t.double()
    digits = fine.abs().float().contiguous().view(torch.int32).long()
    up = (digits * 2654435761 >> 15) & 1
    return fine * (1 + HALF_A_DIGIT * (2 * up.double() - 1))


def cast(value: Any, to: Callable[[Tensor], Tensor]) -> Any:
    """The same lists, tuples and dicts, with `to` of every floating tensor."""
    if isinstance(value, Tensor):
        return to(value) if value.is_floating_point() else value.clone()
    if isinstance(value, Mapping):
        return {key: cast(entry, to) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(cast(entry, to) for entry in value)
    return value


def _numbers(value: Any) -> Iterator[Tensor]:
    """All tensors and numbers of a result, in order, as float64."""
    if isinstance(value, Tensor):
        yield value.detach().double()
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _numbers(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _numbers(entry)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield torch.tensor(float(value), dtype=torch.float64)


def _agree(rough: list[Tensor], fine: list[Tensor], tolerance: tuple[float, float]) -> bool:
    """All of them at once: to compare each by itself takes longer than to compute it."""
    if [t.shape for t in rough] != [t.shape for t in fine]:
        return False
    if not fine:
        return True
    rough_numbers, fine_numbers = (torch.cat([t.reshape(-1) for t in tensors]) for tensors in (rough, fine))
    return share_used(rough_numbers, fine_numbers, *tolerance) <= SHARE


def share_used(rough: Tensor, fine: Tensor, rtol: float, atol: float) -> float:
    """The largest part of the tolerance by which float64 tensors of equal shape differ; inf if one alone is finite."""
    apart = (rough - fine).abs() / (atol + rtol * fine.abs())
    apart[(rough == fine) | (rough.isnan() & fine.isnan())] = 0.0  # also where both are infinite
    worst = float(apart.max()) if apart.numel() else 0.0
    return worst if math.isfinite(worst) else math.inf
