"""The first process of a box on Linux: gives up root, enters the tier, and sees to it that nothing is left.

Tier A becomes bubblewrap, or makes namespaces itself when it was forked from the warm process. Tier B stays as the
parent of the box: orphans come to it, and it ends them all. Where the kernel allows it, tier B gets a /tmp and other
writable places of its own, of bounded size. Only standard library here. Run as `python -m graders.box.start
DESCRIPTOR PLAN`, as `graders.box.main` is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from graders.box import confine, mounts
from graders.wire.launch import BoxPlan, Plan, Supervision, System

SWEEP_SECONDS = 5.0


Enter = Callable[[BoxPlan], NoReturn]
"""What a process does once it is where the plan wants it; it is given the plan of the box itself."""


def main() -> NoReturn:
    """Start the box that the plan describes, as a program of its own."""
    descriptor, plan = sys.argv[1], Plan.from_json(sys.argv[2])

    def execute(inner: BoxPlan) -> NoReturn:
        command = [*plan.command, descriptor, inner.to_json()]
        os.execv(command[0], command)

    enter(plan, int(descriptor), execute)


def enter(plan: Plan, descriptor: int, box: Enter) -> NoReturn:
    """Take this process, or a child of it, to the tier of the plan, and go on there with `box`.

    Frames are written to `descriptor`, which processes that stay behind close.
    """
    if plan.supervision is not None:
        _supervise(plan, plan.supervision, descriptor, box)
    if plan.uid:
        mounts.stage(plan.stage)
        confine.give_up_root(plan.uid)
        confine.open_to_itself()
    if plan.system is not None:
        _enter_namespaces(plan.box, plan.system, descriptor, box)
    box(plan.box)


def _enter_namespaces(inner: BoxPlan, system: System, descriptor: int, box: Enter) -> NoReturn:
    """Start the box in namespaces of its own, and end with it.

    The first process in them is a child that does nothing but reap: signals from inside do not reach it, and nothing
    in the box is to be beyond the reach of what else is there.
    """
    mounts.leave_for_own_namespaces()
    child = os.fork()
    if child == 0:
        confine.die_with_parent()
        mounts.own_system(system)
        confine.drop_capabilities()
        child = os.fork()
        if child == 0:
            box(inner)
    os.close(descriptor)
    os.close(0)
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _supervise(plan: Plan, how: Supervision, descriptor: int, box: Enter) -> NoReturn:
    """Start the box as a child, wait for its end or for ours, and leave no process behind."""
    confine.become_subreaper()
    signal.signal(signal.SIGTERM, lambda *_: _sweep_and_exit(plan.uid))
    confine.die_with_parent(signal.SIGTERM)

    def start(inner: BoxPlan) -> NoReturn:
        if plan.uid:
            confine.give_up_root(plan.uid, keep_reading=how.keep_reading)
        box(inner)

    mounted, tell = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            mounts.private_places(how)
            os.chdir(how.private_box.folder)
            os.write(tell, b"+")
        except BaseException:
            os._exit(1)
        os.close(mounted)
        os.close(tell)
        start(how.private_box)
    os.close(tell)
    private = os.read(mounted, 1)
    os.close(mounted)
    if not private:  # nothing may be mounted here; half of it would be worse than none
        os.waitpid(child, 0)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            start(plan.box)
    os.close(descriptor)
    os.close(0)
    with contextlib.suppress(ChildProcessError):
        while os.wait()[0] != child:
            continue
    _sweep_and_exit(plan.uid)


def _sweep_and_exit(uid: int | None) -> NoReturn:
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
