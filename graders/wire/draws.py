"""Draws, the inputs of an exercise, as a pure function of a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch

T = TypeVar("T")


class Rng:
    """The random source of an exercise's inputs.

    Numbers lie on a grid of eighths: they print in few digits, and most of their sums and products are exact in
    float32, so a difference comes from the answer and not from rounding.
    """

    def __init__(self, *entropy: int | str, to: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        """Two sources with equal `entropy` draw equal values on every machine.

        `to`, if given, changes every float32 tensor that is drawn: the proof that rounding decides nothing uses it to
        draw other digits.
        """
        self._to = to
        digest = hashlib.sha256(repr(entropy).encode()).digest()
        self._numpy = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))

    def tensor(
        self,
        *shape: int,
        dtype: torch.dtype | str = torch.float32,
        low: float = -3.0,
        high: float = 3.0,
        away: float = 0.25,
        values: str = "round",
        layout: str = "contiguous",
    ) -> torch.Tensor:
        """A tensor of `shape` with entries in [low, high], none closer to zero than `away`.

        `dtype` may be a name such as "float64". With `values="full"` the entries use all digits of the dtype, so the
        order of a sum may show in its result. With `layout="expanded"` all entries along the first dimension are equal;
        a probe makes that layout, and every other, with `graders.scenes.instruments.tensors.with_layout`.
        """
        grid = np.arange(np.ceil(low * 8), np.floor(high * 8) + 1) / 8
        grid = grid[np.abs(grid) >= away]
        drawn = self._numpy.choice(grid, size=shape)
        if values == "full":
            step = np.sign(drawn) * self._numpy.uniform(0, 1 / 8, size=shape)
            drawn = np.where((low <= drawn + step) & (drawn + step <= high), drawn + step, drawn - step)
        if layout == "expanded":
            drawn = np.broadcast_to(drawn[:1], shape).copy()
        t = torch.tensor(drawn, dtype=getattr(torch, dtype) if isinstance(dtype, str) else dtype)
        return t if self._to is None or t.dtype != torch.float32 else self._to(t)

    def shape(self, rank: int) -> tuple[int, ...]:
        """A shape with `rank` dimensions, at most 4. The sizes are all different, from 2 to 4; of four, one is 1."""
        return tuple(self.shuffled((2, 3, 4, 1)[: max(rank, 3)])[:rank])

    def number(self, number: str) -> float:
        """A number that is "zero", "negative" (-3 to -1/2), a "fraction" (1/8 to 7/8) or "large" (3/2 to 4)."""
        low, high = {"zero": (0.0, 0.0), "negative": (-3.0, -0.5), "fraction": (0.125, 0.875), "large": (1.5, 4.0)}[
            number
        ]
        return self.uniform(low, high)

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
        """`count` different names of three to six letters, usable as identifiers and module names.

        None of them is a word such as `net`, for a module with a child of that name could have no attribute `net`.
        """
        consonants, letters = "bcdfghjkmpqrstvwxz", "abcdefghjkmnpqrstuvwxyz"
        found: list[str] = []
        while len(found) < count:
            name = "n" + self.choice(consonants) + "".join(self.choice(letters) for _ in range(self.integer(1, 4)))
            if name not in found:
                found.append(name)
        return found
