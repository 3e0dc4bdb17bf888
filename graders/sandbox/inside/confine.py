"""Linux confinement without dependencies: Landlock, and giving up root. `system_calls.py` has the filters.

Every tier of isolation on Linux uses it, and what these functions change cannot be undone in the same process. The
constants are those of the kernel's uapi headers. Only the standard library is imported, because this runs before
anything else does.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable, Iterator

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

_PR_SET_DUMPABLE, _PR_SET_KEEPCAPS = 4, 8
_PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 24, 36, 38, 47
_CAP_DAC_READ_SEARCH = 2

# Landlock: bits of access to files, in the order in which kernels learned them.
_EXECUTE, _WRITE, _READ, _READ_DIR, _REFER, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 13, 1 << 14, 1 << 15
_ACCESS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_READ_ONLY = _EXECUTE | _READ | _READ_DIR
_FILE_ACCESS = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_TCP = 3  # bind and connect
_SCOPES = 3  # abstract sockets and signals stay inside
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1


class CannotConfine(OSError):
    """Raised when the kernel or the platform lacks a means of confinement; the message says which."""


def checked_result(what: str, result: int) -> int:
    """Return the result of a system call. Raises `CannotConfine`, which says `what` failed, if it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise CannotConfine(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(what: str, *arguments: int) -> None:
    if _libc is None:
        raise CannotConfine(errno.ENOSYS, f"{what}: this is not Linux")
    padded = (*arguments, 0, 0, 0, 0)[:5]
    checked_result(what, _libc.prctl(padded[0], *(ctypes.c_ulong(value) for value in padded[1:])))


def no_new_privileges() -> None:
    """Keep every program that this process or its children start from gaining privileges."""
    _prctl("no-new-privs", _PR_SET_NO_NEW_PRIVS, 1)


def become_subreaper() -> None:
    """Make orphans among the descendants of this process its children."""
    _prctl("subreaper", _PR_SET_CHILD_SUBREAPER, 1)


def set_nondumpable() -> None:
    """Keep other processes of this user from reading this one's memory or opening its descriptors through /proc."""
    _prctl("not dumpable", _PR_SET_DUMPABLE, 0)


def set_dumpable() -> None:
    """Let this process look at itself through /proc again, as a newly started program can."""
    _prctl("dumpable", _PR_SET_DUMPABLE, 1)


def landlock_abi() -> int:
    """Return the version of Landlock that the kernel supports; 0 for none."""
    if _libc is None:
        return 0
    abi: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(0, abi)


def restrict_files(readable: Iterable[str], writable: Iterable[str], hidden: Iterable[str] = ()) -> None:
    """Use Landlock: from now on, this process and its children can use only these folders and files.

    What lies below `hidden` stays unreadable even inside a readable folder. Where the kernel can, TCP is closed, too
    (ABI 4), and so are abstract sockets and signals to processes outside (ABI 6). Raises `CannotConfine`.
    """
    abi = landlock_abi()
    if _libc is None or abi < 1:
        raise CannotConfine(errno.ENOSYS, "the kernel has no Landlock")
    every = _ACCESS_BY_ABI[min(abi, 5)]
    sizes = 8 if abi < 4 else 16 if abi < 6 else 24
    attributes = struct.pack("<QQQ", every, _TCP, _SCOPES)[:sizes]
    ruleset = checked_result(
        "Landlock", _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(sizes), ctypes.c_uint(0))
    )
    try:
        closed, modules = _real_paths(hidden), _real_paths(filter(os.path.isabs, sys.path))
        for path in _real_paths(readable):
            listed = {folder for folder in modules if is_below(folder, path)}
            for part, access in _readable_parts(path, closed, listed):
                _allow_access(ruleset, part, access & every)
        for path in writable:
            _allow_access(ruleset, path, every)
        no_new_privileges()
        checked_result("Landlock", _libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0)))
    finally:
        os.close(ruleset)


def _real_paths(paths: Iterable[str]) -> set[str]:
    return set(map(os.path.realpath, paths))


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` itself, or in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _readable_parts(path: str, hidden: set[str], modules: set[str]) -> Iterator[tuple[str, int]]:
    """Yield the readable parts of a folder of which some are hidden, each with its Landlock access rights.

    A folder that contains something hidden can be listed, hidden names included, only if it lies in one of `modules`,
    because Python finds no modules in a folder that it cannot list.
    """
    if path in hidden:
        return
    if not any(is_below(folder, path) for folder in hidden):
        yield path, _READ_ONLY
        return
    if any(is_below(path, folder) for folder in modules):
        yield path, _READ_DIR
    try:
        names = os.listdir(path)
    except PermissionError:  # closed to this user, with all that lies in it
        return
    for name in names:
        entry = os.path.join(path, name)
        if not os.path.islink(entry):  # whether its target is readable depends on where that lies
            yield from _readable_parts(entry, hidden, modules)


def _allow_access(ruleset: int, path: str, access: int) -> None:
    assert _libc is not None
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # a system without this file, for example /lib64
        return
    try:
        if not os.path.isdir(path):
            access &= _FILE_ACCESS
        rule = struct.pack("<Qi", access, place)
        checked_result(f"Landlock, {path}", _libc.syscall(_ADD_RULE, ctypes.c_int(ruleset), _PATH_BENEATH, rule, 0))
    finally:
        os.close(place)


def drop_capabilities() -> None:
    """Give up every capability of this process and of whatever it starts."""
    if _libc is None:
        raise CannotConfine(errno.ENOSYS, "capabilities: this is not Linux")
    for number in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) < 0:  # there are no more of them
            break
    header = struct.pack("<Ii", 0x20080522, 0)
    checked_result("capabilities", _libc.capset(header, bytes(24)))


def give_up_root(uid: int, *, keep_reading: bool = False) -> None:
    """Become the user `uid`, with the group of the same number and no others.

    With `keep_reading` the process can still read files and enter folders whatever their permissions
    (CAP_DAC_READ_SEARCH), because Python is installed in a home folder that is closed to others. The caller must
    restrict files afterwards.
    """
    os.setgroups([])
    if keep_reading:
        _prctl("capabilities", _PR_SET_KEEPCAPS, 1)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if keep_reading:
        bit = 1 << _CAP_DAC_READ_SEARCH
        assert _libc is not None
        header = struct.pack("<Ii", 0x20080522, 0)
        checked_result("capabilities", _libc.capset(header, struct.pack("<6I", bit, bit, bit, 0, 0, 0)))
        _prctl("capabilities", _PR_CAP_AMBIENT, 2, _CAP_DAC_READ_SEARCH)
