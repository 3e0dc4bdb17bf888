"""Conditioning: whether the right answer of a draw stands out from rounding. Where it does not, we draw again.

A right answer may add up in another order than we do, and rounds differently. How much that matters is told by the
expected values when they are computed from the same draw in float32, in float64, and in float64 from inputs that were
rounded otherwise: what a computation in float32 gets wrong is much like what a wrong last digit of its inputs does.
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
    signs = torch.Generator().manual_seed(0)
    casts: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda t: t.double(),
        lambda t: t.float(),
        lambda t: t.double() * (1 + HALF_A_DIGIT * (2 * torch.randint(2, t.shape, generator=signs) - 1)),
    )
    fine, *others = (list(_numbers(oracle(_cast(draw, cast)))) for cast in casts)
    return all(_agree(rough, fine, tolerance) for rough in others)


def _cast(value: Any, cast: Callable[[Tensor], Tensor]) -> Any:
    """The same lists, tuples and dicts, with every floating tensor cast."""
    if isinstance(value, Tensor):
        return cast(value) if value.is_floating_point() else value.clone()
    if isinstance(value, Mapping):
        return {key: _cast(entry, cast) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(entry, cast) for entry in value)
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
    a, b = (torch.cat([t.reshape(-1) for t in tensors]) for tensors in (rough, fine))
    rtol, atol = tolerance
    apart = (a - b).abs() / (atol + rtol * b.abs())
    apart[(a == b) | (a.isnan() & b.isnan())] = 0.0  # also where both are infinite
    worst = float(apart.max()) if apart.numel() else 0.0
    return math.isfinite(worst) and worst <= SHARE
