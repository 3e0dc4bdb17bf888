"""Draws what a function is given besides a tensor: a number or a bound."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from graders.wire.draws import Rng, beyond_float32

Arguments = Callable[[Rng, Any, Tensor, list[str]], tuple[Any, ...]]
"""Draws the other arguments of a call, given the source, the case, the tensor, and a list in which functions of the
caller log their calls.
"""


def a_number(rng: Rng, case: Any, *_: Any) -> tuple[float]:
    """A number that float32 cannot hold, so that a detour through float32 shows; never 1."""
    return (beyond_float32(rng.number(case.number) * 9 / 7),)


def a_bound(rng: Rng, case: Any, *_: Any) -> tuple[float]:
    """A number greater than 0 that float32 cannot hold; most gradients of a scene are larger, but some are not."""
    low, high = (0.5, 0.75) if case.number == "fraction" else (1.5, 2.0)
    return (beyond_float32(rng.uniform(low, high) * 8 / 7),)
