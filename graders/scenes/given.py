"""What is given to a function beside a tensor: numbers, bounds, rows, functions; drawn from a source, for a case."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from graders.wire.draws import Rng, beyond_float32

Arguments = Callable[[Rng, Any, Tensor, list[str]], tuple[Any, ...]]
"""What is given beside a tensor: from a source, a case, that tensor, and a list in which the caller's functions note
that they were called.
"""


def a_number(rng: Rng, case: Any, *_: Any) -> tuple[float]:
    """One that float32 does not hold, so that a detour through float32 shows; never 1."""
    return (beyond_float32(rng.number(case.number) * 9 / 7),)


def two_bounds(rng: Rng, case: Any, *_: Any) -> tuple[float, float]:
    """The lower and the upper one; of the numbers that are drawn some lie below, between and above them."""
    lo, hi = {"zero": (0.0, 1.0), "negative": (-2.0, -0.5), "fraction": (-0.875, 0.5), "large": (0.5, 1.75)}[
        case.number
    ]
    by = rng.uniform(0.125, 0.375) * 9 / 7
    return lo and beyond_float32(lo + by), hi and beyond_float32(hi + by)


def some_rows(rng: Rng, case: Any, t: Tensor, _: Any) -> tuple[list[int]]:
    """Indexes of rows of `t`: one; all but one; two, of which one stands twice."""
    rows = rng.shuffled(range(len(t)))
    return ({"one": rows[:1], "many": rows[1:], "repeated": [rows[0], rows[1], rows[0]]}[case.collection],)


def as_many_rows_as_columns(rng: Rng, case: Any) -> tuple[int, ...]:
    """A shape; a mask for rows that is laid along the last dimension shows in numbers."""
    count = rng.integer(3, 4)
    return (count, 2, count)[: case.rank] if case.rank != 2 else (count, count)


def some_functions(rng: Rng, case: Any, _: Any, calls: list[str]) -> tuple[list[Callable[[Tensor], Tensor]]]:
    """Functions of a gradient that do not commute: one; three; three, of which one stands twice."""
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
    """A number greater than 0 that float32 does not hold; most gradients of a scene are larger, and some are not."""
    low, high = (0.5, 0.75) if case.number == "fraction" else (1.5, 2.0)
    return (beyond_float32(rng.uniform(low, high) * 8 / 7),)
