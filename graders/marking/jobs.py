"""How many notebooks may run at a time."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from graders.wire.limits import Limits


def default_jobs(limits: Limits) -> int:
    """As many notebooks at a time as this process may use cores, and as there is free memory for at their limits."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _free_memory() // limits.memory_together))


def _free_memory() -> int:
    """Bytes that processes may take before others have to give way; on other systems than Linux, all there are."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return sys.maxsize
