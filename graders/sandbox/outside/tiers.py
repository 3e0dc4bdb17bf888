"""The tiers of isolation, which differ in how a box is started. The code inside and the protocol are always the same.

A   bubblewrap, or the warm process by itself: namespaces for users, mounts, processes and network; a read-only system;
    a small tmpfs to write to.
B   no namespaces: a user of its own if we are root; Landlock, seccomp, rlimits.
C   a container: docker or podman.
D   a separate process with limits on time and bytes; files, memory and network are not protected.

In A, B and D on Linux, no process of a box stays behind, even if the machine's init process does not reap orphans:
either a parent stays with the box to end and reap what is left, or the warm process reaps the first process of a
namespace.
"""

from __future__ import annotations

import errno
import functools
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from graders.sandbox.inside import confine, system_calls
from graders.sandbox.outside.box_users import free_user
from graders.sandbox.outside.container import container_launch
from graders.sandbox.outside.launch import BOX_FOLDER, Launch
from graders.sandbox.outside.links import python_links, python_path
from graders.sandbox.outside.visible import hidden_paths, readable_paths
from graders.wire import forking
from graders.wire.launch import TERMINALS, BoxPlan, LaunchPlan, Pairs, PrivatePlaces, System, Walls
from graders.wire.limits import FILES_SLACK, Limits

TIERS = ("A", "B", "C", "D")
WARM_TIERS = ("A", "B", "D")
"""The tiers whose boxes can be forked from the warm process. A container starts everything from scratch."""
_FILES = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
          "/etc/fonts", "/sys/devices/system")  # fmt: skip
_PROC = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm/overcommit_memory",
         "/proc/sys/kernel/random")  # fmt: skip
_DEVICES = ("/dev/null", "/dev/urandom", "/dev/random")
_ZERO = "/dev/zero"
"""Readable only: whoever may write to it can map it as shared memory, which need not show in any page table."""
_SOCKETS = ("/run", "/var/run", "/var/tmp")
_TERMINALS = ("/dev/tty", "/dev/ptmx", "/dev/pts")


def prepare_launch(
    tier: str, folder: Path, box_modules: Path, limits: Limits, *, warm: bool = False, private: Sequence[str] = ()
) -> Launch:
    """How to start a box of this tier: as a program of its own, or with `warm` as a fork of the warm process.

    In tiers A and B the files and folders in `private` cannot be read inside, wherever they are.
    """
    if tier in ("A", "B"):
        started = _landlock_launch if tier == "B" else _namespace_launch if warm else _bubblewrap_launch
        return started(folder, box_modules, limits, hidden_paths(private))
    return (container_launch if tier == "C" else _plain_launch)(folder, box_modules, limits)


def missing_for_tier(tier: str, *, warm: bool = False) -> str:
    """What a tier needs but is missing here, in a few words; empty if it can be tried, with or without `warm`."""
    if tier == "D":
        return ""
    if tier == "C":
        return "" if shutil.which("podman") or shutil.which("docker") else "neither podman nor docker is installed"
    if not forking.can_fork:
        return "this is not Linux"
    if not system_calls.seccomp_possible():
        return "there is no filter of system calls for this kind of processor"
    if tier == "A" and warm:
        return ""
    if tier == "A":
        return "" if shutil.which("bwrap") else "bubblewrap (the command bwrap) is not installed"
    return "" if confine.landlock_abi() >= 4 else "the kernel's Landlock is older than version 4"


def _main_command() -> tuple[str, ...]:
    return (python_path(), "-m", "graders.sandbox.inside.main")


def _box_user_id() -> int | None:
    """A user id for one box if we are root; otherwise None."""
    return free_user() if os.getuid() == 0 else None


def _plain_launch(folder: Path, box_modules: Path, limits: Limits) -> Launch:
    plan = LaunchPlan(tier="D", box=BoxPlan(str(folder)), command=_main_command(), supervised=forking.can_fork)
    return Launch(str(folder), plan)


def _landlock_launch(folder: Path, box_modules: Path, limits: Limits, closed: tuple[str, ...]) -> Launch:
    uid = _box_user_id()
    if uid:
        os.chown(folder, uid, uid)
    small = ("tmpfs", f"size={16 << 20},nr_inodes={limits.inodes},mode=1777")
    places = {"/tmp": small, "/dev/shm": small, "/dev/pts": ("devpts", TERMINALS)}
    # Programs keep their sockets in these folders, and Landlock does not prevent connecting to them.
    shut = [folder for folder in _SOCKETS if os.path.isdir(folder) and not os.path.islink(folder)]
    places |= dict.fromkeys(shut, ("tmpfs", "size=64k,mode=0755"))
    most = limits.files + FILES_SLACK + (1 << 20)  # more than the limit inside, which can say what happened
    size = f"size={most},nr_inodes={20 * limits.inodes},uid={uid or os.getuid()},gid={uid or os.getgid()},mode=0700"
    needed = (*readable_paths(), str(box_modules))
    walls = Walls(
        readable=(*needed, *_FILES, *_PROC, _ZERO),
        # Shared memory is writable only if the box has a user of its own, whose files can be found and removed.
        # Terminals could not be bounded.
        writable=(str(folder), *_DEVICES, *(("/dev/shm",) if uid else ())),
        hidden=closed,
        metadata=uid is not None,
    )
    private = replace(walls, writable=(str(folder), *_DEVICES, *_TERMINALS, "/dev/shm", "/tmp"), metadata=True)
    plan = LaunchPlan(
        tier="B",
        box=BoxPlan(str(folder), walls),
        uid=uid,
        # The box's own folder need not be open to all: it belongs to that user.
        keep_reading=uid is not None and not all(map(_open_to_all, (*needed, str(folder.parent)))),
        command=_main_command(),
        private=PrivatePlaces(
            box=BoxPlan(str(folder), private),
            mounts=places,
            size=size,
            staying=tuple(map(os.path.realpath, needed)),
            links=tuple((text, place) for place, text in python_links().items()),
        ),
        supervised=True,
    )
    return Launch(str(folder), plan)


@functools.cache
def _open_to_all(path: str) -> bool:
    """Whether every user can read a file, or enter a folder."""
    within = (folder.stat().st_mode & 0o001 for folder in Path(path).parents)
    return bool(os.stat(path).st_mode & (0o001 if os.path.isdir(path) else 0o004)) and all(within)


_BOX_OF_A = BoxPlan(
    BOX_FOLDER, Walls(readable=("/",), writable=(BOX_FOLDER, "/tmp", "/dev/shm", *_DEVICES, *_TERMINALS))
)


def _stage_and_system(
    folder: Path, box_modules: Path, uid: int | None, places: Mapping[str, str], closed: Iterable[str]
) -> tuple[Pairs, System]:
    """What root has to bind before it becomes user `uid`, and what tier A shows. `closed` are real paths to hide."""
    stage: list[tuple[str, str]] = []
    binds: list[tuple[str, str]] = []
    links: list[tuple[str, str]] = []
    hides: list[str] = []
    shown = {
        path: os.path.realpath(path) for path in (*readable_paths(), *filter(os.path.exists, _FILES), str(box_modules))
    }
    for path, source in shown.items():
        if os.path.islink(path) and any(confine.is_below(source, other) for other in shown):
            links.append((os.readlink(path), path))
            continue
        hides += [path + place[len(source) :] for place in closed if confine.is_below(place, source)]
        reachable = source
        if uid and not _open_to_all(source):
            reachable = str(folder / f"stage{len(stage)}")
            os.mkdir(reachable) if os.path.isdir(source) else open(reachable, "x").close()
            stage.append((source, reachable))
        binds.append((reachable, path))
    there = ("/proc", "/dev", *(place for _, place in links), *(path for _, path in binds))
    links += [(text, place) for place, text in python_links().items() if _is_free(place, there) and place not in places]
    if uid:
        os.chown(folder, uid, uid)
        os.chmod(folder, 0o700)
    root = str(folder / "root")
    return tuple(stage), System(root=root, binds=tuple(binds), links=tuple(links), places=places, hidden=tuple(hides))


def _is_free(place: str, others: Iterable[str]) -> bool:
    """Whether none of the other paths is this one, or above or below it."""
    return not any(f"{place}/".startswith(f"{other}/") or other.startswith(f"{place}/") for other in others)


def _namespace_launch(folder: Path, box_modules: Path, limits: Limits, closed: tuple[str, ...]) -> Launch:
    uid = _box_user_id()
    root = folder / "root"
    root.mkdir()
    if uid:
        os.chown(root, uid, uid)
    small = f"size={16 << 20},nr_inodes={limits.inodes},mode=1777"
    places = {"/tmp": small, "/dev/shm": small,
               BOX_FOLDER: f"size={limits.files + FILES_SLACK},nr_inodes={20 * limits.inodes},mode=0700"}  # fmt: skip
    stage, system = _stage_and_system(folder, box_modules, uid, places, closed)
    return Launch(BOX_FOLDER, LaunchPlan(tier="A", box=_BOX_OF_A, uid=uid, stage=stage, system=system))


def _bubblewrap_launch(folder: Path, box_modules: Path, limits: Limits, closed: tuple[str, ...]) -> Launch:
    program = shutil.which("bwrap")
    if program is None:
        raise confine.CannotConfine(errno.ENOENT, "bubblewrap (the command bwrap) is gone")
    uid, small = _box_user_id(), str(16 << 20)
    stage, view = _stage_and_system(folder, box_modules, uid, {}, closed)
    arguments = ["--size", small, "--tmpfs", "/tmp"]
    sources = {target: source for source, target in view.binds}
    emptied = []
    for path in sorted({*sources, *view.hidden}):  # in this order a folder comes before its content
        if path in sources:
            arguments += ["--ro-bind", sources[path], path]
        if path in view.hidden and os.path.isdir(path):
            arguments += ["--tmpfs", path]
            emptied.append(path)
        elif path in view.hidden:
            arguments += ["--ro-bind", "/dev/null", path]
    for text, target in view.links:
        arguments += ["--symlink", text, target]
    for path in emptied:
        arguments += ["--remount-ro", path]
    arguments += [
        "--dev", "/dev", "--size", small, "--tmpfs", "/dev/shm",
        "--size", "4096", "--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts",  # its terminals could not be bounded
        "--remount-ro", "/dev",
        "--proc", "/proc",
        "--size", str(limits.files), "--tmpfs", BOX_FOLDER, "--chdir", BOX_FOLDER,
        "--remount-ro", "/",
    ]  # fmt: skip
    command = (
        program, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc",
        "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
        *arguments, *_main_command(),
    )  # fmt: skip
    # The kernel ends everything in a namespace, but when bubblewrap itself is ended, its orphans have to be reaped.
    return Launch(
        BOX_FOLDER, LaunchPlan(tier="A", box=_BOX_OF_A, uid=uid, stage=stage, command=command, supervised=True)
    )
