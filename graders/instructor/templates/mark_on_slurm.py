#!/usr/bin/env python3
# fmt: off
#SBATCH --job-name=hookwork
#SBATCH --output=hookwork-%j.txt
#SBATCH --time=04:00:00
#SBATCH --cpus-per-task=1
#SBATCH --mem=4G
# fmt: on
"""Mark a class on SLURM: `sbatch mark_on_slurm.py submissions.zip --out results`, with the options of `hookwork grade`.

This job asks SLURM for workers, which are jobs of their own, hands out the notebooks, and ends the workers when all are
marked. The lines above describe this job only; add the account or the partition if your cluster requires one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from dask_jobqueue import SLURMCluster
from distributed import Client
from distributed.security import Security

WORKERS = 10
"""Number of worker jobs; each marks one notebook at a time."""

JOB: dict[str, Any] = {
    "cores": 1,
    "memory": "4GB",  # for a notebook, at most 2.75 GiB, and for the process that marks it
    "walltime": "04:00:00",
    # "queue": "short",  # the partition
    # "account": "cs101",
    # "interface": "ib0",  # the network over which machines reach each other, if there are several
    # "job_extra_directives": ["--nice"],  # anything else that an #SBATCH line can say
    # "job_script_prologue": ["module load python"],  # what a job has to do first on your cluster
}

FOLDER = Path(f"hookwork-{os.environ.get('SLURM_JOB_ID', os.getpid())}").resolve()
"""Holds what the workers print, and the keys. All machines must see it: start the job in a folder that they share."""


def temporary_security(folder: Path) -> Security:
    """Keys for this run alone. Without them, anybody on the cluster could make the workers run anything as you."""
    made = Security.temporary()
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_text(made.tls_client_cert)
    key.touch(mode=0o600)
    key.write_text(made.tls_client_key)
    files = {"tls_ca_file": str(certificate)}
    for role in ("client", "scheduler", "worker"):
        files |= {f"tls_{role}_cert": str(certificate), f"tls_{role}_key": str(key)}
    return Security(require_encryption=True, **files)


def main() -> int:
    """Mark the class; returns the exit code of `hookwork grade`."""
    FOLDER.mkdir(mode=0o700)
    security = temporary_security(FOLDER)
    scheduler = FOLDER / "scheduler.json"
    hookwork = Path(sys.executable).with_name("hookwork")
    command = [str(hookwork), "grade", *sys.argv[1:], "--cluster", str(scheduler)]
    tls = "DASK_DISTRIBUTED__COMM__TLS__"
    keys = {f"{tls}CA_FILE": security.tls_ca_file, f"{tls}CLIENT__CERT": security.tls_client_cert,
            f"{tls}CLIENT__KEY": security.tls_client_key}  # fmt: skip
    job = {**JOB, "processes": 1, "job_name": "hookwork-worker", "log_directory": str(FOLDER)}
    # Nothing in the current folder may be imported: it may hold what students handed in.
    job["job_script_prologue"] = [*job.get("job_script_prologue", []), "export PYTHONSAFEPATH=1"]
    with SLURMCluster(security=security, **job) as cluster:
        cluster.adapt(minimum=WORKERS, maximum=WORKERS)  # replaces a worker that is cancelled
        with Client(cluster) as client:
            client.write_scheduler_file(str(scheduler))
        status = subprocess.run(command, env={**os.environ, **keys}, check=False).returncode
    (FOLDER / "key.pem").unlink()
    return status


if __name__ == "__main__":
    sys.exit(main())
