"""The memory of all processes of a box together, as /proc shows it from outside.

A limit of each process bounds no sum: sixty-four children of two gigabytes each are within it.
"""

from __future__ import annotations

import re
from pathlib import Path

_PROC = Path("/proc")
_OWN = re.compile(rb"Rss(?:Anon|Shmem):\s*(\d+) kB")
_SHARE = re.compile(rb"Pss_(?:Anon|Shmem):\s*(\d+) kB")


def exceeds(root: int, bound: int) -> bool:
    """Whether the processes from `root` downwards hold more than `bound` bytes; False where /proc does not tell."""
    pids = family(root)
    # What forked processes share counts for each of them here. Only when that is too much is it worth a closer look.
    if sum(_amount(pid, "status", _OWN) for pid in pids) <= bound:
        return False
    return sum(_amount(pid, "smaps_rollup", _SHARE) or _amount(pid, "status", _OWN) for pid in pids) > bound


def family(root: int) -> list[int]:
    """A process and all of its descendants."""
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        try:
            for task in (_PROC / str(pid) / "task").iterdir():
                queue += map(int, (task / "children").read_bytes().split())
        except OSError:  # it ended, or this is not Linux
            continue
    return found


def _amount(pid: int, file: str, pattern: re.Pattern[bytes]) -> int:
    """Bytes: the sum of what `pattern` finds in a file of /proc in kB; 0 when it cannot be read."""
    try:
        return sum(map(int, pattern.findall((_PROC / str(pid) / file).read_bytes()))) << 10
    except OSError:
        return 0
