"""The last fuse: when the machine itself runs short of memory, the box that holds most is ended, and the others go on.

Each box is within its own bound then, and there are many, or something holds what nobody can count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

import psutil

from graders.wire.limits import MIB

LEAST_FREE, LEAST_SHARE = 256 * MIB, 1 / 32
"""The machine is short when less than both is available: so many bytes, and such a part of all it has."""
LEAST_HELD = 256 * MIB
"""A box that holds less is not ended: it cannot be the reason."""
SECONDS = 0.1
"""Between two looks."""


class Bound(Protocol):
    """What bounds the memory of a box."""

    pause: float
    """Seconds until the next look is worth it."""

    def is_exceeded(self) -> bool:
        """Whether the box took more than it may."""

    def held_bytes(self) -> int:
        """Bytes that the box holds beyond what it held at first."""

    def close(self) -> None:
        """Called when the box has ended."""


def is_short(available: int, total: int) -> bool:
    """Whether a machine with so many bytes in `total` has little left for anybody."""
    return available < max(LEAST_FREE, total * LEAST_SHARE)


def _is_short_here() -> bool:
    memory = psutil.virtual_memory()
    return is_short(memory.available, memory.total)


class LowMemoryGuard:
    """Knows the boxes of this process."""

    def __init__(self, short: Callable[[], bool] = _is_short_here) -> None:
        """`short` says whether the machine is short of memory; it is asked now and then."""
        self._short = short
        self._boxes: list[Bound] = []
        self._ending: Bound | None = None
        self._due, self._found = 0.0, False
        self._lock = threading.Lock()

    def add(self, box: Bound) -> None:
        """From here on, this box counts."""
        with self._lock:
            self._boxes.append(box)

    def remove(self, box: Bound) -> None:
        """The box has ended, and what it held is free."""
        with self._lock:
            self._boxes = [other for other in self._boxes if other is not box]
            if self._ending is box:
                self._ending, self._due = None, 0.0

    def must_end(self, box: Bound) -> bool:
        """Whether this box has to end, for the machine is short of memory and no other holds as much.

        While one ends, no other has to: what it held is not free yet.
        """
        with self._lock:
            if (now := time.monotonic()) >= self._due:
                self._found, self._due = self._short(), now + SECONDS
            if self._found and self._ending is None and self._boxes:
                held_bytes, _, largest = max(
                    (other.held_bytes(), number, other) for number, other in enumerate(self._boxes)
                )
                self._ending = largest if held_bytes >= LEAST_HELD else None
            return self._ending is box


low_memory_guard = LowMemoryGuard()
"""That of this process."""
