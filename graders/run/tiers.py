"""The tiers of isolation: how a box is started. The code inside it and the protocol are the same in each.

A   bubblewrap: namespaces for users, mounts, processes, network; a read-only system; a small tmpfs to write to.
B   no namespaces: a user of its own when we are root; Landlock, seccomp, rlimits; a parent that sweeps up.
C   a container: docker or podman.
D   two processes, clock and byte limits; files, memory and network are not protected.
"""

from __future__ import annotations

import errno
import itertools
import json
import marshal
import os
import shutil
import site
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graders.box import confine
from graders.box.limits import FILES_SLACK, Limits
from graders.run.leftovers import FIRST_UID

TIERS = ("A", "B", "C", "D")
PACKAGE = Path(__file__).parent.parent
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_FILES = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
          "/etc/fonts", "/sys/devices/system")  # fmt: skip
_PROC = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm/overcommit_memory",
         "/proc/sys/kernel/random")  # fmt: skip
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_TERMINALS = ("/dev/tty", "/dev/ptmx", "/dev/pts")
INSIDE = "/box"
"""The box's own folder as tier A shows it."""


@dataclass(frozen=True)
class Launch:
    """How to start the process of a box: a command, and the folder in which it finds itself."""

    command: list[str]
    folder: str
    supervised: bool = False
    """Whether the first process, asked to end, ends everything else (SIGTERM)."""
    cleanup: tuple[str, ...] = ()
    """A command to run when the process has ended."""


def python_folders() -> list[str]:
    """The folders of the Python installation and of the packages that a notebook may import."""
    found = {sys.prefix, sys.base_prefix, sys.exec_prefix, *site.getsitepackages()}
    found |= {str(Path(sys.executable).resolve().parent.parent)}
    # Packages may lie elsewhere, too: in a user's own folder, or where a .pth file points to.
    found |= {one for one in sys.path if Path(one).name in ("site-packages", "dist-packages") and Path(one).is_dir()}
    roots = sorted(os.path.realpath(one) for one in found)
    return [one for one in roots if not any(one.startswith(other + "/") for other in roots)
            and not any(one == top or one.startswith(top + "/") for top in _SYSTEM)]  # fmt: skip


def hidden_folders() -> list[str]:
    """Where solutions and graders lie: this package, and what an installation of it put among the packages.

    An editable installation leaves copies of the lessons and solutions there, too.
    """
    places = [PACKAGE, *(Path(one) / "graders" for one in site.getsitepackages())]
    return sorted({os.path.realpath(one) for one in places if one.is_dir()})


def environment(folder: str, kit: str | Path) -> dict[str, str]:
    """The variables of a box whose own folder and kit are at these places, as it sees them."""
    home = folder + "/home"
    return {
        "HOME": home,
        "USER": "learner",
        "LOGNAME": "learner",
        "TMPDIR": folder + "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(kit),
        "PYTHONDONTWRITEBYTECODE": "1",
        "IPYTHONDIR": home + "/ipython",
        "JUPYTER_CONFIG_DIR": home + "/jupyter",
        "JUPYTER_DATA_DIR": home + "/jupyter-data",
        "JUPYTER_RUNTIME_DIR": home + "/jupyter-run",
        "MPLCONFIGDIR": home + "/matplotlib",
        # One thread: equal numbers on every machine, and a kernel that can be forked.
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        # glibc reserves 64 MiB of address space for each thread's heap, and the memory limit counts it.
        "MALLOC_ARENA_MAX": "1",
    }


def launch(tier: str, folder: Path, kit: Path, descriptor: int, limits: Limits) -> Launch:
    """How a box of this tier is started. `descriptor` is the one that frames are written to."""
    makers = {"A": _bubblewrap, "B": _landlocked, "C": _container, "D": _plain}
    return makers[tier](folder, kit, descriptor, limits)


def missing(tier: str) -> str:
    """What a tier needs and is not there; empty when it can be tried."""
    if tier == "D":
        return ""
    if tier == "C":
        return "" if shutil.which("podman") or shutil.which("docker") else "neither podman nor docker is installed"
    if sys.platform != "linux":
        return "this is not Linux"
    if not confine.seccomp_possible():
        return "there is no filter of system calls for this kind of processor"
    if tier == "A":
        return "" if shutil.which("bwrap") else "bubblewrap (the command bwrap) is not installed"
    return "" if confine.landlock_abi() >= 4 else "the kernel's Landlock is older than version 4"


def _main(descriptor: int, plan: dict[str, Any]) -> list[str]:
    return [os.path.abspath(sys.executable), "-m", "graders.box.main", str(descriptor), json.dumps(plan)]


def _start(plan: dict[str, Any]) -> list[str]:
    return [os.path.abspath(sys.executable), "-S", "-m", "graders.box.start", marshal.dumps(plan).hex()]


def _uid() -> int | None:
    """A user that nobody else has, when we are root: pids of living processes differ."""
    if os.getuid() != 0:
        return None
    return FIRST_UID + os.getpid() * 64 % 100_000_000 + next(_started) % 64


_started = itertools.count()


def _plain(folder: Path, kit: Path, descriptor: int, limits: Limits) -> Launch:
    return Launch(_main(descriptor, {"folder": str(folder)}), str(folder))


def _landlocked(folder: Path, kit: Path, descriptor: int, limits: Limits) -> Launch:
    uid = _uid()
    if uid:
        os.chown(folder, uid, uid)
    small = ("tmpfs", f"size={16 << 20},mode=1777")
    places = {"/tmp": small, "/dev/shm": small, "/dev/pts": ("devpts", "newinstance,ptmxmode=0666,mode=0620")}
    most = limits.files + FILES_SLACK + (1 << 20)  # so that the watch inside, which can say what happened, comes first
    size = (
        f"size={most},nr_inodes={2 * limits.inodes + 1000},uid={uid or os.getuid()},gid={uid or os.getgid()},mode=0700"
    )
    plan = {
        "folder": str(folder),
        "readable": [*_SYSTEM, *_FILES, *_PROC, *python_folders(), str(kit)],
        # What others use as well is closed, unless the box has a user of its own, which can be swept up after.
        "writable": [str(folder), *_DEVICES, *(["/dev/shm", *_TERMINALS] if uid else [])],
        "hidden": hidden_folders(),
        "metadata": uid is not None,
    }
    private = plan | {"writable": [str(folder), *_DEVICES, *_TERMINALS, "/dev/shm", "/tmp"], "metadata": True}
    kept = [os.path.realpath(one) for one in (*python_folders(), str(kit))]
    closed = uid is not None and not all(_open_to_all(one) for one in (*python_folders(), str(kit), str(folder)))
    first = {"tier": "B", "uid": uid, "keep_reading": closed, "folder": str(folder), "kept": kept, "places": places,
             "size": size,
             "command": _main(descriptor, plan), "private_command": _main(descriptor, private),
             "descriptors": [descriptor]}  # fmt: skip
    return Launch(_start(first), str(folder), supervised=True)


def _open_to_all(path: str) -> bool:
    """Whether any user can get into a folder."""
    return all(one.stat().st_mode & 0o001 for one in (Path(path), *Path(path).parents))


def _bubblewrap(folder: Path, kit: Path, descriptor: int, limits: Limits) -> Launch:
    program = shutil.which("bwrap")
    if program is None:
        raise confine.CannotConfine(errno.ENOENT, "bubblewrap (the command bwrap) is gone")
    uid = _uid()
    arguments, stage = ["--size", str(16 << 20), "--tmpfs", "/tmp"], []
    folders = [*python_folders(), str(kit)]
    for number, source in enumerate(folders):
        reachable = source
        if uid:
            reachable = str(folder / f"stage{number}")
            os.mkdir(reachable)
            stage.append([source, reachable])
        arguments += ["--ro-bind", reachable, source]
    for path in _SYSTEM:
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    for path in _FILES:
        arguments += ["--ro-bind-try", path, path]
    for path in hidden_folders():
        if any(path.startswith(one + "/") for one in folders):
            arguments += ["--tmpfs", path, "--remount-ro", path]
    if uid:
        os.chown(folder, uid, uid)
        os.chmod(folder, 0o700)
    small = str(16 << 20)
    arguments += [
        "--dev", "/dev", "--size", small, "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
        "--proc", "/proc",
        "--size", str(limits.files), "--tmpfs", INSIDE, "--chdir", INSIDE,
        "--remount-ro", "/",
    ]  # fmt: skip
    plan = {"folder": INSIDE, "readable": ["/"], "writable": [INSIDE, "/tmp", "/dev"], "hidden": [], "metadata": True}
    command = [
        program, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc",
        "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
        *arguments, *_main(descriptor, plan),
    ]  # fmt: skip
    if not uid:
        return Launch(command, INSIDE)
    return Launch(_start({"tier": "A", "uid": uid, "stage": stage, "command": command}), INSIDE)


def container_command(program: str, image: str, name: str, kit: Path, limits: Limits) -> list[str]:
    """The command that runs a box in a container, reading requests on stdin and writing frames to stdout."""
    memory = limits.memory_together
    return [
        program, "run", "--rm", "-i", "--init", f"--name={name}", "--network=none", "--read-only", "--cap-drop=ALL",
        "--security-opt=no-new-privileges", f"--memory={memory}", f"--memory-swap={memory}",
        f"--pids-limit={limits.processes}", "--ulimit=core=0", "--user=65534:65534",
        f"--tmpfs={INSIDE}:size={limits.files},mode=1777", "--tmpfs=/tmp:size=16m", "--shm-size=16m",
        f"--volume={kit}:/kit:ro", *(f"--env={key}={value}" for key, value in environment(INSIDE, "/kit").items()),
        f"--workdir={INSIDE}", image, "python", "-m", "graders.box.main", "1", json.dumps({"folder": INSIDE}),
    ]  # fmt: skip


def _container(folder: Path, kit: Path, descriptor: int, limits: Limits) -> Launch:
    program = shutil.which("podman") or shutil.which("docker") or "docker"
    image = os.environ.get("HOOKWORK_IMAGE", "hookwork")
    command = container_command(program, image, folder.name, kit, limits)
    # A container goes on when the command that started it is killed.
    return Launch(command, str(folder), cleanup=(program, "rm", "--force", folder.name))
