"""The tiers of isolation: how a box is started. The code inside it and the protocol are the same in each.

A   bubblewrap, or the warm process by itself: namespaces for users, mounts, processes, network; a read-only system;
    a small tmpfs to write to.
B   no namespaces: a user of its own when we are root; Landlock, seccomp, rlimits.
C   a container: docker or podman.
D   two processes, clock and byte limits; files, memory and network are not protected.

On Linux nothing is left of a box in A, B and D, also where the first process of the machine reaps nobody: a parent
stays that ends and reaps what the box leaves, or the warm process reaps the first process of a namespace.
"""

from __future__ import annotations

import errno
import functools
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graders.box import confine
from graders.run.box_users import free_user, own_number
from graders.run.links import python_links, python_path
from graders.run.visible import hidden_paths, is_below, readable_paths
from graders.wire import forking
from graders.wire.launch import BoxPlan, LaunchPlan, Pairs, PrivatePlaces, System, Walls
from graders.wire.limits import FILES_SLACK, PROBE_PROCESSES, Limits

TIERS = ("A", "B", "C", "D")
WARM_TIERS = ("A", "B", "D")
"""Those whose boxes can be forked. A container starts everything anew."""
_FILES = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
          "/etc/fonts", "/sys/devices/system")  # fmt: skip
_PROC = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm/overcommit_memory",
         "/proc/sys/kernel/random")  # fmt: skip
_DEVICES = ("/dev/null", "/dev/urandom", "/dev/random")
_ZERO = "/dev/zero"
"""Read-only: who may write to it can map it as memory that is shared, which no page table has to show."""
_SOCKETS = ("/run", "/var/run", "/var/tmp")
_TERMINALS = ("/dev/tty", "/dev/ptmx", "/dev/pts")
HELD_MEMORY = 512 << 20
"""What a container is allowed for torch and Jupyter, before the notebook adds anything: builds with CUDA take most."""
HELD_PROCESSES = 64
"""Likewise, processes and threads. The box counts by itself what the notebook adds, and can say when it is too much."""
BOX_FOLDER = "/box"
"""The box's own folder as tier A shows it."""


@dataclass(frozen=True)
class Launch:
    """How to start a box: a plan for `graders.box.start`, or the command of a container."""

    folder: str
    """The folder in which the box finds itself."""
    plan: LaunchPlan | None = None
    command: tuple[str, ...] = ()
    cleanup: tuple[str, ...] = ()
    """A command to run when the process has ended."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Those of the command, where it is not the box itself and passes none of them on."""

    @property
    def supervised(self) -> bool:
        """Whether the first process, asked to end, ends everything else (SIGTERM)."""
        return self.plan is not None and self.plan.supervised

    def start_command(self, descriptor: int) -> list[str]:
        """The command that starts the box as a program; frames are to be written to `descriptor`."""
        plan = self.plan
        if plan is None:
            return list(self.command)
        if plan.uid is None and not plan.supervised:
            return [*plan.command, str(descriptor), plan.box.to_json()]
        return [python_path(), "-S", "-m", "graders.box.start", str(descriptor), plan.to_json()]


def inherited_variables() -> dict[str, str]:
    """Variables that a Python process may need to start; no other variable of ours enters the box.

    `python` and `pip` are first of all those of this Python, also where nobody activated its environment.
    """
    found = {name: os.environ[name] for name in ("SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    return found | {"PATH": os.pathsep.join([os.path.dirname(python_path()), os.environ.get("PATH", os.defpath)])}


def box_environment(folder: str, box_modules: str | Path) -> dict[str, str]:
    """The variables of a box whose own folder and modules are at these places, as it sees them."""
    home = folder + "/home"
    return {
        "HOME": home,
        "USERPROFILE": home,  # what Windows calls it
        "USER": "learner",
        "LOGNAME": "learner",
        "TMPDIR": folder + "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(box_modules),
        "PYTHONDONTWRITEBYTECODE": "1",
        "IPYTHONDIR": home + "/ipython",
        "JUPYTER_CONFIG_DIR": home + "/jupyter",
        "JUPYTER_DATA_DIR": home + "/jupyter-data",
        "JUPYTER_RUNTIME_DIR": home + "/jupyter-run",
        "MPLCONFIGDIR": home + "/matplotlib",
        # matplotlib reads it when it is imported, which may be before there is a kernel.
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        # One thread: equal numbers on every machine, and a kernel that can be forked.
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        # Installers would try again and again to reach a network.
        "PIP_NO_INDEX": "1",
        "PIP_RETRIES": "0",
        "PIP_TIMEOUT": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "UV_OFFLINE": "1",
        "CONDA_OFFLINE": "1",
        # glibc reserves 64 MiB of address space for each thread's heap, and the memory limit counts it.
        "MALLOC_ARENA_MAX": "1",
    }


def prepare_launch(
    tier: str, folder: Path, box_modules: Path, limits: Limits, *, warm: bool = False, private: Sequence[str] = ()
) -> Launch:
    """How a box of this tier is started, as a program of its own or as a fork of the warm process.

    Whatever else of this machine it may read, what lies in `private` it may not, in tiers A and B.
    """
    if tier in ("A", "B"):
        started = _landlock_launch if tier == "B" else _namespace_launch if warm else _bubblewrap_launch
        return started(folder, box_modules, limits, hidden_paths(private))
    return (_container_launch if tier == "C" else _plain_launch)(folder, box_modules, limits)


def missing_for_tier(tier: str, *, warm: bool = False) -> str:
    """What a tier needs and is not there; empty when it can be tried, from the warm process or without it."""
    if tier == "D":
        return ""
    if tier == "C":
        return "" if shutil.which("podman") or shutil.which("docker") else "neither podman nor docker is installed"
    if not forking.can_fork:
        return "this is not Linux"
    if not confine.seccomp_possible():
        return "there is no filter of system calls for this kind of processor"
    if tier == "A" and warm:
        return ""
    if tier == "A":
        return "" if shutil.which("bwrap") else "bubblewrap (the command bwrap) is not installed"
    return "" if confine.landlock_abi() >= 4 else "the kernel's Landlock is older than version 4"


def _main_command() -> tuple[str, ...]:
    return (python_path(), "-m", "graders.box.main")


def _box_user_id() -> int | None:
    """A user id for one box alone, when we are root."""
    return free_user() if os.getuid() == 0 else None


def _plain_launch(folder: Path, box_modules: Path, limits: Limits) -> Launch:
    plan = LaunchPlan(tier="D", box=BoxPlan(str(folder)), command=_main_command(), supervised=forking.can_fork)
    return Launch(str(folder), plan)


def _landlock_launch(folder: Path, box_modules: Path, limits: Limits, closed: tuple[str, ...]) -> Launch:
    uid = _box_user_id()
    if uid:
        os.chown(folder, uid, uid)
    small = ("tmpfs", f"size={16 << 20},nr_inodes={limits.inodes},mode=1777")
    places = {"/tmp": small, "/dev/shm": small, "/dev/pts": ("devpts", "newinstance,ptmxmode=0666,mode=0620")}
    # Programs of the machine keep their sockets there, and no Landlock closes them.
    shut = [folder for folder in _SOCKETS if os.path.isdir(folder) and not os.path.islink(folder)]
    places |= dict.fromkeys(shut, ("tmpfs", "size=64k,mode=0755"))
    most = limits.files + FILES_SLACK + (1 << 20)  # so that the watch inside, which can say what happened, comes first
    size = f"size={most},nr_inodes={20 * limits.inodes},uid={uid or os.getuid()},gid={uid or os.getgid()},mode=0700"
    needed = (*readable_paths(), str(box_modules))
    walls = Walls(
        readable=(*needed, *_FILES, *_PROC, _ZERO),
        # What others use as well is closed, unless the box has a user of its own, which can be swept up after.
        writable=(str(folder), *_DEVICES, *(("/dev/shm", *_TERMINALS) if uid else ())),
        hidden=closed,
        metadata=uid is not None,
    )
    private = replace(walls, writable=(str(folder), *_DEVICES, *_TERMINALS, "/dev/shm", "/tmp"), metadata=True)
    plan = LaunchPlan(
        tier="B",
        box=BoxPlan(str(folder), walls),
        uid=uid,
        # The folder itself is that user's already.
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
    """Whether any user can get at a file or into a folder."""
    within = (folder.stat().st_mode & 0o001 for folder in Path(path).parents)
    return bool(os.stat(path).st_mode & (0o001 if os.path.isdir(path) else 0o004)) and all(within)


_PLAN_OF_C = LaunchPlan(
    tier="C",
    # The container restricts the files. The rest is as in A: above all, nobody looks into the process with the pipe.
    box=BoxPlan(BOX_FOLDER, Walls(readable=(), writable=())),
    command=("/usr/bin/env", "python", "-m", "graders.box.main"),
    supervised=True,
)
"""The first process of the container is ours, since any other would hold that pipe open for the notebook to find."""
_BOX_OF_A = BoxPlan(
    BOX_FOLDER, Walls(readable=("/",), writable=(BOX_FOLDER, "/tmp", "/dev/shm", *_DEVICES, *_TERMINALS))
)


def _stage_and_system(
    folder: Path, box_modules: Path, uid: int | None, places: Mapping[str, str], closed: Iterable[str]
) -> tuple[Pairs, System]:
    """What root has to bind first, so that another user can get at what lies in a closed folder; what tier A shows."""
    stage: list[tuple[str, str]] = []
    binds: list[tuple[str, str]] = []
    links: list[tuple[str, str]] = []
    hides: list[str] = []
    shown = {
        path: os.path.realpath(path) for path in (*readable_paths(), *filter(os.path.exists, _FILES), str(box_modules))
    }
    for path, source in shown.items():
        if os.path.islink(path) and any(is_below(source, other) for other in shown):
            links.append((os.readlink(path), path))
            continue
        hides += [path + place[len(source) :] for place in closed if is_below(place, source)]
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
    """Whether none of the other places is this one, lies in it or holds it."""
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
    for path in sorted({*sources, *view.hidden}):  # a folder comes before what lies in it
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
        "--dev", "/dev", "--size", small, "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
        "--proc", "/proc",
        "--size", str(limits.files), "--tmpfs", BOX_FOLDER, "--chdir", BOX_FOLDER,
        "--remount-ro", "/",
    ]  # fmt: skip
    command = (
        program, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc",
        "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
        *arguments, *_main_command(),
    )  # fmt: skip
    # The kernel ends what is in a namespace, but somebody has to reap what bubblewrap leaves when it is ended itself.
    return Launch(
        BOX_FOLDER, LaunchPlan(tier="A", box=_BOX_OF_A, uid=uid, stage=stage, command=command, supervised=True)
    )


def container_memory(limits: Limits) -> int:
    """What a container may take in all, in bytes."""
    return HELD_MEMORY + limits.memory_together


def container_command(program: str, image: str, name: str, uid: int, box_modules: Path, limits: Limits) -> list[str]:
    """The command that runs a box in a container, reading requests on stdin and writing frames to stdout."""
    memory = container_memory(limits)
    return [
        program,
        "run",
        "--rm",
        "-i",
        "--pull=never",  # an image of this name in a registry is a stranger's
        f"--name={name}",
        "--network=none",
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        f"--memory={memory}",
        f"--memory-swap={memory}",
        f"--pids-limit={HELD_PROCESSES + limits.processes + PROBE_PROCESSES}",
        "--ulimit=core=0",
        # Without these, podman raises them as far as they go, which root in a container of its own may not.
        "--ulimit=nofile=1024:1024",
        "--ulimit=nproc=4096:4096",
        f"--user={uid}:{uid}",
        f"--tmpfs={BOX_FOLDER}:size={limits.files},mode=1777",
        "--tmpfs=/tmp:size=16m",
        "--shm-size=16m",
        f"--volume={box_modules}:/kit:ro",
        *(f"--env={key}={value}" for key, value in box_environment(BOX_FOLDER, "/kit").items()),
        f"--workdir={BOX_FOLDER}",
        image,
        "python",
        "-S",
        "-m",
        "graders.box.start",
        "1",
        _PLAN_OF_C.to_json(),
    ]


def _container_launch(folder: Path, box_modules: Path, limits: Limits) -> Launch:
    program = shutil.which("podman") or shutil.which("docker") or "docker"
    image = os.environ.get("HOOKWORK_IMAGE", "hookwork")
    # A user of its own, since processes are counted for each user. Without root, podman has 65,536 of them.
    rootless = os.path.basename(program) == "podman" and os.getuid() != 0
    uid = 1 + own_number() % 65_000 if rootless else free_user()
    command = container_command(program, image, folder.name, uid, box_modules, limits)
    # A container goes on when the command that started it is killed.
    return Launch(
        str(folder),
        command=tuple(command),
        cleanup=(program, "rm", "--force", folder.name),
        # Podman finds its images by the user's variables, and puts those for proxies into each container.
        variables={name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
    )
