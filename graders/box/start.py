"""The first process of a box on Linux: gives up root, enters the tier, and sees to it that nothing is left.

Tier A becomes bubblewrap. Tier B stays as the parent of the box: orphans come to it, and it ends them all. Where the
kernel allows it, tier B gets a /tmp and other writable places of its own, of bounded size. Only standard library here,
and little of it, because each box pays for its import. Run as `python -m graders.box.start PLAN`, where PLAN is in
marshal's format and hexadecimal digits, which takes no import to read.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import signal
import struct
import sys
import time

from graders.box import confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_NOSUID, _MS_NODEV = 4096, 16384, 1 << 18, 2, 4
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MOUNT_SETATTR, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = 442, 0x8000, 1
_libc = ctypes.CDLL(None, use_errno=True)
SWEEP_SECONDS = 5.0


def main() -> None:
    """Start the box that the plan describes."""
    plan: dict[str, Any] = marshal.loads(bytes.fromhex(sys.argv[1]))
    if plan["tier"] == "A":
        _stage(plan["stage"])
        confine.give_up_root(plan["uid"])
        os.execv(plan["command"][0], plan["command"])
    _supervise(plan)


def _call(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    _call(_libc.mount(source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags),
                      options.encode()))  # fmt: skip


def _own_mounts(flags: int = 0) -> None:
    """From here on, what this process mounts is seen by it and its children alone."""
    _call(_libc.unshare(_CLONE_NEWNS | flags))


def _stage(mounts: list[list[str]]) -> None:
    """Bind folders to places that an unprivileged user can reach, in a mount namespace of our own."""
    _own_mounts()
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    for source, target in mounts:
        _mount(source, target, None, _MS_BIND | _MS_REC)


def _private_places(plan: dict[str, Any]) -> None:
    """Make all files read-only, and put small file systems of the box's own over the places that it may write to.

    The folders in `kept` stay where they are, although they may lie in /tmp. Raises `OSError` where the kernel forbids
    it: without root it takes a user namespace.
    """
    own = os.getuid(), os.getgid()
    _own_mounts(_CLONE_NEWUSER if own[0] else 0)
    if own[0]:
        maps = {"setgroups": "deny", "uid_map": f"{own[0]} {own[0]} 1", "gid_map": f"{own[1]} {own[1]} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    kept = [(path, os.open(path, os.O_PATH)) for path in plan["kept"] if path.startswith("/tmp/")]
    _read_only()
    for path, (kind, options) in plan["places"].items():
        _mount("none", path, kind, _MS_NOSUID | (_MS_NODEV if kind == "tmpfs" else 0), options)
    for path, descriptor in kept:
        os.makedirs(path)
        _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC)
        os.close(descriptor)
    os.makedirs(plan["folder"], exist_ok=True)
    _mount("none", plan["folder"], "tmpfs", _MS_NOSUID | _MS_NODEV, plan["size"])


def _read_only() -> None:
    """Everything that is mounted, from here on."""
    attributes = struct.pack("@QQQQ", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    _call(_libc.syscall(_MOUNT_SETATTR, -100, b"/", _AT_RECURSIVE, attributes, ctypes.c_size_t(len(attributes))))


def _works(attempt: Callable[[], None]) -> bool:
    """Whether something can be done, tried in a child process."""
    child = os.fork()
    if child == 0:
        try:
            attempt()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _supervise(plan: dict[str, Any]) -> None:
    """Start the box as a child, wait for its end or for ours, and leave no process behind."""
    confine.become_subreaper()
    signal.signal(signal.SIGTERM, lambda *_: _sweep_and_exit(plan["uid"]))
    confine.die_with_parent(signal.SIGTERM)
    private = _works(lambda: _private_places(plan))
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if private:
            _private_places(plan)
            os.chdir(plan["folder"])
        if plan["uid"]:
            confine.give_up_root(plan["uid"], keep_reading=plan["keep_reading"])
        command = plan["private_command"] if private else plan["command"]
        os.execv(command[0], command)
    for descriptor in plan["descriptors"]:
        os.close(descriptor)
    os.close(0)
    try:
        while os.wait()[0] != child:
            continue
    except ChildProcessError:
        pass
    _sweep_and_exit(plan["uid"])


def _sweep_and_exit(uid: int | None) -> None:
    """Kill and reap until there is nothing left, for a few seconds at most."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < deadline:
        if uid:
            _kill_all_of(uid)
        for child in _children():
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            _remove_shared_memory(uid)
            os._exit(0)
        time.sleep(0.005)
    os._exit(1)


def _kill_all_of(uid: int) -> None:
    """Kill every process of a user that exists for this box alone: even a fork bomb cannot outrun that."""
    killer = os.fork()
    if killer == 0:
        try:
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(killer, 0)


def _remove_shared_memory(uid: int | None) -> None:
    """Remove what the box's own user left in /dev/shm."""
    if not uid:
        return
    try:
        with os.scandir("/dev/shm") as entries:
            for entry in entries:
                if entry.stat(follow_symlinks=False).st_uid == uid and not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
    except OSError:
        pass


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    main()
