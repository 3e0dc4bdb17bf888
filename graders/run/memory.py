"""The memory of all processes of a box together, as /proc shows it from outside.

A limit of each process bounds no sum: sixty-four children of two gigabytes each are within it. In tiers A and B a
filter of system calls refuses what would count for no process (`graders.box.confine`).
"""

from __future__ import annotations

import time
from pathlib import Path

from graders.run.process_memory import (
    is_unreadable,
    map_memory,
    most_memory,
    own_memory,
    proportional_memory,
    socket_memory,
)

SECONDS, HASTY_SECONDS = 0.1, 0.02
"""Between two looks."""
MAPS_SECONDS = 1.0
"""Between two looks at maps, which take long to count and long to make."""
_PROC = Path("/proc")


class MemoryWatch:
    """Says when the processes from `root` downwards hold more than `bound` bytes beyond what they hold now.

    A look is cheap while little is held, and comes more often once much is.
    """

    def __init__(self, root: int, bound: int, *, forked: bool = False) -> None:
        """Nothing of the notebook has run yet.

        Processes that were `forked` from one that holds far more than they have written since share nearly all. Then
        the largest says what they hold, and shares, which take 3 ms each to read, are not looked at.
        """
        pids = process_tree(root)
        self._before = max(map(own_memory, pids)) if forked else _already_held(pids)
        self._root, self._bound = root, bound
        self._ours = frozenset(filter(is_unreadable, pids))  # they never run what is in the notebook
        self._maps, self._maps_due = 0, time.monotonic() + MAPS_SECONDS
        self._due, self.pause = 0.0, SECONDS

    def close(self) -> None:
        """There is nothing to undo: watching makes no cgroup."""

    def is_exceeded(self) -> bool:
        """Whether it is too much, as far as it is time to look; False where /proc does not tell."""
        started = time.monotonic()
        if started < self._due:
            return False
        pids = process_tree(self._root)
        if started >= self._maps_due:
            self._maps = map_memory(self._notebook_pids(pids), self._bound)
            self._maps_due = time.monotonic() + MAPS_SECONDS
        # What forked processes share counts for each here, and so does each socket that they could have. Only when that
        # is too much is it worth a closer look.
        rough = sum(map(most_memory, pids)) + self._maps - self._before
        found = rough > self._bound and self.held_bytes() > self._bound
        ended = time.monotonic()
        self.pause = max(SECONDS if rough < self._bound / 2 else HASTY_SECONDS, ended - started)
        self._due = ended + self.pause
        return found

    def held_bytes(self) -> int:
        """Bytes that the processes hold beyond what they held at first."""
        pids = process_tree(self._root)
        return (
            sum(map(proportional_memory, pids)) + socket_memory(self._notebook_pids(pids)) + self._maps - self._before
        )

    def _notebook_pids(self, pids: list[int]) -> list[int]:
        return [pid for pid in pids if pid not in self._ours]


def _already_held(pids: list[int]) -> int:
    """Bytes that processes hold, or will hold without adding any: their share grows when others end who share, too."""
    return max(sum(map(proportional_memory, pids)), *map(own_memory, pids))


def process_tree(root: int) -> list[int]:
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
    return any(_process_state(pid) in (b"T", b"t") for pid in process_tree(root))


def _process_state(pid: int) -> bytes:
    try:
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return b""
