"""Reads the memory of processes from /proc.

Memory in page tables and in swap is shown there. What sockets hold, and what the kernel keeps for memory maps, is not,
so each socket and map counts with the most that it may take.
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
"""Linux's defaults: the bytes in a socket's send buffer, and the maps of a process."""
_MAP_BYTES, _LINK_BYTES = 384, 32
"""What the kernel keeps for a map, and for each link between a map and its copy in a forked process."""


def own_memory(pid: int, proc: Path = PROC) -> int:
    """The bytes that a process holds. Memory that it shares with others counts in full."""
    return _sum_bytes(_OWN, _status(pid, proc)[1])


def proportional_memory(pid: int, proc: Path = PROC) -> int:
    """The bytes that a process holds. Memory that it shares with others counts in proportion."""
    thread, status = _status(pid, proc)
    return _sum_bytes(_SHARE, _read(proc / str(thread) / "smaps_rollup")) or _sum_bytes(_OWN, status)


def most_memory(pid: int) -> int:
    """An upper bound in bytes: what `own_memory` counts, and sockets for all descriptors that there is room for."""
    status = _status(pid)[1]
    return _sum_bytes(_OWN, status) + _descriptor_room(status) * socket_bytes()


def is_unreadable(pid: int) -> bool:
    """Whether a process cannot be inspected: it made itself undumpable, or it belongs to another user."""
    return not os.access(PROC / str(pid) / "fd", os.R_OK)


def socket_memory(pids: Iterable[int]) -> int:
    """The most bytes that the sockets of some processes may hold. Data sent but not yet read is in no page table."""
    found: set[str] = set()
    unseen = 0
    for pid in pids:
        thread, status = _status(pid)
        try:
            found.update(_sockets(thread))
        except PermissionError:  # all of its descriptors may be sockets
            unseen += _descriptor_room(status)
        except OSError:
            continue
    return (len(found) + unseen) * socket_bytes()


def map_memory(pids: Sequence[int], enough: int) -> int:
    """The bytes that the kernel keeps for the maps of some processes. Counting stops above `enough`."""
    each, found = _MAP_BYTES + _LINK_BYTES * len(pids), 0
    for pid in pids:
        thread, _ = _status(pid)
        try:
            found += each * (PROC / str(thread) / "maps").read_bytes().count(b"\n")
        except PermissionError:
            found += each * _most_maps()
        except OSError:
            continue
        if found > enough:
            break
    return found


@functools.cache
def socket_bytes() -> int:
    """The most bytes in a socket with the default buffer size: twice that size, since the last packet may exceed it."""
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
    """The id of a thread of a process that can be asked, and that thread's status.

    If the first thread of a process has ended, one of the others has to be asked.
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
    except OSError:  # the process has ended, or this is not Linux
        return []


def _sockets(pid: int) -> Iterator[str]:
    """The names in /proc of the sockets that a process has open. Raises `OSError` if it cannot be inspected."""
    folder = f"{PROC}/{pid}/fd"
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:  # it was closed meanwhile
            continue
        if target.startswith("socket:"):
            yield target


def _descriptor_room(status: bytes) -> int:
    """For how many descriptors a process has room. The kernel makes room for at least 64 at a time."""
    found = _DESCRIPTORS.search(status)
    return int(found[1]) if found else 0


def _sum_bytes(pattern: re.Pattern[bytes], text: bytes) -> int:
    """The sum of the sizes that `pattern` finds in kB, in bytes."""
    return sum(map(int, pattern.findall(text))) << 10


def _read(file: Path) -> bytes:
    """The content of a file in /proc; empty if it cannot be read, as when the process has ended."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
