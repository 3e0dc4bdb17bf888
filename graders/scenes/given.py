"""Draws what a function is given besides a tensor: numbers, bounds, rows, or functions."""

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


def two_bounds(rng: Rng, case: Any, *_: Any) -> tuple[float, float]:
    """The lower and the upper bound; some of the numbers that scenes draw lie below, between and above them."""
    lo, hi = {"zero": (0.0, 1.0), "negative": (-2.0, -0.5), "fraction": (-0.875, 0.5), "large": (0.5, 1.75)}[
        case.number
    ]
    by = rng.uniform(0.125, 0.375) * 9 / 7
    return lo and beyond_float32(lo + by), hi and beyond_float32(hi + by)


def some_rows(rng: Rng, case: Any, t: Tensor, _: Any) -> tuple[list[int]]:
    """Indexes of rows of `t`: one; all but one; or two, the first of them twice."""
    rows = rng.shuffled(range(len(t)))
    return ({"one": rows[:1], "many": rows[1:], "repeated": [rows[0], rows[1], rows[0]]}[case.collection],)


def as_many_rows_as_columns(rng: Rng, case: Any) -> tuple[int, ...]:
    """A shape with equal first and last sizes: a row mask on the wrong dimension gives wrong numbers, but no error."""
    count = rng.integer(3, 4)
    return (count, 2, count)[: case.rank] if case.rank != 2 else (count, count)


def some_functions(rng: Rng, case: Any, _: Any, calls: list[str]) -> tuple[list[Callable[[Tensor], Tensor]]]:
    """Functions of a gradient that do not commute: one; three; or three, one of which occurs twice."""
    k, b = (beyond_float32(rng.uniform(1.25, 2.5) * 9 / 7) for _ in range(2))

    def noted(name: str, function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def noting(grad: Tensor) -> Tensor:
            calls.append(name)
            return function(grad)

        return noting

    scale = noted(f"times {k:.3f}", lambda grad: grad * -k)
    shift = noted(f"plus {b:.3f}", lambda grad: grad + b)
    limit = noted("limit", lambda grad: grad.clamp(-1.5, 1.5))
    ends = rng.shuffled((scale, shift))
    return ({"one": ends[:1], "many": [ends[0], limit, ends[1]], "repeated": [ends[0], ends[0], ends[1]]}[
        case.collection
    ],)  # fmt: skip


def a_bound(rng: Rng, case: Any, *_: Any) -> tuple[float]:
    """A number greater than 0 that float32 cannot hold; most gradients of a scene are larger, but some are not."""
    low, high = (0.5, 0.75) if case.number == "fraction" else (1.5, 2.0)
    return (beyond_float32(rng.uniform(low, high) * 8 / 7),)
