"""How many notebooks run at a time."""

from __future__ import annotations

import os

import psutil

from graders.wire.limits import MIB

USUAL_MEMORY = 512 * MIB
"""The bytes that a box is expected to need. The lessons need 100 to 200 MiB on top of torch itself, which forked boxes
share."""


def default_jobs() -> int:
    """The number of cores this process may use, or fewer if memory is free for fewer boxes of the usual size.

    Boxes that fill their memory limit are rare, and when the machine runs out of memory, boxes are ended first.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return jobs_for(cores, psutil.virtual_memory().available)


def jobs_for(cores: int, free: int) -> int:
    """How many notebooks may run at once with this many cores and `free` bytes of memory; at least 1."""
    return max(1, min(cores, free // USUAL_MEMORY))
