"""Move the memory of a process into huge pages, so that a fork copies hundreds of page table entries, not 60 thousand.

Measured with torch loaded: moving 150 MiB takes 0.3 s of processor time, and a fork then takes 2 ms instead of 20. Each
notebook needs several forks.

This needs Linux 6.1 or later; elsewhere nothing happens. What a child writes to is still copied in small pages, so its
memory does not grow.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

MADV_COLLAPSE = 25
HUGE_PAGE_BYTES = 2 << 20
"""The size of a huge page on x86-64 and, with pages of 4 KiB, on arm64."""
STEP = 32 * HUGE_PAGE_BYTES
"""Bytes that one step moves at most, in about 0.2 s."""


class HugePages:
    """Moves memory that this process has written to, above all its heap, into huge pages, step by step."""

    def __init__(self) -> None:
        """Move nothing yet."""
        self._tried: set[int] = set()

    def move(self) -> int:
        """Move at most `STEP` bytes, and return how many. Memory that is new since the last step is included."""
        moved = 0
        for start in _writable_page_starts():
            if start not in self._tried and moved < STEP:
                self._tried.add(start)
                moved += HUGE_PAGE_BYTES if _collapse_page(start) else 0
        return moved


def _collapse_page(start: int) -> bool:
    try:
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return False
    return bool(madvise(ctypes.c_void_p(start), ctypes.c_size_t(HUGE_PAGE_BYTES), MADV_COLLAPSE) == 0)


def _writable_page_starts() -> list[int]:
    """Return where huge pages may begin in the heap and other memory without a file; none if /proc cannot be read."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found: list[int] = []
    for line in maps.splitlines():
        addresses, permissions, _, _, _, *name = line.split(maxsplit=5)
        if permissions == "rw-p" and name in ([], ["[heap]"]):
            low, high = (int(word, 16) for word in addresses.split("-"))
            found += range(
                -(-low // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES, high // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, HUGE_PAGE_BYTES
            )
    return found
