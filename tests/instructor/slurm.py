"""A SLURM of this one machine, with a key, ports and folders of its own: munged, slurmctld and slurmd, and a queue."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue")
PATH = f"{os.environ['PATH']}:/usr/sbin"

CONFIGURATION = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=64000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
"""Processes are found by their parents, since not every machine has cgroups that may be used; and there are said to be
four cores, so that a job and its workers run at the same time on two."""


def missing() -> str:
    """What has to be installed; empty when all is there."""
    lacking = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    return f"{', '.join(lacking)} not found: apt install slurm-wlm munge" if lacking else ""


@contextmanager
def slurm() -> Iterator[dict[str, str]]:
    """The environment in which SLURM's commands find this cluster. At the end its jobs are cancelled, and it ends."""
    with tempfile.TemporaryDirectory(prefix="hookwork-slurm-") as place, ExitStack() as resources:
        folder = Path(place)
        folder.chmod(0o755)
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o600)
        controller, node = free_ports(2)
        host, user = socket.gethostname().partition(".")[0], os.environ.get("USER") or "root"
        text = CONFIGURATION.format(host=host, user=user, folder=folder, controller=controller, node=node)
        (folder / "slurm.conf").write_text(text)
        environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
        munge = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        for command in (
            ["munged", "--foreground", f"--socket={folder}/munge.socket", *munge],
            ["slurmctld", "-D", "-c"],
            ["slurmd", "-D", "-N", host],
        ):
            resources.enter_context(running(command, environment, folder / f"{command[0]}.log"))
            if command[0] == "munged":
                wait(lambda: (folder / "munge.socket").exists(), "munged")
        resources.callback(ended, environment)
        wait(lambda: "idle" in told(environment, "sinfo", "--noheader"), f"slurmd\n{logs(folder)}")
        yield environment


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def ended(environment: dict[str, str]) -> None:
    """Cancel all jobs, and wait until none is left."""
    subprocess.run(["scancel", "--full", "--me"], env=environment, check=False)
    wait(lambda: not told(environment, "squeue", "--noheader"), "the end of all jobs")


def told(environment: dict[str, str], *command: str) -> str:
    """What a command prints; nothing while it fails."""
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout


def wait(done: object, what: str, seconds: float = 60) -> None:
    """Wait until `done()`. Raises `TimeoutError`."""
    assert callable(done)
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.2)


def free_ports(number: int) -> list[int]:
    with ExitStack() as resources:
        found = [resources.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [server.getsockname()[1] for server in found]


def logs(folder: Path) -> str:
    return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-800:]}" for file in sorted(folder.glob("*.log")))
