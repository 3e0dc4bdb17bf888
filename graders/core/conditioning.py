"""Conditioning: a draw whose right answer is at the mercy of rounding is no question.

A right answer may add up in another order than we do, and rounds differently. The expected values, computed from the
same draw in float32 and in float64, tell how much that matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

SHARE = 0.1
"""The part of the tolerance that rounding may use up."""


def well_conditioned(oracle: Callable[[Any], Any], draw: Any, tolerance: tuple[float, float]) -> bool:
    """Whether `oracle(draw)` agrees within a tenth of `tolerance` (rtol, atol) in float32 and in float64.

    The oracle gets the draw with all floating tensors in the one dtype and in the other, and returns tensors, numbers,
    and lists, tuples or dicts of them. A result that is not finite in one of the two, or of another shape, disagrees.
    """
    rough, fine = (list(_numbers(oracle(_cast(draw, dtype)))) for dtype in (torch.float32, torch.float64))
    return len(rough) == len(fine) and all(_agree(a, b, tolerance) for a, b in zip(rough, fine))


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """The same lists, tuples and dicts, with every floating tensor in another dtype."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value.clone()
    if isinstance(value, Mapping):
        return {key: _cast(entry, dtype) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(entry, dtype) for entry in value)
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


def _agree(rough: Tensor, fine: Tensor, tolerance: tuple[float, float]) -> bool:
    rtol, atol = tolerance
    if rough.shape != fine.shape:
        return False
    apart = (rough - fine).abs() / (atol + rtol * fine.abs())
    apart[(rough == fine) | (rough.isnan() & fine.isnan())] = 0.0  # also where both are infinite
    worst = float(apart.max()) if apart.numel() else 0.0
    return math.isfinite(worst) and worst <= SHARE
