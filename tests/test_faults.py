"""Faults of our own side: what `pytest graders` does when the ground under it gives way."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from graders.marking.batch import Marking
from graders.marking.cache import transcript_from_bytes
from graders.marking.questions import Questions
from graders.marking.setup import controlled_runner
from graders.report import results_json
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import missing_for_tier
from graders.submissions.finding import Submission
from tests import make_class
from tests.conftest import GradersHere
from tests.instructor.pytest_plugin.test_pytest_graders import LESSON, RIGHT, ROOT, command_of, graders

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="faults as Linux knows them")


def read(out: Path) -> dict[str, str]:
    data = json.loads((out / "results.json").read_text())
    jsonschema.validate(data, json.loads(results_json.SCHEMA_FILE.read_text()))
    return {submission["student"]: submission["status"] for submission in data["submissions"]}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the users of boxes can enter."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def hand_in(folder: Path, *students: str) -> Path:
    for student in students:
        make_class.hand_in(folder / student, LESSON, RIGHT)
    return folder


@pytest.mark.skipif(bool(missing_for_tier("A")), reason="tier A cannot be tried here without the warm process")
def test_when_bubblewrap_goes_away_nobody_gets_a_zero(
    place: Path, box_modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "bin").mkdir()
    (place / "bin/bwrap").symlink_to(str(shutil.which("bwrap")))
    monkeypatch.setenv("PATH", str(place / "bin"))
    class_ = hand_in(place / "class", "ada", "ben")
    batch = Marking(Questions(1), controlled_runner(BoxRunner(box_modules, "A"), RunOptions(), 1))
    ada, ben = (Submission(name, LESSON, class_ / name / f"{LESSON}.ipynb") for name in ("ada", "ben"))
    assert batch.result(ada).score == 4.0
    (place / "bin/bwrap").unlink()
    lost = batch.result(ben)
    assert (lost.status.value, lost.graded) == ("not-graded", False)
    assert "bubblewrap (the command bwrap) is gone" in lost.message
    batch.confirm_runs()  # nor is it known whether all was well while ada's was marked
    batch.close()
    assert [submission.status.value for submission in batch.batch().submissions] == ["not-graded", "not-graded"]


def processes_with(text: str) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if text in line and "ps -eo" not in line]


def test_a_judge_that_is_killed_leaves_nothing_half_written_and_the_next_one_sweeps(place: Path) -> None:
    temporary = place / "tmp"
    temporary.mkdir()
    temporary.chmod(0o755)
    students = [f"student{number}" for number in range(4)]
    class_ = hand_in(place / "class", *students)
    # The third notebook sleeps, so that the judge cannot be done before the signal comes.
    make_class.hand_in(class_ / students[2], LESSON, [make_class.SETUP, "import time\ntime.sleep(50)"])
    arguments = ("-q", "--submissions", class_, "--out", place / "out", "--jobs", "1")
    command, plain = command_of(*arguments)
    moved, nowhere = plain | {"TMPDIR": str(temporary)}, subprocess.DEVNULL
    judge = subprocess.Popen(command, cwd=ROOT, env=moved, stdout=nowhere, stderr=nowhere)
    deadline = time.monotonic() + 300
    while not list((place / "out").glob("runs/*.frames")) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.2)  # the next notebook is running
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    while processes_with(str(temporary)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_with(str(temporary)) == []
    assert {file.suffix for file in (place / "out").rglob("*") if file.is_file()} == {".frames", ""}
    assert {file.name for file in (place / "out").rglob("*") if not file.suffix} == {"runs", "seed"}
    for file in place.glob("out/runs/*.frames"):
        assert transcript_from_bytes(file.read_bytes())[-1].type == "ended"
    left = list(temporary.glob("hookwork-*"))
    assert left
    for folder in left:
        os.utime(folder, (0, 0))
    hand_in(class_, students[2])
    run = graders(*arguments, TMPDIR=str(temporary))
    assert run.returncode == 0, run.stdout
    assert read(place / "out") == dict.fromkeys(students, "graded")
    assert list(temporary.iterdir()) == []


FULL_DISK = """\
mount -t tmpfs -o size=64k none {out}
echo old > {out}/results.json
cat /dev/zero > {out}/filler 2> /dev/null
{command}
code=$?
cat {out}/results.json
ls -A {out}
exit $code
"""


def can_mount(folder: Path) -> bool:
    """Whether this process may put a small disk of its own over a folder."""
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:  # no such program
        return False


@pytest.mark.skipif(not can_mount(Path(__file__).parent), reason="nothing can be mounted here, which takes root")
def test_a_full_disk_ends_in_a_sentence_and_the_old_results_stay(place: Path) -> None:
    out = place / "out"
    out.mkdir()
    command, plain = command_of("-q", "--submissions", hand_in(place / "ada", "."), "--out", out)
    script = ["unshare", "--mount", "sh", "-c", FULL_DISK.format(out=out, command=shlex.join(command))]
    run = subprocess.run(script, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 3, run.stdout
    text = " ".join(run.stdout.split())
    assert f"Runs could not be kept in {out / 'runs'}: no space left on device." in text
    assert "The results could not be written" in text
    assert "Choose another --out." in text
    assert "Traceback" not in run.stdout + run.stderr
    assert run.stdout.splitlines()[-5:] == ["old", "filler", "results.json", "results.set-aside-1.json", "runs"]


def test_a_class_is_refused_where_nothing_isolates_it(place: Path, graders_here: GradersHere) -> None:
    class_ = hand_in(place / "class", "ada", "ben")
    code, printed, _ = graders_here("--submissions", class_, "--isolation", "D", "--collect-only")
    assert code == 0, printed  # nothing will run
    code, _, errors = graders_here("--submissions", class_, "--isolation", "D")
    assert code == 4
    assert "--allow-unisolated" in errors
    assert "Traceback" not in errors
