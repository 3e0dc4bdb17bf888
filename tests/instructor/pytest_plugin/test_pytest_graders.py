"""`pytest graders` as an instructor runs it: in a process of its own, or in this one where no notebook has to run."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import nbformat
import pytest

from graders.core import course
from graders.instructor.lock import results_lock
from graders.report import results_json
from tests import make_class
from tests.batches import batch, graded
from tests.conftest import GradersHere
from tests.notebooks import LESSON, LESSON_1

ROOT = Path(__file__).parents[3]
SETUP = "import torch\nfrom graders import check, hint, solution, progress"
RIGHT = [SETUP, *(answers[0] for answers in LESSON_1.right.values())]
OTHER_STYLE = [SETUP, *(answers[1] for answers in LESSON_1.right.values())]
WRONG = [SETUP, *(next(iter(answers.values())) for answers in LESSON_1.wrong.values())]
MISTAKES = [next(iter(answers)) for answers in LESSON_1.wrong.values()]
TRAPS = ("conftest.py", "torch.py", "sitecustomize.py", "test_trap.py")
FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
CHECKS = [len(exercise.checks) for exercise in course.lesson_exercises(LESSON)]


def hand_in(folder: Path, cells: list[str]) -> Path:
    return make_class.hand_in(folder, LESSON, cells)


def command_of(*arguments: str | Path) -> tuple[list[str], dict[str, str]]:
    """The command, and its environment: no variable of the pytest that runs these tests."""
    command = [sys.executable, "-m", "pytest", "graders", "-p", "no:cacheprovider", *map(str, arguments)]
    return command, {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


def graders(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    command, plain = command_of(*arguments)
    return subprocess.run(command, cwd=ROOT, env=plain | more, capture_output=True, text=True, timeout=400, check=False)


Marked = tuple[subprocess.CompletedProcess[str], Path]


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Marked:
    """A class of five, marked once. One of them handed in more than a notebook. What was imported comes last."""
    folder = tmp_path_factory.mktemp("marked")
    trap = f"open({str(folder / 'canary')!r}, 'w').write('imported')\n"
    for place in ("class", "class/ada", "class/ada/test_traps"):
        (folder / place).mkdir()
        for name in TRAPS:
            (folder / place / name).write_text(trap)
    hand_in(folder / "class/ada", [*RIGHT, FIGURE])
    hand_in(folder / "class/ben", OTHER_STYLE)
    hand_in(folder / "class/cleo", WRONG)
    hand_in(folder / "class/=cmd|x", [SETUP, "def branch_grads(w, x):\n    while True:\n        pass", *RIGHT[2:]])
    (folder / "class/eve").mkdir()
    (folder / "class/eve" / f"{LESSON}.ipynb").write_text("not a notebook")
    arguments = ("--submissions", folder / "class", "--out", folder / "out", "--seed", "7", "--probe-timeout", "6")
    (folder / "listing.py").write_text("import sys\n\ndef pytest_unconfigure():\n    print(*sys.modules)\n")
    written = ("--keep-outputs", "--junitxml", folder / "junit.xml")
    return graders(*arguments, *written, "-p", "listing", PYTHONPATH=str(folder)), folder


def test_results_json_is_valid_and_complete(marked: Marked) -> None:
    data = json.loads((marked[1] / "out/results.json").read_text())
    jsonschema.validate(data, json.loads(results_json.SCHEMA_FILE.read_text()))
    assert data["seed"] == 7
    found = {
        submission["student"]: (
            submission["status"],
            submission["score"],
            [e["status"] for e in submission["exercises"]],
        )
        for submission in data["submissions"]
    }
    assert found == {
        "ada": ("graded", 4, ["passed", "passed", "passed"]),
        "ben": ("graded", 4, ["passed", "passed", "passed"]),
        "cleo": ("graded", 0, ["wrong", "wrong", "raised"]),
        "=cmd|x": ("graded", 3, ["timed-out", "passed", "passed"]),
        "eve": ("unreadable", 0, []),
    }
    (cleo,) = (submission for submission in data["submissions"] if submission["student"] == "cleo")
    assert [exercise["mistake"] for exercise in cleo["exercises"]] == MISTAKES


def test_the_gradebook_has_a_row_for_each_student(marked: Marked) -> None:
    rows = list(csv.DictReader((marked[1] / "out/gradebook.csv").open()))
    assert [(row["student"], row["01-branch-grads"], row["total"], row["max"]) for row in rows] == [
        ("'=cmd|x", "0", "3", "4"),
        ("ada", "1", "4", "4"),
        ("ben", "1", "4", "4"),
        ("cleo", "0", "0", "4"),
        ("eve", "0", "0", "4"),
    ]
    assert rows[-1]["note"] == f"{LESSON}: unreadable"


def test_junit_cases_carry_exercise_student_and_points(marked: Marked) -> None:
    found = []
    for case in ElementTree.parse(marked[1] / "junit.xml").iter("testcase"):
        properties = {element.get("name"): element.get("value") for element in case.iter("property")}
        if properties["student"] == "ada" and properties["exercise"] == "01-branch-grads":
            found.append((properties["points"], properties["max_points"]))
    share = f"{1 / CHECKS[0]:.4g}"
    assert found == [(share, share)] * CHECKS[0]


def test_the_summary_explains_each_exercise_once_and_shows_no_frames(marked: Marked) -> None:
    run, _ = marked
    assert run.returncode == 1
    assert "Traceback" not in run.stdout + run.stderr
    assert f"cleo, 01: 01-branch-grads {MISTAKES[0]}." in run.stdout
    assert run.stdout.count(f"{MISTAKES[0]}.") == 1
    assert "eve, 01: unreadable." in run.stdout
    assert "--seed 7" in run.stdout


def test_only_what_is_needed_is_imported(marked: Marked) -> None:
    imported = marked[0].stdout.rstrip().rpartition("\n")[2].split()
    lessons = {name.partition(".")[0] for name in imported if name.startswith("lesson_")}
    lessons |= {name.split(".")[2] for name in imported if name.startswith("graders.exercises.lesson_")}
    assert lessons == {f"lesson_{LESSON}"}
    assert "hypothesis" not in imported


def test_transcripts_are_kept(marked: Marked) -> None:
    assert len(list((marked[1] / "out/runs").glob("*.frames"))) == 4


@pytest.mark.slow  # a class is marked once more
def test_a_seed_repeats_a_run_with_xdist_exactly(marked: Marked, tmp_path: Path) -> None:
    _, folder = marked
    arguments = ("--submissions", folder / "class", "--out", tmp_path, "--seed", "7", "--probe-timeout", "6")
    run = graders(*arguments, "-n", "2")
    assert run.returncode == 1, run.stdout

    def verdicts(file: Path) -> object:
        # How long a call may take depends on the pace of the machine, and its message says it.
        text = re.sub(r"no result after [\d.]+ seconds", "no result in time", file.read_text())
        data = json.loads(text)["submissions"]
        return [{name: value for name, value in submission.items() if name != "seconds"} for submission in data]

    assert verdicts(tmp_path / "results.json") == verdicts(folder / "out/results.json")


def test_executed_notebooks_are_written_when_they_are_asked_for(marked: Marked) -> None:
    run, folder = marked
    assert "out/executed" in "".join(run.stdout.split())
    executed = {file.relative_to(folder / "out/executed") for file in (folder / "out/executed").rglob("*.ipynb")}
    assert len(executed) == 4
    assert Path(f"ada/{LESSON}.ipynb") in executed
    (shown,) = nbformat.read(folder / f"out/executed/ada/{LESSON}.ipynb", as_version=4).cells[-1].outputs
    assert "image/png" in shown.data


def test_k_selects_and_x_stops_and_nothing_has_to_run_again(
    marked: Marked, tmp_path: Path, graders_here: GradersHere
) -> None:
    shutil.copytree(marked[1] / "out", tmp_path / "out")
    (executed := tmp_path / f"out/executed/ada/{LESSON}.ipynb").unlink()
    again = ("--submissions", marked[1] / "class", "--out", tmp_path / "out", "--probe-timeout", "6")
    code, printed, _ = graders_here(*again, "--keep-outputs", "-x", "-k", "(ada or cleo) and branch")
    assert code == 1
    assert f"1 failed, {CHECKS[0]} passed, {5 * sum(CHECKS) - 2 * CHECKS[0]} deselected" in printed
    assert "nothing has to run" in printed
    assert executed.exists()


def test_marks_by_hand_stay_and_a_row_for_nobody_is_said(
    marked: Marked, tmp_path: Path, graders_here: GradersHere
) -> None:
    shutil.copytree(marked[1] / "out", tmp_path / "out")
    file = tmp_path / "out/hand-marks.csv"
    file.write_text("student,lesson,points,comment\ncleo,1,1.5,Oral exam.\nclea,1,2,\n")
    again = ("--submissions", marked[1] / "class", "--out", tmp_path / "out", "--probe-timeout", "6")
    code, printed, _ = graders_here(*again)
    assert code == 3
    assert "hand-marks.csv, clea, 1: there is no such student. Did you mean cleo?" in printed
    rows = {row["student"]: row for row in csv.DictReader((tmp_path / "out/gradebook.csv").open())}
    assert (rows["cleo"]["total"], rows["ada"]["total"]) == ("1.5", "4")
    before = (tmp_path / "out/results.json").read_bytes()
    file.write_text("nothing\n")
    code, printed, _ = graders_here(*again)
    assert code == 3
    assert "it needs a header with the columns student, lesson or exercise, points, change, comment" in printed
    assert (tmp_path / "out/results.json").read_bytes() == before


def test_conftests_of_students_are_never_imported(marked: Marked) -> None:
    assert len(list((marked[1] / "class").rglob("*.py"))) == 3 * len(TRAPS)
    assert not (marked[1] / "canary").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--submissions", "/nowhere/at/all"), "does not exist"),
        (("--seed", "-3"), "not a whole number"),
        (("--memory-limit", "lots"), "not a size"),
        (("--jobs", "0"), "at least 1"),
        (("--lessons", "01,99"), "There is no lesson '99'. Lessons: 00_three"),
        (("--cell-timeout", "soon"), "not a number of seconds"),
        (("--keep-outputs", "--seed=7"), "name a folder"),
    ],
)
def test_unusable_options_end_in_a_sentence(arguments: tuple[str, str], part: str, graders_here: GradersHere) -> None:
    code, _, errors = graders_here(*arguments)
    assert code == 4
    assert part in errors
    assert "Traceback" not in errors


def collected(printed: str) -> set[tuple[str, ...]]:
    listed = (line.split("::") for line in printed.splitlines() if "::" in line)
    return {(file.split("/")[2], key, student) for file, key, student, _ in listed}


@pytest.mark.parametrize("handed_in", [True, False])
def test_a_single_notebook_or_else_the_folder_of_lessons_is_marked(
    handed_in: bool, tmp_path: Path, graders_here: GradersHere
) -> None:
    given = ("--submissions", hand_in(tmp_path / "ada", RIGHT)) if handed_in else ()
    code, printed, _ = graders_here("-q", "--collect-only", "-k", "branch", *given)
    assert (code, collected(printed)) == (
        0,
        {(f"lesson_{LESSON}", "01-branch-grads", "ada" if handed_in else "lessons")},
    )


def test_a_lesson_that_is_named_and_was_not_handed_in_has_no_tests(tmp_path: Path, graders_here: GradersHere) -> None:
    named = (
        "graders/exercises/lesson_02_watching_gradients/test_norm_log.py",
        "graders/exercises/lesson_03_changing_gradients",
    )
    given = ("--submissions", hand_in(tmp_path / "ada", RIGHT))
    code, printed, errors = graders_here("-q", "--collect-only", *given, tests=named)
    assert (code, "no tests collected" in printed) == (5, True), printed + errors


def test_the_archive_of_a_class_is_marked_with_what_is_missing_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    good = hand_in(tmp_path, RIGHT).read_bytes()
    archive = tmp_path / "class.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(f"lovelaceada_12345_67890_{LESSON}-1.ipynb", good)
        packed.writestr(bad := f"Mal Lory_17_assignsubmission_file_/../../../{LESSON}.ipynb", good)
    run = graders("--submissions", archive, "--out", tmp_path / "out", "-q", "--lessons", "1,02", "-n", "1")
    assert run.returncode == 1, run.stdout
    data = json.loads((tmp_path / "out/results.json").read_text())
    assert [
        (submission["student"], submission["lesson"][:2], submission["file"], submission["status"], submission["score"])
        for submission in data["submissions"]
    ] == [
        ("Mal Lory", "01", f"{archive}/{bad}", "unreadable", 0),
        ("Mal Lory", "02", "", "missing", 0),
        ("lovelaceada", "01", f"{archive}/lovelaceada_12345_67890_{LESSON}-1.ipynb", "graded", 4),
        ("lovelaceada", "02", "", "missing", 0),
    ]
    assert "Mal Lory, 01: unreadable. The file was not unpacked" in run.stdout
    assert not list((tmp_path / "tmp").glob("hookwork-*"))


def test_what_another_command_works_in_is_waited_for(marked: Marked, tmp_path: Path) -> None:
    shutil.copytree(marked[1] / "out/runs", tmp_path / "out/runs")
    shutil.copy(marked[1] / "out/results.json", tmp_path / "out")
    again = ("--submissions", marked[1] / "class", "--out", tmp_path / "out", "--probe-timeout", "6")
    command, plain = command_of("-q", *again, "--keep-outputs")
    plain.pop("PYTHONUNBUFFERED", None)  # it has to be said before the wait, also where Python buffers
    lock = contextlib.ExitStack()
    lock.enter_context(results_lock(tmp_path / "out", print))
    with subprocess.Popen(
        command, cwd=ROOT, env=plain, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        assert run.stdout is not None
        watchdog = threading.Timer(120, run.kill)  # otherwise this would wait for ever for what is never said
        watchdog.daemon = True
        watchdog.start()
        said = next(line for line in run.stdout if "Another command is working in" in line)
        assert f"(process {os.getpid()} on " in said
        assert not (tmp_path / "out/gradebook.csv").exists()
        (tmp_path / "out/results.json").write_text(results_json.render(batch(graded("eve", lesson="02_other"))))
        lock.close()
        assert "written: " in run.stdout.read()
    found = json.loads((tmp_path / "out/results.json").read_text())["submissions"]
    assert {(submission["student"], submission["lesson"]) for submission in found} == {
        *((student, LESSON) for student in ("=cmd|x", "ada", "ben", "cleo", "eve")),
        ("eve", "02_other"),
    }


def test_a_part_of_the_class_joins_the_rest(marked: Marked, tmp_path: Path, graders_here: GradersHere) -> None:
    shutil.copytree(marked[1] / "out", tmp_path / "out")
    before = json.loads((tmp_path / "out/results.json").read_text())["submissions"]
    again = ("--submissions", marked[1] / "class/ben", "--out", tmp_path / "out", "--probe-timeout", "6")
    code, printed, errors = graders_here("-q", *again)
    assert code == 0, printed + errors
    assert f"{LESSON}: kept from before, as DIR has nothing of theirs: =cmd|x; ada; cleo; eve." in printed
    after = json.loads((tmp_path / "out/results.json").read_text())["submissions"]
    assert [(one["student"], one["score"]) for one in after] == [(one["student"], one["score"]) for one in before]
    assert (tmp_path / f"out/feedback/ada/{LESSON}.html").exists()
