"""Tier C: a box in a container of podman or docker."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from graders.sandbox.outside.box_users import free_user, own_number
from graders.sandbox.outside.launch import BOX_FOLDER, Launch, box_environment
from graders.wire.launch import BoxPlan, LaunchPlan, Walls
from graders.wire.limits import PROBE_PROCESSES, Limits

HELD_MEMORY = 512 << 20
"""Bytes that a container may use for torch and Jupyter alone, on top of the notebook's limit. CUDA builds need most."""
HELD_PROCESSES = 64
"""The same for processes and threads. What the notebook adds is counted in the box, which can say if it is too much."""
_PLAN_OF_C = LaunchPlan(
    tier="C",
    # The container restricts the files. The other walls are those of A: above all, the notebook cannot inspect the
    # process that holds the pipe.
    box=BoxPlan(BOX_FOLDER, Walls(readable=(), writable=())),
    command=("/usr/bin/env", "python", "-m", "graders.sandbox.inside.main"),
    supervised=True,
)
"""The first process in a container has to be ours: any other would hold the pipe open for the notebook to find."""


def container_memory(limits: Limits) -> int:
    """The memory limit of a container, in bytes."""
    return HELD_MEMORY + limits.memory_together


def container_command(program: str, image: str, name: str, uid: int, box_modules: Path, limits: Limits) -> list[str]:
    """The command for a box in a container, which reads requests from stdin and writes frames to stdout."""
    memory = container_memory(limits)
    return [
        program,
        "run",
        "--rm",
        "-i",
        "--pull=never",  # an image of this name in a registry would be a stranger's
        f"--name={name}",
        "--network=none",
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        f"--memory={memory}",
        f"--memory-swap={memory}",
        f"--pids-limit={HELD_PROCESSES + limits.processes + PROBE_PROCESSES}",
        "--ulimit=core=0",
        # Otherwise podman raises these as far as it can, which fails if we run as root in a container ourselves.
        "--ulimit=nofile=1024:1024",
        "--ulimit=nproc=4096:4096",
        f"--user={uid}:{uid}",
        f"--tmpfs={BOX_FOLDER}:size={limits.files},mode=1777",
        "--tmpfs=/tmp:size=16m",
        "--shm-size=16m",
        f"--volume={box_modules}:/modules:ro",
        *(f"--env={key}={value}" for key, value in box_environment(BOX_FOLDER, "/modules").items()),
        f"--workdir={BOX_FOLDER}",
        image,
        "python",
        "-S",
        "-m",
        "graders.sandbox.inside.start",
        "1",
        _PLAN_OF_C.to_json(),
    ]


def container_launch(folder: Path, box_modules: Path, limits: Limits) -> Launch:
    """How to start a box in a container of podman, or else docker, from the image `HOOKWORK_IMAGE`."""
    program = shutil.which("podman") or shutil.which("docker") or "docker"
    image = os.environ.get("HOOKWORK_IMAGE", "hookwork")
    # Each container gets a user of its own, since processes are counted by user. Rootless podman has 65,536 ids.
    rootless = os.path.basename(program) == "podman" and os.getuid() != 0
    uid = 1 + own_number() % 65_000 if rootless else free_user()
    command = container_command(program, image, folder.name, uid, box_modules, limits)
    # The cleanup is needed because a container goes on when the command that started it is killed.
    return Launch(
        str(folder),
        command=tuple(command),
        cleanup=(program, "rm", "--force", folder.name),
        # Podman needs the user's variables to find its images, but would pass those for proxies into the container.
        variables={name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
    )
