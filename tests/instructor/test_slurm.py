"""A class marked on a real SLURM, of this machine alone: with the job script that users get, as its page says."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graders.cli import app
from graders.instructor import cluster
from graders.instructor.request import BadRequest
from tests.answers import answers_of
from tests.instructor import slurm
from tests.make_class import SETUP, hand_in
from tests.notebooks import LESSON

pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is missing: pip install -e '.[slurm]'")
from distributed import Client
from distributed.security import Security

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing())]
STUDENTS = 24
GRADE = ["class", "--seed", "7", "--export", "canvas"]


def make_class(folder: Path) -> None:
    """Students, each with one of two answers to each exercise, right or wrong."""
    answers, rng = answers_of(LESSON), random.Random(4)
    for number in range(STUDENTS):
        cells = [rng.choice([answers.right[key][0], *answers.wrong[key].values()]) for key in answers.right]
        hand_in(folder / f"student {number:02}", LESSON, [SETUP, *cells])


def job_script(folder: Path) -> Path:
    """What `hookwork autograder slurm` writes, edited as a user would: two workers, over this network."""
    file = folder / "mark_on_slurm.py"
    assert CliRunner().invoke(app, ["autograder", "slurm", "--out", str(file)]).exit_code == 0
    text = file.read_text()
    for old, new in {"WORKERS = 10": "WORKERS = 2", '# "interface": "ib0"': '"interface": "lo"'}.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    file.write_text(text)
    return file


def without_clocks(results: Path) -> list[dict[str, Any]]:
    """The submissions in `results.json`, less the seconds that their runs took."""
    submissions: list[dict[str, Any]] = json.loads((results / "results.json").read_text())["submissions"]
    for submission in submissions:
        del submission["seconds"]
    return submissions


def left(folder: Path) -> int:
    """How many notebooks have no result yet, as the scheduler says. Its address and its keys lie in the folder."""
    where = json.loads((folder / "scheduler.json").read_text())["address"]
    files = {"tls_ca_file": "certificate.pem", "tls_client_cert": "certificate.pem", "tls_client_key": "key.pem"}
    keys = Security(require_encryption=True, **{name: str(folder / file) for name, file in files.items()})
    with Client(where, security=keys, set_as_default=False) as client:
        return int(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))


def test_a_class_survives_a_cancelled_job_with_the_results_of_an_undisturbed_run(tmp_path: Path) -> None:
    make_class(tmp_path / "class")
    here = subprocess.run(
        [sys.executable, "-m", "graders.cli", "grade", *GRADE, "--out", "here"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert here.returncode == 0, here.stdout + here.stderr
    with slurm.slurm() as environment:
        environment |= {"PATH": f"{Path(sys.executable).parent}:{environment['PATH']}"}

        def jobs(*chosen: str) -> list[str]:
            return slurm.told(environment, "squeue", "--noheader", "--format=%i", *chosen).split()

        submit = ["sbatch", "--parsable", str(job_script(tmp_path)), *GRADE, "--out", "there"]
        done = subprocess.run(submit, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        number = done.stdout.strip()
        folder = tmp_path / f"hookwork-{number}"
        slurm.wait(lambda: (folder / "scheduler.json").exists(), "the scheduler")
        with pytest.raises(BadRequest, match="wants keys"), cluster.dask_executor(str(folder / "scheduler.json")):
            pass
        slurm.wait(lambda: left(folder) == STUDENTS, "all notebooks")
        slurm.wait(lambda: left(folder) <= STUDENTS - 8, "the first notebooks", 120)
        victim, *_ = jobs("--states=R", "--name=hookwork-worker")
        subprocess.run(["scancel", victim], env=environment, check=True)
        at_that_time = left(folder)
        slurm.wait(lambda: not jobs(f"--jobs={number}", "--states=PD,R,CG"), "the end of the run", 300)
    told = (tmp_path / f"hookwork-{number}.txt").read_text()
    assert f"{STUDENTS} of {STUDENTS} notebooks done" in told, told
    assert at_that_time > 0  # otherwise it was cancelled too late to matter
    assert f"JOB {victim} ON" in (folder / f"hookwork-worker-{victim}.err").read_text()
    assert without_clocks(tmp_path / "there") == without_clocks(tmp_path / "here")
    for name in ("gradebook.csv", "canvas.csv"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    assert not (folder / "key.pem").exists()
