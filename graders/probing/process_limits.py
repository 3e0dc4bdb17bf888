"""Set the limits of the process that runs a notebook, before any code of the notebook runs."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import signal
import sys
from collections.abc import Callable, Iterator

from graders.wire.limits import MIB, PROBE_MEMORY, PROBE_PROCESSES, STACK_MEMORY, Limits

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's <sys/prctl.h>


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask Linux to send this process a signal when its parent ends; elsewhere do nothing. Raises `OSError`."""
    if sys.platform != "linux":
        return
    system = ctypes.CDLL(None, use_errno=True)
    if system.prctl(_SET_PARENT_DEATH_SIGNAL, *(ctypes.c_ulong(value) for value in (number, 0, 0, 0))) < 0:
        raise OSError(ctypes.get_errno(), "the parent-death signal cannot be set")


def apply_limits(text: str) -> None:
    """Set the limits of this process and its children, except memory and processes; some platforms have none.

    `text` is a `Limits` as JSON. Where it can, this process also dies with its parent from now on.
    """
    if resource is None:
        return
    limits = Limits.from_json(text)
    _set_resource_limit(resource.RLIMIT_FSIZE, limits.files, limits.files)
    _set_resource_limit(resource.RLIMIT_NOFILE, limits.descriptors, limits.descriptors)
    _set_resource_limit(resource.RLIMIT_CORE, 0, 0)
    die_with_parent()


def limit_memory(text: str) -> None:
    """Bound the memory that this process may add to what it has now; some platforms have no such limit.

    `text` is a `Limits` as JSON. This is only a fuse: it bounds the address space of each process by itself, so that
    code that asks for too much gets a clean error. What all processes of a box hold together is watched from outside.
    """
    if resource is None:
        return
    if not (held := address_space_bytes()):
        return
    soft = held + Limits.from_json(text).memory + STACK_MEMORY
    _set_resource_limit(resource.RLIMIT_AS, soft, soft + PROBE_MEMORY)


def describe_low_limit(limits: Limits) -> str:
    """Return which limit of this process is below what notebooks are promised, and the remedy; "" if none is.

    A limit that was set around us cannot be raised, and a right answer might fail because of it.
    """
    if resource is None:
        return ""
    promised: tuple[tuple[str, int, int, Callable[[], int], str], ...] = (
        ("open files", resource.RLIMIT_NOFILE, 1, lambda: limits.descriptors, f"-n {limits.descriptors}"),
        ("MiB per file", resource.RLIMIT_FSIZE, MIB, lambda: limits.files, "-f unlimited"),
        (
            "MiB of memory",
            resource.RLIMIT_AS,
            MIB,
            lambda: address_space_bytes() + limits.memory + STACK_MEMORY,
            "-v unlimited",
        ),
    )
    for name, what, unit, wanted, option in promised:
        _, most = resource.getrlimit(what)
        if most != resource.RLIM_INFINITY and most < wanted():
            return f"only {most // unit} {name}. Remedy: `ulimit {option}`"
    return ""


def address_space_bytes() -> int:
    """Return the bytes of address space that this process has; 0 where they cannot be bounded.

    This is the smallest bound under which one more page can be had, found by trying, because a box may not be allowed
    to read /proc. The process must have a single thread: another one might need memory meanwhile.
    """
    before = resource.getrlimit(resource.RLIMIT_AS)
    least, enough = 0, 1 << 47
    try:
        while enough - least > MIB:
            middle = (least + enough) // 2
            resource.setrlimit(resource.RLIMIT_AS, (middle, before[1]))
            try:
                mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
                enough = middle
            except (OSError, MemoryError):
                least = middle
    except (ValueError, OSError):  # macOS refuses the limit
        return 0
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    return enough


def _set_resource_limit(what: int, soft: int, hard: int) -> None:
    """Set one limit of this process, but never above the hard limit that it already has."""
    _, most = resource.getrlimit(what)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses some
        resource.setrlimit(what, (soft, hard))


def _count_user_tasks() -> int:
    """Count the processes and threads that this user already has, of those that /proc shows."""
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
    """Let this process use the memory that is reserved for probes."""
    if resource is None:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def limit_processes(limits: Limits) -> None:
    """Bound the number of processes and threads of this process and its children, where the platform can."""
    if resource is None:
        return
    soft = _count_user_tasks() + limits.processes
    _set_resource_limit(resource.RLIMIT_NPROC, soft, soft + PROBE_PROCESSES)


@contextlib.contextmanager
def room_for_a_process() -> Iterator[None]:
    """Inside, this process may start another one even if the notebook has used up its own number."""
    if resource is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))


def processes_exhausted() -> bool:
    """Whether no further process can be started, found by trying."""
    if not hasattr(os, "fork"):
        return False
    try:
        child = os.fork()
    except OSError:
        return True
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return False


def exceeded_limit(error: str, message: str) -> str | None:
    """Return the limit that an exception hit, judged by its name and message; None if it hit none.

    This is "memory", "files", "descriptors" or "processes".
    """
    if error == "MemoryError" or "can't allocate memory" in message or f"[Errno {errno.ENOMEM}]" in message:
        return "memory"
    if any(f"[Errno {number}]" in message for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)):
        return "files"
    if f"[Errno {errno.EMFILE}]" in message:
        return "descriptors"
    if "can't start new thread" in message or (error == "BlockingIOError" and f"[Errno {errno.EAGAIN}]" in message):
        return "processes"
    return None
