"""Bounds the memory of a box with a cgroup, where we may create one.

The kernel then counts all memory as it is taken, including files in memory and socket buffers. Most processes may not
create cgroups; for them the sum is watched instead (`graders.sandbox.outside.memory`).

In version 2, a cgroup that shares its memory controller with others below it may not hold processes itself, unless it
is the root. If ours holds only our own processes, we move them to one below it. Version 1 has no such rule. There the
kernel ends one process of a box and not all, which is enough to notice.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from graders.sandbox.outside.leftovers import SETTLED_SECONDS, take_lock
from graders.sandbox.outside.low_memory import Bound
from graders.sandbox.outside.memory import SECONDS, MemoryWatch, process_tree

PREFIX = "hookwork-"
BOX_PREFIX, MAIN_PREFIX = f"{PREFIX}box-", f"{PREFIX}main-"
REMOVE_SECONDS = 2.0
"""How long to wait until killed processes are gone."""
_PROC = Path("/proc/self")


@dataclass(frozen=True)
class _Version:
    """The names of a cgroup's files for memory, which differ by version."""

    usage: str
    limit: str
    with_swap: str
    """Bounds memory and swap together in version 1, swap alone in version 2."""
    events: str


_ONE = _Version("memory.usage_in_bytes", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control")
_TWO = _Version("memory.current", "memory.max", "memory.swap.max", "memory.events")


class MemoryCgroup:
    """A cgroup with all processes of a box. Memory that they had before stays with the cgroup they came from."""

    pause = SECONDS
    """Seconds until the next look. It need not be soon, since the kernel enforces the bound."""

    def __init__(self, folder: Path, home: Path, root: int, bound: int) -> None:
        """Bound what the process `root` and its descendants add to `bound` bytes, before the notebook's code runs.

        `folder` is a new cgroup for them. If it cannot be used, they are moved back to the cgroup `home`, `folder` is
        removed and `OSError` is raised.
        """
        self.folder = folder
        self._files = _ONE if (folder / _ONE.usage).exists() else _TWO
        self._lock = take_lock(folder)
        try:
            if self._files is _TWO:
                _write(self.folder / "memory.oom.group", 1)
            _move_processes(self.folder, root)
            self._before = self._usage()
            _write(self.folder / self._files.limit, self._before + bound)
            with contextlib.suppress(FileNotFoundError):  # if the kernel does not count swap
                _write(self.folder / self._files.with_swap, 0 if self._files is _TWO else self._before + bound)
        except OSError:
            for pid in _cgroup_pids(self.folder):
                with contextlib.suppress(OSError):
                    _write(home / "cgroup.procs", pid)
            self._remove_and_unlock()
            raise

    def is_exceeded(self) -> bool:
        """Whether the kernel ended processes because they took too much memory."""
        try:
            lines = (self.folder / self._files.events).read_text().splitlines()
        except OSError:
            return False
        return any(int(count) > 0 for name, count in map(str.split, lines) if name == "oom_kill")

    def held_bytes(self) -> int:
        """Bytes that the processes hold beyond what they held at first, including cached files."""
        with contextlib.suppress(OSError):
            return self._usage() - self._before
        return 0

    def _usage(self) -> int:
        return int((self.folder / self._files.usage).read_text())

    def close(self) -> None:
        """End the processes that are left in the cgroup, and remove it."""
        self._remove_and_unlock(kill=True)

    def _remove_and_unlock(self, *, kill: bool = False) -> None:
        _remove(self.folder, kill=kill)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def bound_memory(root: int, bound: int, *, forked: bool = False) -> Bound:
    """Bound the bytes that the process `root` and its descendants add, by a cgroup if possible, or by watching.

    `forked` is as for `MemoryWatch`.
    """
    with _once:
        parents = _parent_cgroups()
    for parent, home in parents:
        with contextlib.suppress(OSError):
            return MemoryCgroup(_make(parent, BOX_PREFIX), home, root, bound)
    return MemoryWatch(root, bound, forked=forked)


_once = threading.Lock()


@functools.cache
def _parent_cgroups() -> list[tuple[Path, Path]]:
    """The cgroups in which those of boxes can be made, at most one of each version, each with the one we are in."""
    found = []
    if (two := own_cgroup(_PROC)) is not None and prepare_cgroup(two, os.getpid()):
        found.append((two, own_cgroup(_PROC) or two))
    if (one := own_cgroup(_PROC, "memory")) is not None:
        _remove_old_cgroups(one)
        found.append((one, one))
    return found


def own_cgroup(proc: Path, controller: str = "") -> Path | None:
    """The folder of the cgroup of a process, given its folder in /proc; None if there is none, or it is not mounted.

    Without a `controller` it is that of version 2, with one that of version 1.
    """
    try:
        groups = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
        mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
    except OSError:
        return None
    name = next((path for _, controllers, path in groups if controller in controllers.split(",")), "")
    for fields in mounts:
        kind, _, options = fields[fields.index("-") + 1 :][:3]
        if kind == ("cgroup" if controller else "cgroup2") and (not controller or controller in options.split(",")):
            top, place = fields[3:5]
            inside = Path(name)
            if ".." not in inside.parts and inside.is_relative_to(top):
                return Path(place) / inside.relative_to(top)
    return None


def prepare_cgroup(own: Path, us: int) -> bool:
    """Have `own`, the cgroup of our process `us`, share its memory controller with cgroups below it, if possible.

    Returns whether it does. Leftovers of killed runs are removed.
    """
    try:
        if "memory" not in (own / "cgroup.controllers").read_text().split():
            return False
        _remove_old_cgroups(own)
        if "memory" not in (own / "cgroup.subtree_control").read_text().split():
            _share_memory(own, us)
    except OSError:
        return False
    return True


def _share_memory(own: Path, us: int) -> None:
    with contextlib.suppress(OSError):  # fails if the cgroup holds processes
        _write(own / "cgroup.subtree_control", "+memory")
        return
    if not _cgroup_pids(own) <= set(process_tree(us)):
        raise PermissionError(f"{own} holds processes that are not ours to move")
    below = _make(own, MAIN_PREFIX)
    take_lock(below)  # kept until this process ends
    try:
        _move_processes(below, us)
        _write(own / "cgroup.subtree_control", "+memory")
    except OSError:
        for pid in _cgroup_pids(below):
            _write(own / "cgroup.procs", pid)
        _remove(below)
        raise


def _remove_old_cgroups(own: Path) -> None:
    for folder in own.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another process removed it first
            if time.time() - folder.stat().st_mtime > SETTLED_SECONDS and (held := take_lock(folder)) is not None:
                _remove(folder, kill=folder.name.startswith(BOX_PREFIX))
                os.close(held)


def _move_processes(folder: Path, root: int) -> None:
    """Move a process and all of its descendants into a cgroup, including those that are started meanwhile."""
    done: set[int] = set()
    while left := set(process_tree(root)) - done:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):  # it ended
                _write(folder / "cgroup.procs", pid)
        done |= left


def _make(parent: Path, prefix: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))


def _cgroup_pids(folder: Path) -> set[int]:
    with contextlib.suppress(OSError):
        return set(map(int, (folder / "cgroup.procs").read_text().split()))
    return set()


def _kill(folder: Path) -> None:
    with contextlib.suppress(OSError):  # the file does not exist before Linux 5.14 and in version 1
        return _write(folder / "cgroup.kill", 1)
    for pid in _cgroup_pids(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _remove(folder: Path, *, kill: bool = False) -> None:
    """Remove a cgroup once its processes have ended; `kill` ends them.

    After `REMOVE_SECONDS` it is left to `_remove_old_cgroups`.
    """
    until = time.monotonic() + REMOVE_SECONDS
    while True:
        if kill:
            _kill(folder)  # each time: in version 1, one of them may just have forked
        populated = bool(_cgroup_pids(folder))  # asked first: the last process may end before `rmdir` does
        try:
            return os.rmdir(folder)
        except OSError as error:
            if error.errno != errno.EBUSY or not populated or time.monotonic() > until:
                return None
        time.sleep(0.001)


def _write(file: Path, value: int | str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)  # unlike `open`, this never creates the file
    try:
        os.write(descriptor, str(value).encode() + b"\n")
    finally:
        os.close(descriptor)
