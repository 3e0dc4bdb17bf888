"""Limits of the process that runs a notebook, set before any of its code does."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

from graders.box import confine
from graders.wire.limits import FILES_SLACK, PROBE_MEMORY, PROBE_PROCESSES, Limits


def apply_limits(text: str) -> None:
    """Set the limits of this process and its children. Platforms without them go without."""
    try:
        import resource
    except ImportError:
        return
    limits = Limits.from_json(text)
    wanted: list[tuple[Any, int, int]] = [
        (resource.RLIMIT_AS, limits.memory, limits.memory + PROBE_MEMORY),
        (resource.RLIMIT_FSIZE, limits.files, limits.files),
        (resource.RLIMIT_NOFILE, limits.descriptors, limits.descriptors),
        (resource.RLIMIT_CORE, 0, 0),
    ]
    for what, soft, hard in wanted:
        _, most = resource.getrlimit(what)
        bounds = (soft, hard) if most == resource.RLIM_INFINITY else (min(soft, most), min(hard, most))
        try:
            resource.setrlimit(what, bounds)
        except (ValueError, OSError):  # macOS refuses an address-space limit
            continue
    confine.die_with_parent()


def _tasks_of_this_user() -> int:
    """Processes and threads that count against the limit of this user already, as far as /proc shows them."""
    count, uid = 0, os.getuid()
    try:
        processes = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return 0
    for name in processes:
        try:
            if os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return count


def use_probe_memory() -> None:
    """Allow this process the memory that is kept for probes."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def limit_processes(limits: Limits) -> None:
    """Bound the processes and threads of this process and its children, where the platform can."""
    try:
        import resource
    except ImportError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    soft = _tasks_of_this_user() + limits.processes
    hard = soft + PROBE_PROCESSES
    bounds = (soft, hard) if most == resource.RLIM_INFINITY else (min(soft, most), min(hard, most))
    resource.setrlimit(resource.RLIMIT_NPROC, bounds)


@contextlib.contextmanager
def room_for_a_process() -> Iterator[None]:
    """Meanwhile this process may start one although the notebook used up its own number of them."""
    try:
        import resource
    except ImportError:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))


def processes_exhausted() -> bool:
    """Whether no further process can be started."""
    try:
        child = os.fork()
    except OSError:
        return True
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return False


def limit_hit(error: str, message: str) -> str | None:
    """Which limit an exception tells of, by its name and message: "memory", "files", "descriptors", "processes"."""
    if error == "MemoryError" or "can't allocate memory" in message:
        return "memory"
    if any(f"[Errno {number}]" in message for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)):
        return "files"
    if f"[Errno {errno.EMFILE}]" in message:
        return "descriptors"
    if "can't start new thread" in message or (error == "BlockingIOError" and f"[Errno {errno.EAGAIN}]" in message):
        return "processes"
    return None


def files_over_limit(folder: str, limits: Limits) -> str | None:
    """What a folder holds too much of, in words, or None. Looks at no more entries than the limit."""
    count = size = 0
    folders = [folder]
    while folders and count <= limits.inodes and size <= limits.files + FILES_SLACK:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if count > limits.inodes:
                        break
        except OSError:  # gone by now, closed, or a path longer than the system takes
            continue
    if count > limits.inodes:
        return f"more than {limits.inodes} files"
    return f"more than {limits.files >> 20} MiB of files" if size > limits.files + FILES_SLACK else None
