"""The first process of a box on Linux: gives up root, enters the tier, and sees to it that nothing is left.

Tier A becomes bubblewrap. Tier B stays as the parent of the box: orphans come to it, and it ends them all. Only
standard library here. Run as `python -m graders.box.start PLAN`, where PLAN is JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from typing import Any

from graders.box import confine

_MS_BIND, _MS_REC, _MS_PRIVATE, _CLONE_NEWNS = 4096, 16384, 1 << 18, 0x00020000
SWEEP_SECONDS = 5.0


def main() -> None:
    """Start the box that the plan describes."""
    plan: dict[str, Any] = json.loads(sys.argv[1])
    if plan["tier"] == "A":
        if plan["uid"]:
            _stage(plan["stage"])
            confine.give_up_root(plan["uid"])
        os.execv(plan["command"][0], plan["command"])
    _supervise(plan)


def _stage(mounts: list[list[str]]) -> None:
    """Bind folders to places that an unprivileged user can reach, in a mount namespace of our own."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(result: int) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    call(libc.unshare(_CLONE_NEWNS))
    call(libc.mount(None, b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None))
    for source, target in mounts:
        call(libc.mount(source.encode(), target.encode(), None, ctypes.c_ulong(_MS_BIND | _MS_REC), None))


def _supervise(plan: dict[str, Any]) -> None:
    """Start the box as a child, wait for its end or for ours, and leave no process behind."""
    confine.become_subreaper()
    signal.signal(signal.SIGTERM, lambda *_: _sweep_and_exit(plan["uid"]))
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if plan["uid"]:
            confine.give_up_root(plan["uid"], keep_reading=plan["keep_reading"])
        os.execv(plan["command"][0], plan["command"])
    for descriptor in plan["descriptors"]:
        os.close(descriptor)
    os.close(0)
    with contextlib.suppress(ChildProcessError):
        while os.wait()[0] != child:
            continue
    _sweep_and_exit(plan["uid"])


def _sweep_and_exit(uid: int | None) -> None:
    """Kill and reap until there is nothing left, for a few seconds at most."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < deadline:
        if uid:
            _kill_all_of(uid)
        for child in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
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
    with contextlib.suppress(OSError), os.scandir("/dev/shm") as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_uid == uid and not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    main()
