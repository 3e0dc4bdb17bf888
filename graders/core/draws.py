"""Draws: the inputs of an exercise as a pure function of a seed."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch

T = TypeVar("T")
SEED_LIMIT = 2**53
"""Seeds are below this bound, so that every JSON reader keeps them exact."""


def new_seed() -> int:
    """A seed from the operating system."""
    return secrets.randbelow(SEED_LIMIT)


class Rng:
    """The source of an exercise's inputs.

    Numbers lie on a grid of eighths: they print in few digits and most sums and products of them are
    exact in float32, so that a difference is a difference in the answer, not in the rounding.
    """

    def __init__(self, *entropy: int | str) -> None:
        """Two sources with equal `entropy` draw equal values, on every machine."""
        digest = hashlib.sha256(repr(entropy).encode()).digest()
        self._numpy = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))

    def tensor(
        self,
        *shape: int,
        dtype: torch.dtype = torch.float32,
        low: float = -3.0,
        high: float = 3.0,
        away: float = 0.25,
    ) -> torch.Tensor:
        """A tensor of `shape` with entries in [low, high], none closer to zero than `away`."""
        grid = np.arange(np.ceil(low * 8), np.floor(high * 8) + 1) / 8
        grid = grid[np.abs(grid) >= away]
        return torch.tensor(self._numpy.choice(grid, size=shape), dtype=dtype)

    def uniform(self, low: float, high: float) -> float:
        """A float in [low, high] on the grid of eighths."""
        return self.integer(int(np.ceil(low * 8)), int(np.floor(high * 8))) / 8

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high], both ends included."""
        return int(self._numpy.integers(low, high + 1))

    def choice(self, options: Sequence[T]) -> T:
        """One of `options`."""
        return options[self.integer(0, len(options) - 1)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The same items in a random order."""
        return [items[int(i)] for i in self._numpy.permutation(len(items))]

    def names(self, count: int) -> list[str]:
        """`count` different names of three to six letters, usable as identifiers and module names."""
        letters = "abcdefghjkmnpqrstuvwxyz"
        found: list[str] = []
        while len(found) < count:
            name = "n" + "".join(self.choice(letters) for _ in range(self.integer(2, 5)))
            if name not in found:
                found.append(name)
        return found
