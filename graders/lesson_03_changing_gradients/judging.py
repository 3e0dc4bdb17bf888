"""What several exercises of lesson 3 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import Rng

SINGLE_LOCATION = "refers to a single memory location"
"""What PyTorch says when a hook writes into a gradient that was expanded from one number."""


def across(rng: Rng, lo: float, hi: float, dtype: torch.dtype) -> Tensor:
    """Four numbers in any order: one below `lo`, one above `hi`, one between them, and any one."""
    numbers = [lo - rng.uniform(0.5, 1.5), hi + rng.uniform(0.5, 1.5), rng.uniform(-0.375, 0.375), rng.uniform(-3, 3)]
    return torch.tensor(rng.shuffled(numbers), dtype=dtype)


def bounds(rng: Rng, dtype: torch.dtype) -> tuple[float, float]:
    """A lower and an upper bound. For float64 they are numbers that float32 does not hold, so that a detour shows."""
    unit = 8 / 7 if dtype == torch.float64 else 1
    return -unit * rng.uniform(0.5, 1.5), unit * rng.uniform(0.5, 1.5)


def fan(leaf: bool) -> int:
    """D t / d x in the scene."""
    return 1 if leaf else 2
