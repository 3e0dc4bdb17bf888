"""A class that is marked again, in part, at once, or after an interruption."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import notebooks
from tests.instructor.grading.classes import OTHER_LESSON, ClassRunner, each, grade, hand_in, results, submissions
from tests.instructor.test_cluster import Here
from tests.notebooks import KEYS, LESSON
from tests.trouble import ctrl_c_interrupts


def test_an_appeal_with_fewer_options_gives_no_points_back_by_accident() -> None:
    hand_in("ann", 4), hand_in("bob")
    grade("--deadline", "2026-01-02", "--late", "10%/day")
    before = results()
    for forgotten in ((), ("--late", "10%/day"), ("--deadline", "2026-01-02")):
        text = grade("--student", "ann", *forgotten, code=2)
        assert f"ann lost 0.8 points in {LESSON} for being late." in text
        assert results() == before
    grade("--student", "bob")
    grade("--student", "ann", "--deadline", "2026-01-02", "--late", "10%/day")
    assert results()["ann"]["penalty"] == 0.8
    page = Path(f"out/feedback/ann/{LESSON}.html").read_text()
    assert "Late work loses 10 % of its points for each day that has begun. So 0.8 of the 4 points" in page
    grade("--student", "ann", "--late", "none")
    assert results()["ann"]["score"] == 4


def test_the_results_of_other_lessons_stay() -> None:
    hand_in("ann"), hand_in("bob")
    grade()
    first = submissions()
    for name in ("ann", "bob"):
        Path("class", name, f"{LESSON}.ipynb").unlink()
        hand_in(name, name=f"{OTHER_LESSON}.ipynb")
    text = grade("--export", "canvas,moodle")
    assert "2 notebooks, " in text
    found = submissions()
    assert [submission for submission in found if submission["lesson"] == LESSON] == first
    assert [(submission["student"], submission["lesson"]) for submission in found] == [
        (name, lesson) for name in ("ann", "bob") for lesson in (LESSON, OTHER_LESSON)
    ]
    header = next(csv.reader(Path("out/canvas.csv").read_text().splitlines()))
    assert header[-2:] == ["1. Where gradients live", "2. Watching gradients"]
    assert {file.stem for file in Path("out/moodle").iterdir()} == {LESSON, OTHER_LESSON}


def test_one_student_is_marked_again_and_the_rest_stays(runner: ClassRunner) -> None:
    hand_in("ann"), hand_in("bob")
    grade("--seed", "7")
    before = results()["bob"]
    assert (runner.students, runner.controls) == (["ann", "bob"], 2)
    hand_in("ann", wrong=KEYS[:1]), hand_in("bob", wrong=KEYS[:1])
    grade("--student", "ann")
    assert (runner.students, runner.controls) == (["ann", "bob", "ann"], 4)
    assert results()["ann"]["exercises"][0]["status"] == "wrong"
    assert results()["bob"] == before
    assert json.loads(Path("out/results.json").read_text())["seed"] == 7
    assert Path(f"out/feedback/bob/{LESSON}.html").exists()


def test_one_exercise_is_marked_again_unless_the_notebook_is_another_one() -> None:
    hand_in("ann"), hand_in("bob")
    grade()
    stored = json.loads(Path("out/results.json").read_text())
    for submission in stored["submissions"]:  # as if graders of another version had written it
        for exercise in submission["exercises"]:
            exercise["status"] = "wrong"
    Path("out/results.json").write_text(json.dumps(stored))
    hand_in("bob", wrong=KEYS[:2])
    grade("--exercise", KEYS[0])
    wrong = {
        name: {exercise["key"] for exercise in found["exercises"] if exercise["status"] != "passed"}
        for name, found in results().items()
    }
    assert wrong == {"ann": set(KEYS[1:]), "bob": set(KEYS[:2])}


def test_an_interrupted_run_keeps_what_is_marked(runner: ClassRunner) -> None:
    hand_in("ann"), hand_in("bob"), hand_in("cy")
    runner.interrupted_at = "bob"
    with ctrl_c_interrupts():
        assert "Interrupted" in grade(code=3)
    assert each("status") == {
        "ann": "graded", "bob": "graded", "cy": "not-graded"}  # fmt: skip
    grade("--student", "cy")
    assert {submission["status"] for submission in results().values()} == {"graded"}


AT_ONCE = """
import sys, time
from graders.cli import app
from graders.instructor.machines import Machines
from tests.doubles import InProcessRunner, no_prestarted_boxes
runner = InProcessRunner("A", before=lambda cells: time.sleep(0.5))
app(["grade", *sys.argv[1:]], obj=Machines(here=lambda now: no_prestarted_boxes(runner)))
"""


def at_once(*commands: Sequence[str]) -> list[str]:
    """Start these at the same moment; what they print."""
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, *command, "--out", "out", "--jobs", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=here,
        )
        for command in commands
    ]  # fmt: skip
    printed = [process.communicate(timeout=200)[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(running), printed
    return printed


def test_commands_at_once_lose_nothing() -> None:
    """Two appeals, and a lesson that is marked for the first time."""
    hand_in("ann", wrong=KEYS), hand_in("bob", wrong=KEYS)
    grade()
    hand_in("ann"), hand_in("bob")
    Path("other/ann").mkdir(parents=True)
    Path(f"other/ann/{OTHER_LESSON}.ipynb").write_text(notebooks.text("1"))
    printed = at_once(("class", "--student", "ann"), ("class", "--student", "bob"), ("other",))
    found = submissions()
    assert [(submission["student"], submission["lesson"], submission["score"]) for submission in found] == [
        ("ann", LESSON, 4), ("ann", OTHER_LESSON, 0), ("bob", LESSON, 4)]  # fmt: skip
    assert sum("Another command is working in out (process " in text for text in printed) >= 1
    assert not list(Path("out").glob(".*"))


def test_on_a_cluster_only_what_needs_a_run_is_sent(runner: ClassRunner) -> None:
    @contextmanager
    def dask(address: str) -> Iterator[Here]:
        assert address == "tcp://there:8786"
        yield Here()

    hand_in("ann"), hand_in("bob")
    Path("roster.csv").write_text("Name\nann\nbob\nzoe\n")
    text = grade("--cluster", "tcp://there:8786", "--roster", "roster.csv", code=3, cluster=dask)
    assert "2 notebooks on tcp://there:8786" in text  # nothing of zoe is marked
    assert each("status") == {
        "ann": "graded", "bob": "not-graded", "zoe": "missing"}  # fmt: skip
    assert runner.noted == []


def test_when_marking_again_fails_the_earlier_marks_stay(runner: ClassRunner) -> None:
    hand_in("ann"), hand_in("bob", wrong=KEYS[:1]), hand_in("cy")
    grade()
    before = results()
    runner.broken = True
    hand_in("cy", wrong=KEYS)
    text = grade("--fresh", code=3)
    assert "Not marked again, so the earlier mark stays: ann, 01; bob, 01. The graders failed with OSError: no" in text
    assert results() == before | {"cy": results()["cy"]}
    assert results()["cy"]["status"] == "not-graded"  # the earlier mark was that of another notebook
    runner.broken, runner.interrupted_at = False, "ann"
    with ctrl_c_interrupts():
        assert "Ctrl+C once more ends them at once." in grade("--fresh", code=3)
    assert [(found["status"], found["score"]) for found in results().values()] == [
        ("graded", 4), ("graded", 3), ("not-graded", 0)]  # fmt: skip


def test_what_is_handed_in_after_the_feedback_went_out_is_asked_anew(runner: ClassRunner) -> None:
    hand_in("ann"), hand_in("bob")
    grade()
    first = results()
    assert first["ann"]["seed"] == first["bob"]["seed"]
    page = Path(f"out/feedback/ann/{LESSON}.html").read_text()
    assert f"seed {first['ann']['seed']}" in page
    hand_in("ann", wrong=KEYS[:1]), hand_in("eve")
    runner.seed += 1
    grade()
    second = results()
    assert second["bob"]["seed"] == first["bob"]["seed"]
    assert second["ann"]["seed"] == second["eve"]["seed"] != first["ann"]["seed"]
    assert runner.students == ["ann", "bob", "ann", "eve"]
    grade("--student", "ann", "--fresh")  # an appeal
    assert results() == second | {"ann": {**second["ann"], "seconds": results()["ann"]["seconds"]}}


def test_an_interrupted_batch_goes_on_with_its_seed(runner: ClassRunner) -> None:
    hand_in("ann")
    grade()
    seed = results()["ann"]["seed"]
    Path("out/results.json").unlink()  # the marking was killed before there were any
    grade()
    assert (results()["ann"]["seed"], runner.students) == (seed, ["ann"])
