"""Draws, the inputs of an exercise, as a pure function of a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Rng:
    """The random source of an exercise's inputs."""

    def __init__(self, *entropy: int | str) -> None:
        """Two sources with equal `entropy` draw equal values on every machine."""
        digest = hashlib.sha256(repr(entropy).encode()).digest()
        self._numpy = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high], both ends included."""
        return int(self._numpy.integers(low, high + 1))

    def choice(self, options: Sequence[T]) -> T:
        """One of `options`."""
        return options[self.integer(0, len(options) - 1)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The same items in a random order."""
        return [items[int(i)] for i in self._numpy.permutation(len(items))]
