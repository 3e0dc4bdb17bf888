"""Watches the memory of all processes of a box together, as /proc shows it from outside.

A limit for each process does not bound the sum: with 2 GiB each, 64 children could take 128. In tiers A and B, a filter
of system calls refuses memory that would not show in any process (`graders.sandbox.inside.system_calls`).
"""

from __future__ import annotations

import time
from pathlib import Path

from graders.sandbox.outside.process_memory import (
    is_unreadable,
    map_memory,
    most_memory,
    own_memory,
    proportional_memory,
    socket_memory,
)

SECONDS, HASTY_SECONDS = 0.1, 0.02
"""Seconds between two looks: usually, and once much memory is held."""
MAPS_SECONDS = 1.0
"""Seconds between two looks at memory maps, which are slow to count, and slow to make."""
_PROC = Path("/proc")


class MemoryWatch:
    """Tells when a process `root` and its descendants hold more than `bound` bytes beyond what they held at first.

    A look is cheap while little is held. Once much is, looks are more frequent.
    """

    def __init__(self, root: int, bound: int, *, forked: bool = False) -> None:
        """Measures what the processes hold now, so no code of the notebook may have run yet.

        Processes that were `forked` from the warm process share nearly all memory with it. Then the largest process
        says what they hold, which saves reading their shares at 3 ms each.
        """
        pids = process_tree(root)
        self._before = max(map(own_memory, pids)) if forked else _already_held(pids)
        self._root, self._bound = root, bound
        self._ours = frozenset(filter(is_unreadable, pids))  # these never run the notebook's code
        self._maps, self._maps_due = 0, time.monotonic() + MAPS_SECONDS
        self.pause = SECONDS

    def close(self) -> None:
        """Do nothing: there is nothing to clean up."""

    def is_exceeded(self) -> bool:
        """Whether the processes hold too much. False if there is no /proc."""
        started = time.monotonic()
        pids = process_tree(self._root)
        if started >= self._maps_due:
            self._maps = map_memory(self._notebook_pids(pids), self._bound)
            self._maps_due = time.monotonic() + MAPS_SECONDS
        # This rough sum counts shared memory for each process, and every socket that they might have. Only if it is
        # too much does the exact one, which takes longer, matter.
        rough = sum(map(most_memory, pids)) + self._maps - self._before
        found = rough > self._bound and self.held_bytes() > self._bound
        self.pause = max(SECONDS if rough < self._bound / 2 else HASTY_SECONDS, time.monotonic() - started)
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
    """The bytes that processes hold now, or will count as theirs once others that share the memory have ended."""
    return max(sum(map(proportional_memory, pids)), *map(own_memory, pids))


def process_tree(root: int) -> list[int]:
    """The ids of a process and all of its descendants. Without /proc, only its own."""
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
    """Whether a process or one of its descendants is stopped, by SIGSTOP or a debugger. False without /proc."""
    return any(_process_state(pid) in (b"T", b"t") for pid in process_tree(root))


def _process_state(pid: int) -> bytes:
    try:
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return b""
