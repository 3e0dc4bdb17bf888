"""How many notebooks may run at a time."""

from __future__ import annotations

import os

import psutil

from graders.wire.limits import MIB

USUAL_MEMORY = 512 * MIB
"""What a box is expected to hold in all. Those of the lessons add 100 to 200 MiB to a build of torch, which is shared
where boxes are forked."""


def default_jobs() -> int:
    """As many notebooks at a time as this process may use cores, and as there is free memory for as boxes usually take.

    A box that fills its memory is a rare one, and should the machine run out of it, the system ends boxes first.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return jobs_for(cores, psutil.virtual_memory().available)


def jobs_for(cores: int, free: int) -> int:
    """How many notebooks may run at once on so many cores and bytes of free memory."""
    return max(1, min(cores, free // USUAL_MEMORY))
