"""Tier C and Gradescope's scripts in real containers. `HOOKWORK_WHOLE_CATALOGUE=1` takes every stranger's notebook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.answers import answers_of
from tests.instructor.test_autograders import results, written
from tests.make_class import SETUP, hand_in
from tests.notebooks import LESSON
from tests.sandbox.outside import containers
from tests.sandbox.outside.attack_cases import FULL
from tests.sandbox.outside.catalogue import CASES
from tests.sandbox.outside.containers import Podman
from tests.sandbox.outside.test_catalogue import check_case, run_cases

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(containers.missing()), reason=containers.missing())]

SAMPLE = (
    "fs_read_solutions", "reads another submission", "net_loopback", "sec_environ", "memory by mmap", "proc_daemon",
    "the pipe of frames", "sec_parent_mem", "namespaces and mounts",
)  # fmt: skip
"""A case for each wall."""
LARGER = ("memory of several processes", "memory that several processes share with nobody by mmap")
"""Cases that a container has room for: it is allowed what torch takes as well."""


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    """A podman that the commands find, with the image of tier C built from the Dockerfile that users get."""
    with (
        tempfile.TemporaryDirectory(prefix="podman-", dir="/tmp") as short,  # podman takes no path beyond 50 characters
        containers.podman(Path(short)) as found,
        pytest.MonkeyPatch.context() as patch,
    ):
        written(found.folder / "image/Dockerfile", "container")
        patch.setenv("HOOKWORK_IMAGE", found.build(found.folder / "image", "hookwork"))
        patch.setenv("PATH", f"{found.program.parent}:{os.environ['PATH']}")
        yield found


def grade(tmp_path: Path, tier: str) -> subprocess.CompletedProcess[str]:
    """`hookwork grade` of a class in a tier; results lie in a folder with the tier's name."""
    command = [sys.executable, "-m", "graders.cli", "grade", "class", "--seed", "7", "--isolation", tier, "--out", tier]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def comparable(folder: Path) -> list[dict[str, Any]]:
    """The submissions in `results.json`, less seconds and tier."""
    submissions: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())["submissions"]
    return [{k: v for k, v in part.items() if k not in ("seconds", "isolation")} for part in submissions]


def test_a_class_has_the_same_results_in_containers_as_without(podman: Podman, tmp_path: Path) -> None:
    answers = answers_of(LESSON)
    hand_in(tmp_path / "class/ann", LESSON, [SETUP, *(sources[0] for sources in answers.right.values())])
    hand_in(tmp_path / "class/bob", LESSON, [SETUP, *(next(iter(given.values())) for given in answers.wrong.values())])
    for tier in ("C", "A"):
        done = grade(tmp_path, tier)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"isolation {tier}" in done.stdout
    assert comparable(tmp_path / "C") == comparable(tmp_path / "A")
    assert podman("ps", "--all", "--quiet") == ""


def test_without_an_image_it_says_how_to_make_one(
    podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_in(tmp_path / "class/ann", LESSON, [SETUP])
    monkeypatch.setenv("HOOKWORK_IMAGE", "elsewhere")
    done = grade(tmp_path, "C")
    assert done.returncode == 3
    assert (
        "missing image: Error: elsewhere: image not known. Remedy: build it with `hookwork autograder container`"
        in (" ".join((done.stdout + done.stderr).split()))
    )


def test_strangers_notebooks_get_what_they_deserve_and_reach_nothing(podman: Podman, tmp_path: Path) -> None:
    whole = os.environ.get("HOOKWORK_WHOLE_CATALOGUE")
    names = [name for name in CASES if name not in LARGER] if whole else SAMPLE
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOOKWORK_TEST_SECRET", "token")
        found = run_cases("C", tmp_path, {name: CASES[name] for name in names}, keep_outputs=False)
    for name in names:
        check_case(CASES[name], found.results[name])
    assert tuple(exercise.status.value for exercise in found.results["neighbour"].exercises) == FULL
    assert (found.visitors, found.changed, found.left) == ([], [], [])
    assert podman("ps", "--all", "--quiet") == ""


@dataclass(frozen=True)
class Started:
    """A container that is running; `folders` are mounted in it, each as the folder of that name in the root."""

    podman: Podman
    name: str
    folders: Path

    def __call__(self, *command: str) -> str:
        """What a command prints in it, as root."""
        return self.podman("exec", self.name, *command)


@pytest.fixture(scope="module")
def autograder(podman: Podman) -> Started:
    """The image that Gradescope makes of the zip, on a plain Debian, in a container without network.

    There is one, since what its first program imports is compiled then for the others.
    """
    file = written(podman.folder / "autograder.zip", "gradescope")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(podman.folder / "unpacked")
    # Compiling what pip installs takes longer than what is imported takes here.
    image = podman.build(podman.folder / "unpacked", "autograder", "--env=PIP_NO_COMPILE=1")
    folders = podman.folder / "mounted"
    volumes = []
    for place in ("autograder/submission", "autograder/results", "runner", "repository"):
        (folders / place).mkdir(parents=True)
        volumes.append(f"--volume={folders / place}:/{place}")
    podman("run", "--detach", "--name=started", "--network=none", *containers.ULIMITS, *volumes, image, "sleep", "3600")
    return Started(podman, "started", folders)


def one_submission(folder: Path) -> None:
    """A notebook with a right, a wrong and a missing answer: two points of four."""
    answers = answers_of(LESSON)
    right, wrong = answers.right["01-chain-grads"][0], next(iter(answers.wrong["01-branch-grads"].values()))
    hand_in(folder, LESSON, [SETUP, right, wrong])


def test_gradescopes_scripts_lead_from_the_zip_to_results(autograder: Started) -> None:
    one_submission(autograder.folders / "autograder/submission")
    told = autograder("/autograder/run_autograder")
    assert results(autograder.folders / "autograder")["score"] == 2.0, told
    assert "isolation B" in told  # as root in such a container there are no namespaces to be had


def test_githubs_steps_mark_a_pull_request(autograder: Started, tmp_path: Path) -> None:
    """The last two of the workflow's commands; those before them install what the image has."""
    one_submission(autograder.folders / "repository/ann")
    steps = yaml.safe_load(written(tmp_path / "mark.yml", "github").read_text())["jobs"]["mark"]["steps"]
    mark, show = (step["run"] for step in steps if step.get("name") in ("Mark", "Show the table"))
    runner = autograder.folders / "runner"
    hookwork = runner / "hookwork/bin/hookwork"
    hookwork.parent.mkdir(parents=True)
    hookwork.write_text(
        '#!/bin/sh\nPYTHONPATH=/autograder/source/course exec /autograder/venv/bin/python -m graders.cli "$@"\n'
    )
    hookwork.chmod(0o755)
    variables = "export RUNNER_TEMP=/runner NOTEBOOKS=. GITHUB_STEP_SUMMARY=/runner/summary.md\ncd /repository\n"
    (runner / "steps.sh").write_text(variables + mark + show)
    autograder("bash", "-e", "/runner/steps.sh")
    (submission,) = json.loads((runner / "results/results.json").read_text())["submissions"]
    assert (submission["student"], submission["score"]) == ("ann", 2.0)
    assert "2 of 4" in (runner / "summary.md").read_text()
    assert (runner / "results/gradebook.csv").is_file()
