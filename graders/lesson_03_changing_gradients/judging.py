"""What several exercises of lesson 3 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from graders.authoring import FACTOR, Rng, Seen, beyond_float32, expect

SINGLE_LOCATION = "refers to a single memory location"
"""What PyTorch says when a hook writes into a gradient that was expanded from one number."""


ONE_BOUND = (
    "Elements beyond one of the two bounds go on as they are. Both count, also one that is 0 (`lo or ...` takes it for "
    "none)."
)


def times(hooks: str) -> float:
    """By what the hooks of the caller multiply a gradient."""
    return FACTOR if hooks == "replacing" else 1.0


def start(like: Tensor, grad: str) -> Tensor:
    """What `.grad` holds before the first pass; zeros stand for None."""
    return torch.full_like(like, 0.7 if grad == "filled" else 0.0)


def ones(count: int, dtype: torch.dtype) -> Tensor:
    """A vector of ones."""
    return torch.ones(count, dtype=dtype)


def bounds_like(rng: Rng, number: str) -> tuple[float, float]:
    """A lower and an upper bound that float32 does not hold, so that a detour through float32 shows.

    "zero": the lower one is 0; "negative": both are below it; "fraction": both are nearer to it than 1; "large": none.
    """
    low, high = {"zero": (0.0, 0.0), "negative": (-2.5, -1.5), "fraction": (-0.75, -0.25), "large": (-3.0, -1.5)}[
        number
    ]
    lo = rng.uniform(low, high)
    hi = {"zero": 1.0, "negative": lo + 1.0, "fraction": lo + 1.0, "large": lo + 5.0}[number]
    return beyond_float32(lo * 8 / 7), beyond_float32(hi * 8 / 7)


def around(rng: Rng, shape: tuple[int, ...], lo: float, hi: float, side: int, layout: str) -> Tensor:
    """Numbers beyond a bound (1: above, -1: below), inside, beyond the other bound, and so on, in any order.

    A single one is beyond the bound `side`. With the layout "expanded" all entries along dimension 0 are equal.
    """
    own = (1, *shape[1:]) if layout == "expanded" and shape else shape
    half, middle = (hi - lo) / 2, (hi + lo) / 2
    sides = rng.shuffled([(side, 0, -side)[index % 3] for index in range(math.prod(own))])
    found = [middle + half * (where * rng.uniform(1.25, 2) if where else rng.uniform(-0.5, 0.5)) for where in sides]
    return torch.tensor(found, dtype=torch.float64).reshape(own).expand(shape).clone()


def inside(gradient: Tensor, lo: float, hi: float) -> Tensor:
    """1 where clamping lets an element pass, 0 elsewhere."""
    return ((gradient > lo) & (gradient < hi)).to(gradient.dtype)


def expect_rare(seen: Seen, up: Tensor, *, of_two: Tensor, turned: Tensor) -> None:
    """Expect these gradients beneath one of two outputs of an operation and in another order, and others as usual."""
    expect(seen["x.grad where t is one of two outputs of an operation"]).close_to(of_two)
    expect(seen["the gradient of the other output of that operation"]).close_to(up[1])
    expect(seen["the gradient that lies in another order"]).close_to(turned)
    expect(seen["the gradient of a tensor without elements"]).close_to(torch.zeros(0, 2))


def differentiated_as(seen: Seen, expected: Tensor, **tolerance: Any) -> None:
    """Expect what differentiating a gradient again has found. Where that is 0 everywhere, it needs no graph."""
    if seen.value is None and expected.any():
        expect(seen).fail(
            "under `create_graph=True` the gradient has to keep its graph, so that it can be differentiated again; "
            "your hook cut it off (`detach()`, `.data`, or `no_grad`)"
        )
    if seen.value is not None:
        expect(seen).close_to(expected, **tolerance)
