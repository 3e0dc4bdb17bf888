"""The memory of processes, as /proc shows it from outside.

What is in page tables and in swap is read. What their sockets hold, and the kernel's lists of their maps, is nowhere to
be read, so they count for what they may take.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

PROC = Path("/proc")
_OWN = re.compile(rb"(?:Rss(?:Anon|Shmem)|VmSwap):\s*(\d+) kB")
_SHARE = re.compile(rb"(?:Pss_(?:Anon|Shmem)|SwapPss):\s*(\d+) kB")
_DESCRIPTORS = re.compile(rb"FDSize:\s*(\d+)")
_USUAL_SOCKET, _USUAL_MAPS = 212_992, 65_530
_MAP_BYTES, _LINK_BYTES = 384, 32
"""The kernel's own memory for a map, and what each process adds to those of the processes that were forked from it."""


def own_memory(pid: int, proc: Path = PROC) -> int:
    """Bytes of a process; what it shares with others counts in full."""
    return _sum_bytes(_OWN, _status(pid, proc)[1])


def proportional_memory(pid: int, proc: Path = PROC) -> int:
    """Bytes of a process; what it shares with others counts in proportion."""
    teller, status = _status(pid, proc)
    return _sum_bytes(_SHARE, _read(proc / str(teller) / "smaps_rollup")) or _sum_bytes(_OWN, status)


def most_memory(pid: int) -> int:
    """Bytes of a process that `own_memory` counts, and of as many sockets as it has room for descriptors."""
    status = _status(pid)[1]
    return _sum_bytes(_OWN, status) + _descriptor_room(status) * socket_bytes()


def is_unreadable(pid: int) -> bool:
    """Whether a process does not let itself be looked at: it set that, or it belongs to somebody else."""
    return not os.access(PROC / str(pid) / "fd", os.R_OK)


def socket_memory(pids: Iterable[int]) -> int:
    """Bytes that the sockets of some processes may hold: what was sent and not yet read is in no page table."""
    found: set[str] = set()
    unseen = 0
    for pid in pids:
        teller, status = _status(pid)
        try:
            found.update(_sockets(teller))
        except PermissionError:  # all that is open may be sockets
            unseen += _descriptor_room(status)
        except OSError:
            continue
    return (len(found) + unseen) * socket_bytes()


def map_memory(pids: Sequence[int], enough: int) -> int:
    """Bytes that the kernel keeps for the maps of some processes. More than `enough` is not counted further."""
    each, found = _MAP_BYTES + _LINK_BYTES * len(pids), 0
    for pid in pids:
        teller, _ = _status(pid)
        try:
            found += each * (PROC / str(teller) / "maps").read_bytes().count(b"\n")
        except PermissionError:
            found += each * _most_maps()
        except OSError:
            continue
        if found > enough:
            break
    return found


@functools.cache
def socket_bytes() -> int:
    """What a socket may hold whose size nobody has set: the last packet may be as large again as all before it."""
    return 2 * _setting("net/core/wmem_default", _USUAL_SOCKET)


@functools.cache
def _most_maps() -> int:
    return _setting("vm/max_map_count", _USUAL_MAPS)


def _setting(name: str, usual: int) -> int:
    try:
        return int((PROC / "sys" / name).read_bytes())
    except (OSError, ValueError):
        return usual


def _status(pid: int, proc: Path = PROC) -> tuple[int, bytes]:
    """The status of a process, and which of its threads told it.

    A process whose first thread has ended goes on with the others. Then one of these has to be asked.
    """
    text = _read(proc / str(pid) / "status")
    if _OWN.search(text):
        return pid, text
    for other in _threads(pid):
        if _OWN.search(found := _read(proc / str(other) / "status")):
            return other, found
    return pid, text


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(PROC / str(pid) / "task")]
    except OSError:  # it ended, or this is not Linux
        return []


def _sockets(pid: int) -> Iterator[str]:
    """The names that /proc gives to the sockets that a process has open. Raises `OSError`."""
    folder = f"{PROC}/{pid}/fd"
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:  # it was closed
            continue
        if target.startswith("socket:"):
            yield target


def _descriptor_room(status: bytes) -> int:
    """For how many descriptors a process has room; the kernel makes it for 64 and more at a time."""
    found = _DESCRIPTORS.search(status)
    return int(found[1]) if found else 0


def _sum_bytes(pattern: re.Pattern[bytes], text: bytes) -> int:
    """Bytes: the sum of what `pattern` finds in kB."""
    return sum(map(int, pattern.findall(text))) << 10


def _read(file: Path) -> bytes:
    """A file that tells of a process or thread; nothing when it cannot be read."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
