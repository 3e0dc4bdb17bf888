"""The memory of a box, counted by the kernel: a cgroup of its own, where we may make one.

All of it counts there, files in memory and buffers of sockets included, and at the moment it is taken. Most processes
may not make a cgroup; there the sum is watched instead (`graders.run.memory`).

In version 2 a cgroup that gives its memory on to others may hold no process itself, unless it is the root. Where ours
holds nobody but us, we move to one below it. In version 1 it may. There the kernel ends one process of a box and not
all, which is enough to know.
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

from graders.run.leftovers import SETTLED_SECONDS, take_lock
from graders.run.low_memory import Bound
from graders.run.memory import SECONDS, MemoryWatch, process_tree

PREFIX = "hookwork-"
BOX_PREFIX, MAIN_PREFIX = f"{PREFIX}box-", f"{PREFIX}main-"
REMOVE_SECONDS = 2.0
"""How long processes that were killed may take to be gone."""
_PROC = Path("/proc/self")


@dataclass(frozen=True)
class _Version:
    """The files of a cgroup in which memory is counted and bounded."""

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
    """The kernel looks by itself."""

    def __init__(self, folder: Path, home: Path, root: int, bound: int) -> None:
        """Bound what the processes from `root` downwards add to `bound` bytes. Nothing of the notebook has run yet.

        `folder` is a cgroup that was made for it. When it will not do, the processes go back to the cgroup `home`, it
        is removed, and `OSError` raised.
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
            with contextlib.suppress(FileNotFoundError):  # the kernel does not count swap
                _write(self.folder / self._files.with_swap, 0 if self._files is _TWO else self._before + bound)
        except OSError:
            for pid in _cgroup_pids(self.folder):
                with contextlib.suppress(OSError):
                    _write(home / "cgroup.procs", pid)
            self._remove_and_unlock()
            raise

    def is_exceeded(self) -> bool:
        """Whether the kernel ended the processes because they took too much."""
        try:
            lines = (self.folder / self._files.events).read_text().splitlines()
        except OSError:
            return False
        return any(int(count) > 0 for name, count in map(str.split, lines) if name == "oom_kill")

    def held_bytes(self) -> int:
        """Bytes that its processes hold beyond what they held at first, files that could be read again included."""
        with contextlib.suppress(OSError):
            return self._usage() - self._before
        return 0

    def _usage(self) -> int:
        return int((self.folder / self._files.usage).read_text())

    def close(self) -> None:
        """End every process that is left in it, and remove it."""
        _kill(self.folder)
        self._remove_and_unlock()

    def _remove_and_unlock(self) -> None:
        _remove(self.folder)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def bound_memory(root: int, bound: int, *, forked: bool = False) -> Bound:
    """Bound the bytes that the processes from `root` downwards add: by a cgroup where one can be made.

    `forked` as for `MemoryWatch`.
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
    """Where cgroups of boxes may be made, and where their processes come from: at most one of each version."""
    found = []
    if (two := own_cgroup(_PROC)) is not None and prepare_cgroup(two, os.getpid()):
        found.append((two, own_cgroup(_PROC) or two))
    if (one := own_cgroup(_PROC, "memory")) is not None:
        _remove_old_cgroups(one)
        found.append((one, one))
    return found


def own_cgroup(proc: Path, controller: str = "") -> Path | None:
    """The folder of a process's cgroup, by its folder in /proc; None where there is none to be seen.

    It is that of version 2, or of version 1 with a `controller`.
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
    """Whether cgroups made in `own`, the cgroup of process `us`, have memory limits.

    It makes it so where it can. What killed runs left there is removed.
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
    with contextlib.suppress(OSError):  # it holds processes
        _write(own / "cgroup.subtree_control", "+memory")
        return
    if not _cgroup_pids(own) <= set(process_tree(us)):
        raise PermissionError(f"{own} holds processes that are not ours to move")
    below = _make(own, MAIN_PREFIX)
    take_lock(below)  # for as long as we live
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
        with contextlib.suppress(OSError):  # somebody else was faster
            if time.time() - folder.stat().st_mtime > SETTLED_SECONDS and (held := take_lock(folder)) is not None:
                if folder.name.startswith(BOX_PREFIX):
                    _kill(folder)
                _remove(folder)
                os.close(held)


def _move_processes(folder: Path, root: int) -> None:
    """Put a process and all of its descendants into a cgroup, also those that are started meanwhile."""
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
    with contextlib.suppress(OSError):  # before Linux 5.14, and in version 1, there is no such file
        return _write(folder / "cgroup.kill", 1)
    for pid in _cgroup_pids(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _remove(folder: Path) -> None:
    """Remove a cgroup as soon as its processes are gone. One that is not soon empty is left to the next sweep."""
    until = time.monotonic() + REMOVE_SECONDS
    while True:
        try:
            return os.rmdir(folder)
        except OSError as error:
            if error.errno != errno.EBUSY or not _cgroup_pids(folder) or time.monotonic() > until:
                return None
        time.sleep(0.01)


def _write(file: Path, value: int | str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)  # and never make one
    try:
        os.write(descriptor, str(value).encode() + b"\n")
    finally:
        os.close(descriptor)
