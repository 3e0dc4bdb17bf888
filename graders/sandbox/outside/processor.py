"""Watches whether the processes of a box get the processor when they want it, as /proc shows it from outside.

A neighbour with dozens of busy sessions gets dozens of times as much of a processor as a box with one, because Linux
shares it equally among sessions.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from graders.sandbox.outside.memory import process_tree

LOOK_SECONDS = 1.0
"""Seconds between two looks."""
LITTLE, MUCH = 1 / 4, 1 / 2
"""A box is starved while its processes have less than the first share of a processor, and wait for more than the
second share of the time to get one."""
_PROC = Path("/proc")


class ProcessorWatch:
    """Sums up how long a process `root` and its descendants were starved."""

    def __init__(self, root: int) -> None:
        """Nothing has run yet."""
        self._root, self._before = root, dict[int, tuple[float, float]]()
        self._looked = time.monotonic()
        self.starved_seconds = 0.0

    def look(self) -> None:
        """Add the time since the last look, if that is long enough ago and the box was starved. Needs /proc."""
        seconds = (now := time.monotonic()) - self._looked
        if seconds < LOOK_SECONDS:
            return
        found = {pid: _used_and_waited(pid) for pid in process_tree(self._root)}
        used, waited = (
            sum(max(0.0, times[which] - self._before.get(pid, (0.0, 0.0))[which]) for pid, times in found.items())
            for which in (0, 1)
        )
        if used < LITTLE * seconds and waited > MUCH * seconds:
            self.starved_seconds += seconds
        self._before, self._looked = found, now


def _used_and_waited(pid: int) -> tuple[float, float]:
    """The seconds that a process and its ended children ran, and those that its first thread waited to run."""
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b") ")[2].split()
        _, waited, _ = (_PROC / str(pid) / "schedstat").read_bytes().split()
    except (OSError, ValueError):  # it has ended, or the kernel does not count it
        return 0.0, 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK"), int(waited) / 1e9
