"""The memory of a process in huge pages: a fork then copies a few hundred entries of its page table, not 60 thousand.

Measured with torch loaded: 150 MiB move in 0.3 s of processor time, and a fork then takes 2 ms instead of 20. Each
notebook takes several.

Linux 6.1 or later; elsewhere nothing happens. What a child writes to is copied in small pages as ever, so that its
memory does not grow.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

MADV_COLLAPSE = 25
HUGE = 2 << 20
"""Bytes of a huge page on x86-64 and, with pages of 4 KiB, on arm64."""
STEP = 32 * HUGE
"""Bytes that are moved in one step, which takes some 0.2 s."""


def collapse() -> Iterator[int]:
    """Move what this process wrote, its heap above all, into huge pages, in steps; yields how many bytes each moved."""
    try:
        madvise = ctypes.CDLL(None).madvise
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except (OSError, AttributeError):
        return
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    moved = 0
    for line in maps.splitlines():
        addresses, permissions, _, _, _, *name = line.split(maxsplit=5)
        if permissions != "rw-p" or name not in ([], ["[heap]"]):
            continue
        low, high = (int(word, 16) for word in addresses.split("-"))
        low, high = -(-low // HUGE) * HUGE, high // HUGE * HUGE
        for start in range(low, high, STEP):
            length = min(STEP, high - start)
            if madvise(start, length, MADV_COLLAPSE) == 0:
                moved += length
            if moved >= STEP:
                yield moved
                moved = 0
    yield moved
