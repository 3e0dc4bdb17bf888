"""Decide what a box sees of the file system, where the kernel lets us mount: libc's mount(2) and its relatives.

Only the standard library is imported, because this runs before anything else does.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Collection, Mapping
from typing import Any

from graders.wire.launch import TERMINALS, Pairs, PrivatePlaces, System

_BIND, _RECURSIVE, _PRIVATE, _NOSUID, _NODEV, _NOEXEC = 4096, 16384, 1 << 18, 2, 4, 8
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_NEW_REST = 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000  # cgroup, uts, ipc, pid, net
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_ATTR_READ_ONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_DETACH = 2
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _call_libc(name: str, *arguments: Any) -> None:
    """Call a function of the C library. Raises `OSError`."""
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str = "") -> None:
    _call_libc(
        "mount", source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags), options.encode()
    )


def _restrict_mount(target: str, attributes: int, recursive: bool = True) -> None:
    """Set attributes such as read-only on a mount and, with `recursive`, on those below it."""
    packed = struct.pack("@QQQQ", attributes, 0, 0, 0)
    flags = ctypes.c_uint(_AT_RECURSIVE if recursive else 0)
    _call_libc("syscall", _MOUNT_SETATTR, _AT_FDCWD, target.encode(), flags, packed, ctypes.c_size_t(len(packed)))


def _unshare_namespaces(flags: int) -> None:
    """From here on, only this process and its children see what it mounts.

    Without root this takes a user namespace. The user keeps its number there: mapped to root, it could write to some
    settings of the kernel.
    """
    user, group = os.getuid(), os.getgid()
    flags |= _NEW_USER if user else 0
    _call_libc("unshare", flags)
    if flags & _NEW_USER:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)


def bind_staged_folders(binds: Pairs) -> None:
    """Bind folders to places that an unprivileged user can reach, seen only by this process and its children."""
    _unshare_namespaces(_NEW_MOUNTS)
    for source, target in binds:
        _mount(source, target, None, _BIND | _RECURSIVE)


def mount_private_places(how: PrivatePlaces) -> None:
    """Make all files read-only, and mount small file systems of the box's own over the places that it may write to.

    Raises `OSError` if the kernel forbids it.
    """
    folder, walls = how.box.folder, how.box.walls
    _unshare_namespaces(_NEW_MOUNTS)
    hidden = walls.hidden if walls else ()
    above = tuple(f"{place}/" for place in (*how.mounts, *hidden))
    held = {path: os.open(path, os.O_PATH) for path in how.staying if path.startswith(above)}
    _restrict_mount("/", _ATTR_READ_ONLY)
    for path, (kind, options) in how.mounts.items():
        _mount("none", path, kind, _NOSUID | (_NODEV if kind == "tmpfs" else 0), options)
    # Landlock closes what is hidden, too, but not in /tmp, which is open as a whole.
    _bind_and_hide({path: f"/proc/self/fd/{descriptor}" for path, descriptor in held.items()}, hidden)
    for descriptor in held.values():
        os.close(descriptor)
    for text, place in how.links:
        if place.startswith(above) and not os.path.lexists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(text, place)
    os.makedirs(folder, exist_ok=True)
    _mount("none", folder, "tmpfs", _NOSUID | _NODEV, how.size)


def unshare_all_namespaces() -> None:
    """Enter new namespaces for users, mounts, processes, network and the rest.

    The next child is the first process in them. Raises `OSError` if the kernel forbids it, as it may to root: become
    another user first.
    """
    _unshare_namespaces(_NEW_MOUNTS | _NEW_REST)


def pivot_to_system(system: System) -> None:
    """Replace the root of this process, the first in its namespaces, by a system that is read-only but for `places`."""
    root = system.root
    _mount("none", root, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=0755")
    os.mkdir(root + "/proc")
    _mount("none", root + "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    _make_devices(root + "/dev")
    for path, options in system.places.items():  # before the binds, some of which lie in /tmp
        os.makedirs(root + path, exist_ok=True)
        _mount("none", root + path, "tmpfs", _NOSUID | _NODEV, options)
    _bind_and_hide({root + target: source for source, target in system.binds}, [root + path for path in system.hidden])
    for text, target in system.links:
        os.makedirs(os.path.dirname(root + target), exist_ok=True)
        os.symlink(text, root + target)
    os.chdir(root)
    # The old root ends up under the new one, at the same place, and is detached.
    _call_libc("syscall", _PIVOT_ROOT[os.uname().machine], b".", b".")
    _call_libc("umount2", b".", _DETACH)
    os.chdir("/")
    for path in ("/", "/dev"):
        _restrict_mount(path, _ATTR_READ_ONLY, recursive=False)


def _bind_and_hide(binds: Mapping[str, str], hidden: Collection[str]) -> None:
    """Bind what is visible, read-only, to its place, and mount something empty over what is hidden.

    Either may lie in the other, so the paths are sorted: a folder comes before what lies in it.
    """
    emptied = []
    for path in sorted({*binds, *hidden}):
        if path in binds:
            _bind_path(binds[path], path)
            _restrict_mount(path, _ATTR_READ_ONLY | _ATTR_NOSUID | _ATTR_NODEV)
        if path in hidden and os.path.lexists(path):
            if os.path.isdir(path):
                _mount("none", path, "tmpfs", _NOSUID | _NODEV, "size=4k,mode=0555")
            else:
                _mount("/dev/null", path, None, _BIND)
            emptied.append(path)
    for path in emptied:
        _restrict_mount(path, _ATTR_READ_ONLY | _ATTR_NODEV, recursive=False)


def _bind_path(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "x").close()
    _mount(source, target, None, _BIND | _RECURSIVE)


def _make_devices(folder: str) -> None:
    os.mkdir(folder)
    _mount("none", folder, "tmpfs", _NOSUID, "size=1m,mode=0755")
    for name in _DEVICES:
        _bind_path(f"/dev/{name}", f"{folder}/{name}")
    for name in ("shm", "pts"):
        os.mkdir(f"{folder}/{name}")
    _mount("none", f"{folder}/pts", "devpts", _NOSUID | _NOEXEC, TERMINALS)
    for text, name in (
        ("pts/ptmx", "ptmx"), ("/proc/self/fd", "fd"), ("/proc/self/fd/0", "stdin"), ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ):  # fmt: skip
        os.symlink(text, f"{folder}/{name}")
