"""The last resort: when the machine itself runs short of memory, the box that holds the most is ended.

This is for the case that every box keeps within its own bound, but together they are too many, or hold memory that
nobody counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

import psutil

from graders.wire.limits import MIB

LEAST_FREE, LEAST_SHARE = 256 * MIB, 1 / 32
"""The machine is short of memory if less than the larger of these is free: bytes, and a share of all its memory."""
LEAST_HELD = 256 * MIB
"""A box that holds fewer bytes is not ended: it cannot be the reason."""
SECONDS = 0.1
"""Seconds between two looks at the machine's memory."""


class Bound(Protocol):
    """Something that bounds the memory of a box."""

    pause: float
    """The time to wait before `is_exceeded` is called again, in seconds."""

    def is_exceeded(self) -> bool:
        """Whether the box took more than it may."""

    def held_bytes(self) -> int:
        """Bytes that the box holds beyond what it held at first."""

    def close(self) -> None:
        """Called when the box has ended."""


def is_short(available: int, total: int) -> bool:
    """Whether a machine with `available` of `total` bytes free is short of memory."""
    return available < max(LEAST_FREE, total * LEAST_SHARE)


def _is_short_here() -> bool:
    memory = psutil.virtual_memory()
    return is_short(memory.available, memory.total)


class LowMemoryGuard:
    """Decides which box of this process has to end when the machine runs short of memory."""

    def __init__(self, short: Callable[[], bool] = _is_short_here) -> None:
        """`short` says whether the machine is short of memory. It is called at most every `SECONDS`."""
        self._short = short
        self._boxes: list[Bound] = []
        self._ending: Bound | None = None
        self._due, self._found = 0.0, False
        self._lock = threading.Lock()

    def add(self, box: Bound) -> None:
        """Add a box, which may have to end from now on."""
        with self._lock:
            self._boxes.append(box)

    def remove(self, box: Bound) -> None:
        """Remove a box that has ended, so that its memory is free again."""
        with self._lock:
            self._boxes = [other for other in self._boxes if other is not box]
            if self._ending is box:
                self._ending, self._due = None, 0.0

    def must_end(self, box: Bound) -> bool:
        """Whether this box has to end, because the machine is short of memory and no other box holds as much.

        While one box is ending, no other has to, since the memory of the first is not free yet.
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
"""The guard that this process uses."""
