"""The memory of a process in huge pages: a fork then copies a few hundred entries of its page table, not 60 thousand.

Measured with torch loaded: 150 MiB move in 0.3 s of processor time, and a fork then takes 2 ms instead of 20. Each
notebook takes several.

Linux 6.1 or later; elsewhere nothing happens. What a child writes to is copied in small pages as ever, so that its
memory does not grow.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

MADV_COLLAPSE = 25
HUGE_PAGE_BYTES = 2 << 20
"""Bytes of a huge page on x86-64 and, with pages of 4 KiB, on arm64."""
STEP = 32 * HUGE_PAGE_BYTES
"""Bytes that are moved in one step, which takes some 0.2 s."""


class HugePages:
    """Moves what this process has written, its heap above all, into huge pages, in steps."""

    def __init__(self) -> None:
        """Nothing is moved yet."""
        self._tried: set[int] = set()

    def move(self) -> int:
        """Move as much as one step may; how many bytes it was. What was written since the last step is found, too."""
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
    """Where huge pages may begin: in the heap, and in other memory without a file. Nowhere, if /proc does not tell."""
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
