"""The first process of a box on Linux: it gives up root, enters the tier, and makes sure that nothing is left behind.

If the plan asks for it, this process stays as the parent of the box: orphans become its children, and it ends them all.
In tier A it becomes bubblewrap, or makes namespaces itself if the warm process forked it. In tier B, if the kernel
allows it, the box gets a /tmp and other writable places of its own, of bounded size. Only the standard library is
imported. Run as `python -m graders.sandbox.inside.start DESCRIPTOR PLAN`, like `graders.sandbox.inside.main`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from graders.probing.process_limits import die_with_parent
from graders.sandbox.inside import confine, mounts
from graders.wire.launch import BoxPlan, LaunchPlan, PrivatePlaces, System

SWEEP_SECONDS = 5.0
"""How long to go on killing and reaping what the box left behind."""

Enter = Callable[[BoxPlan], NoReturn]
"""What a process does once it is where the plan wants it, given the plan of the box itself."""


def main() -> NoReturn:
    """Entry point: start the box that the plan describes, as a program of its own."""
    descriptor, plan = sys.argv[1], LaunchPlan.from_json(sys.argv[2])

    def execute(inner: BoxPlan) -> NoReturn:
        command = [*plan.command, descriptor, inner.to_json()]
        os.execv(command[0], command)

    enter_tier(plan, int(descriptor), execute)


def enter_tier(plan: LaunchPlan, descriptor: int, box: Enter) -> NoReturn:
    """Take this process, or a child of it, into the tier of the plan, and go on there with `box`.

    Frames are written to `descriptor`, so processes that stay behind close it.
    """
    inner = _fork_supervised(plan, descriptor) if plan.supervised else plan.box
    if plan.uid:
        if plan.stage:
            mounts.bind_staged_folders(plan.stage)
        confine.give_up_root(plan.uid, keep_reading=plan.keep_reading)
        confine.set_dumpable()
    if plan.system is not None:
        _enter_namespaces(inner, plan.system, descriptor, box)
    box(inner)


def _enter_namespaces(inner: BoxPlan, system: System, descriptor: int, box: Enter) -> NoReturn:
    """Start the box in namespaces of its own, and end with it.

    The box is their process 1: it has to reap what others in it leave behind, and signals from inside do not end it.
    """
    mounts.unshare_all_namespaces()
    child = os.fork()
    if child == 0:
        die_with_parent()
        mounts.pivot_to_system(system)
        confine.drop_capabilities()
        box(inner)
    os.close(descriptor)
    os.close(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _fork_supervised(plan: LaunchPlan, descriptor: int) -> BoxPlan:
    """Fork the process that becomes the box, and return, only there, the plan that holds for it.

    This process stays as its parent, waits until the box or our own process ends, and leaves no process behind.
    """
    confine.become_subreaper()
    signal.signal(signal.SIGTERM, lambda *_: _sweep_and_exit(plan.uid))
    die_with_parent(signal.SIGTERM)
    inner, child = plan.box, None
    if plan.private is not None and (child := _fork_into_places(plan.private)) is not None:
        inner = plan.private.box
    if child is None:
        child = _fork_terminable()
    if child == 0:
        return inner
    os.close(descriptor)
    os.close(0)
    confine.set_nondumpable()
    with contextlib.suppress(ChildProcessError):
        while os.wait()[0] != child:
            continue
    _sweep_and_exit(plan.uid)


def _fork_into_places(private: PrivatePlaces) -> int | None:
    """Fork a child with writable places of its own; return 0 in it, its pid here, or None if nothing may be mounted."""
    mounted, tell = os.pipe()
    child = _fork_terminable()
    if child == 0:
        try:
            mounts.mount_private_places(private)
            os.chdir(private.box.folder)
            os.write(tell, b"+")
        except BaseException:  # only some of the mounts would be worse than none
            os._exit(1)
        os.close(mounted)
        os.close(tell)
        return 0
    os.close(tell)
    succeeded = os.read(mounted, 1)
    os.close(mounted)
    if succeeded:
        return child
    os.waitpid(child, 0)
    return None


def _fork_terminable() -> int:
    """Like `os.fork`, but SIGTERM ends the child, whatever this process does on it."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return child


def _sweep_and_exit(uid: int | None) -> NoReturn:
    """Kill and reap until nothing is left, for at most `SWEEP_SECONDS`, then exit."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < deadline:
        if uid:
            _kill_user_processes(uid)
        for child in _child_pids():
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


def _kill_user_processes(uid: int) -> None:
    """Kill every process of a user that exists only for this box; even a fork bomb cannot outrun that."""
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


def _child_pids() -> list[int]:
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent_pid(pid) == os.getpid()]


def _parent_pid(pid: int) -> int:
    """The pid of the parent of a process; 0 where it cannot be read."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])
    return 0


if __name__ == "__main__":
    main()
