"""The memory of all processes of a box together, as /proc shows it from outside.

A limit of each process bounds no sum: sixty-four children of two gigabytes each are within it.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

SECONDS, HASTY_SECONDS = 0.1, 0.02
"""Between two looks."""
_PROC = Path("/proc")
_OWN = re.compile(rb"Rss(?:Anon|Shmem):\s*(\d+) kB")
_SHARE = re.compile(rb"Pss_(?:Anon|Shmem):\s*(\d+) kB")


class MemoryWatch:
    """Says when the processes from `root` downwards hold more than `bound` bytes beyond what they hold now.

    A look is cheap while little is held, and comes more often once much is.
    """

    def __init__(self, root: int, bound: int, *, forked: bool = False) -> None:
        """Nothing of the notebook has run yet.

        Processes that were `forked` from one that holds far more than they have written since share nearly all. Then
        the largest says what they hold, and shares, which take 3 ms each to read, are not looked at.
        """
        pids = family(root)
        held = max(map(_own, pids)) if forked else _already_held(pids)
        self._root, self._bound = root, held + bound
        self._due = 0.0

    def close(self) -> None:
        """There is nothing to undo: watching makes no cgroup."""

    def exceeded(self) -> bool:
        """Whether it is too much, as far as it is time to look; False where /proc does not tell."""
        started = time.monotonic()
        if started < self._due:
            return False
        pids = family(self._root)
        # What forked processes share counts for each here. Only when that is too much is it worth a closer look.
        rough = sum(map(_own, pids))
        found = rough > self._bound and sum(map(_share, pids)) > self._bound
        ended = time.monotonic()
        pause = SECONDS if rough < self._bound / 2 else HASTY_SECONDS
        self._due = ended + max(pause, ended - started)
        return found


def _already_held(pids: list[int]) -> int:
    """Bytes that processes hold, or will hold without adding any: their share grows when others end who share, too."""
    return max(sum(map(_share, pids)), *map(_own, pids))


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


def any_stopped(root: int) -> bool:
    """Whether a process or one of its descendants is stopped, by SIGSTOP or a debugger, as far as /proc tells."""
    return any(_state(pid) in (b"T", b"t") for pid in family(root))


def _state(pid: int) -> bytes:
    try:
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return b""


def _own(pid: int) -> int:
    """Bytes of a process; what it shares with others counts in full."""
    return _amount(pid, "status", _OWN)


def _share(pid: int) -> int:
    """Bytes of a process; what it shares with others counts in proportion."""
    return _amount(pid, "smaps_rollup", _SHARE) or _own(pid)


def _amount(pid: int, file: str, pattern: re.Pattern[bytes]) -> int:
    """Bytes: the sum of what `pattern` finds in a file of /proc in kB; 0 when it cannot be read."""
    try:
        return sum(map(int, pattern.findall((_PROC / str(pid) / file).read_bytes()))) << 10
    except OSError:
        return 0
