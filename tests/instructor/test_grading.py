"""`hookwork grade` as it is typed, with results that were made by hand in place of a run."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from graders.cli import app
from graders.core import course
from graders.core.results import Batch, CheckResult, ExerciseResult, Status, SubmissionResult, SubmissionStatus
from graders.instructor import cluster, command, grading
from graders.report.exports import EXPORTS
from graders.run import warm
from graders.run.submissions import Submission
from tests import notebooks
from tests.instructor.test_cluster import Here
from tests.notebooks import KEYS, LESSON


class Fake:
    """Stands in for `Marking`: everybody passes everything, except as `verdicts` says."""

    verdicts: ClassVar[dict[tuple[str, str], Status]] = {}
    marked: ClassVar[list[str]] = []
    interrupt_after = 99
    controlled = False

    def __init__(self, seed: int, *arguments: Any, controlled: bool = False, **rest: Any) -> None:
        self.seed, self.results, self.tier = seed, [], "A"
        Fake.controlled = controlled

    def start(self, submissions: Iterable[Submission], done: Callable[[SubmissionResult], None]) -> None:
        for one in submissions:
            if len(self.results) >= self.interrupt_after:
                raise KeyboardInterrupt
            self.marked.append(one.student)
            self.results.append(self.result(one))
            done(self.results[-1])

    def result(self, one: Submission) -> SubmissionResult:
        if one.file is None:
            status = SubmissionStatus.UNREADABLE if one.problem else SubmissionStatus.MISSING
            return SubmissionResult(one.student, one.lesson, "", "", status, "A", 0, 4, 0, (), one.problem or "None.")
        exercises = tuple(self.exercise(one.student, key.key, key.points) for key in course.exercises(one.lesson))
        total = sum(exercise.score for exercise in exercises)
        sha = f"{hash(one.file.read_text()) % 16**64:064x}"
        graded = SubmissionStatus.GRADED
        return SubmissionResult(one.student, one.lesson, str(one.file), sha, graded, "A", total, 4, 1.0, exercises)

    def exercise(self, student: str, key: str, points: float) -> ExerciseResult:
        status = self.verdicts.get((student, key), Status.PASSED)
        score = points if status is Status.PASSED else 0.0
        return ExerciseResult(key, status, score, points, None, "", (
            CheckResult("it holds", status is Status.PASSED, score, points),))  # fmt: skip

    def batch(self) -> Batch:
        return Batch(self.seed, "2.13.0", "2026-01-02T03:04:05+00:00", tuple(self.results))

    def has_to_run(self, submissions: Iterable[Submission]) -> bool:
        return False

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No notebook is run."""

    @contextmanager
    def no_process(*, now: bool) -> Iterator[warm.WarmProcess]:
        yield warm.WarmProcess(tmp_path)

    monkeypatch.setattr(grading, "Marking", Fake)
    monkeypatch.setattr(warm, "head_start", no_process)
    monkeypatch.setattr(grading, "choose_tier", lambda *arguments, **options: "A")
    monkeypatch.setattr(Fake, "verdicts", {})
    monkeypatch.setattr(Fake, "marked", [])
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


def hand_in(student: str, day: int = 1, name: str = f"{LESSON}.ipynb", cell: str = "1") -> Path:
    """A notebook of a student in the folder `class`, handed in at noon of a day in January 2026."""
    file = Path("class", student, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(notebooks.text(cell))
    noon = datetime(2026, 1, day, 12).timestamp()
    os.utime(file, (noon, noon))
    return file


def grade(*arguments: str, code: int = 0) -> str:
    """Type `hookwork grade class --out out`; what it prints."""
    done = CliRunner().invoke(app, ["grade", "class", "--out", "out", *arguments])
    assert done.exit_code == code, done.output + repr(done.exception)
    return done.output


def results() -> dict[str, dict[str, Any]]:
    """results.json by student."""
    return {one["student"]: one for one in json.loads(Path("out/results.json").read_text())["submissions"]}


def test_a_class_gets_a_table_and_every_file() -> None:
    hand_in("ann"), hand_in("bob")
    Fake.verdicts["bob", KEYS[0]] = Status.WRONG
    text = grade("--export", "canvas,junit", "--export", "gradescope", "--export", "moodle")
    assert "ann" in text
    assert "✗✓✓" in text
    assert "What went wrong" not in text
    assert "written: out/results.json, out/gradebook.csv, out/class.html, out/feedback, out/canvas.csv" in (
        text.replace("\n", " ")
    )
    files = {str(file.relative_to("out")) for file in Path("out").rglob("*") if file.is_file()}
    assert files == {
        "results.json", "gradebook.csv", "class.html", "runs/seed", "canvas.csv", "junit.xml", f"moodle/{LESSON}.csv",
        *(f"feedback/{name}/{LESSON}.html" for name in ("ann", "bob")),
        *(f"gradescope/{name}/results.json" for name in ("ann", "bob")),
    }  # fmt: skip
    assert Fake.controlled


def test_the_exit_code_is_3_when_something_was_not_graded_and_0_whatever_the_marks() -> None:
    hand_in("ann")
    Fake.verdicts["ann", KEYS[0]] = Status.TIMED_OUT
    grade()
    Fake.verdicts["ann", KEYS[0]] = Status.NOT_GRADED
    assert "What somebody should look at" in grade(code=3)


def test_who_is_missing_is_listed_and_who_is_not_in_the_roster_is_told() -> None:
    hand_in("lovelaceada_101_20001_x", name="notes.txt")
    hand_in("Ada Lovelace"), hand_in("stranger")
    Path("roster.csv").write_text('Student,ID\n"Lovelace, Ada",101\n"Turing, Alan",102\n')
    text = grade("--roster", "roster.csv", "--export", "canvas")
    assert "Not in the roster, or not clearly: " in text
    assert "stranger" in text.partition("Not in the roster")[2]
    assert results()["Turing, Alan"]["status"] == "missing"


def test_names_come_from_the_roster_and_canvas_gets_its_numbers() -> None:
    hand_in("Ada Lovelace"), hand_in("alan turing")
    Path("roster.csv").write_text('Student,ID\n"Lovelace, Ada",101\n"Turing, Alan",102\n')
    assert "Not in the roster" not in grade("--roster", "roster.csv", "--export", "canvas")
    rows = list(csv.reader(Path("out/canvas.csv").read_text().splitlines()))
    assert [row[:2] for row in rows[2:]] == [["Lovelace, Ada", "101"], ["Turing, Alan", "102"]]


def test_two_folders_of_one_person_both_keep_their_names() -> None:
    hand_in("Ada Lovelace"), hand_in("lovelaceada")
    Path("roster.csv").write_text('Student,ID\n"Lovelace, Ada",101\n')
    assert "Ada Lovelace, lovelaceada" in grade("--roster", "roster.csv")
    assert set(results()) == {"Ada Lovelace", "lovelaceada"}


def test_the_last_file_before_the_deadline_counts_and_all_are_kept() -> None:
    first, second, third = (hand_in("ann", day, f"{LESSON}-{day}.ipynb", cell=str(day)) for day in (1, 2, 4))
    hand_in("bob", 3)
    grade("--deadline", "2026-01-02", "--late", "10%/day")
    ann, bob = results()["ann"], results()["bob"]
    assert ann["file"].endswith("-2.ipynb")
    assert ann["superseded"] == [str(Path.cwd() / third), str(Path.cwd() / first)] or ann["superseded"] == [
        str(third), str(first)]  # fmt: skip
    assert (ann["score"], ann["penalty"]) == (4, 0)
    assert (bob["score"], bob["penalty"]) == (3.6, 0.4)
    assert second.exists()


def test_when_all_are_late_the_last_one_counts() -> None:
    hand_in("ann", 5, f"{LESSON}-1.ipynb"), hand_in("ann", 4, f"{LESSON}-2.ipynb")
    grade("--deadline", "2026-01-02", "--late", "10%/day at most 20%")
    assert results()["ann"]["file"].endswith("-1.ipynb")
    assert results()["ann"]["penalty"] == 0.8


def test_somebody_may_have_a_deadline_of_their_own() -> None:
    hand_in("ann", 4), hand_in("bob", 4)
    Path("roster.csv").write_text("Name,Deadline\nann,2026-01-05\nbob,\n")
    grade("--deadline", "2026-01-02", "--late", "zero", "--roster", "roster.csv")
    assert {name: one["score"] for name, one in results().items()} == {"ann": 4, "bob": 0}


def test_what_canvas_calls_late_is_late() -> None:
    for name in (f"ann_LATE_12345_67890_{LESSON}.ipynb", f"bob_12346_67891_{LESSON}.ipynb"):
        hand_in("", 1, name)
    grade("--deadline", "2026-01-02", "--late", "10%/day")
    assert {name: one["penalty"] for name, one in results().items()} == {"ann": 0.4, "bob": 0}
    assert results()["ann"]["student_id"] == "12345"


def test_other_points_count_everywhere() -> None:
    hand_in("ann")
    Path("points.csv").write_text(f"exercise,points\n{KEYS[0]},11\n")
    grade("--points", "points.csv")
    assert (results()["ann"]["score"], results()["ann"]["max_score"]) == (14, 14)


def test_one_student_is_marked_again_and_the_rest_stays() -> None:
    hand_in("ann"), hand_in("bob")
    grade("--seed", "7")
    before = results()["bob"]
    Fake.marked.clear()
    Fake.verdicts["ann", KEYS[0]] = Status.WRONG
    Fake.verdicts["bob", KEYS[0]] = Status.WRONG
    grade("--student", "ann")
    assert Fake.marked == ["ann"]
    assert Fake.controlled
    assert results()["ann"]["exercises"][0]["status"] == "wrong"
    assert results()["bob"] == before
    assert json.loads(Path("out/results.json").read_text())["seed"] == 7
    assert Path(f"out/feedback/bob/{LESSON}.html").exists()


def test_one_exercise_is_marked_again_unless_the_notebook_is_another_one() -> None:
    hand_in("ann"), hand_in("bob")
    grade()
    Fake.verdicts |= {(name, key): Status.WRONG for name in ("ann", "bob") for key in KEYS[:2]}
    hand_in("bob", cell="2")
    grade("--exercise", KEYS[0])
    wrong = {name: [one["key"] for one in found["exercises"] if one["status"] == "wrong"]
             for name, found in results().items()}  # fmt: skip
    assert wrong == {"ann": [KEYS[0]], "bob": list(KEYS[:2])}


def test_an_interrupted_run_keeps_what_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    hand_in("ann"), hand_in("bob"), hand_in("cy")
    monkeypatch.setattr(Fake, "interrupt_after", 2)
    assert "Interrupted" in grade(code=3)
    assert {name: one["status"] for name, one in results().items()} == {
        "ann": "graded", "bob": "graded", "cy": "not-graded"}  # fmt: skip
    monkeypatch.setattr(Fake, "interrupt_after", 99)
    grade("--student", "cy")
    assert {one["status"] for one in results().values()} == {"graded"}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--student", "an"), "There is no student 'an'. Did you mean ann?"),
        (("--exercise", "01-nothing"), "There is no exercise '01-nothing'."),
        (("--exercise", "02-record-grad"), "Nobody handed in a notebook with these exercises."),
        (("--deadline", "friday"), "'friday' is no time; write it like 2026-11-20T18:00"),
        (("--late", "much"), "is no rule for late work: none, zero, 10%/day"),
        (("--export", "blackboard"), "'blackboard' is none of canvas, gradescope, junit, moodle"),
        (("--roster", "none.csv"), "none.csv: No such file or directory"),
        (("--roster", "bad.csv"), "bad.csv cannot be used: it names nobody."),
        (("--points", "points.csv"), "There is no exercise '99-x'."),
        (("--isolation", "Z"), "'Z' is no tier"),
        (("--memory-limit", "much"), "'much' is no size"),
        (("--cell-timeout", "-1"), "is no number of seconds above 0"),
    ],
)
def test_what_a_person_can_mend_is_a_sentence_and_exit_code_2(arguments: Sequence[str], part: str) -> None:
    hand_in("ann")
    Path("bad.csv").write_text("a,b\n")
    Path("points.csv").write_text("exercise,points\n99-x,1\n")
    text = grade(*arguments, code=2)
    assert part in " ".join(text.replace("│", " ").split())
    assert "Traceback" not in text
    assert not Path("out").exists()


def test_results_of_something_else_are_not_overwritten_by_a_part() -> None:
    hand_in("ann")
    Path("out").mkdir()
    Path("out/results.json").write_text('{"mine": 1}')
    assert "holds no results of this version" in " ".join(grade("--student", "ann", code=2).split())
    assert Path("out/results.json").read_text() == '{"mine": 1}'


def test_on_a_cluster_only_what_needs_a_run_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def dask(address: str) -> Iterator[Here]:
        assert address == "tcp://there:8786"
        yield Here()

    monkeypatch.setattr(cluster, "dask", dask)
    hand_in("ann"), hand_in("bob")
    Path("roster.csv").write_text("Name\nann\nbob\nzoe\n")
    text = grade("--cluster", "tcp://there:8786", "--roster", "roster.csv", code=3)
    assert "3 notebooks on tcp://there:8786" in text
    assert {name: one["status"] for name, one in results().items()} == {
        "ann": "graded", "bob": "not-graded", "zoe": "missing"}  # fmt: skip
    assert Fake.marked == ["zoe"]


def test_the_names_of_exports_and_the_help_are_complete() -> None:
    assert tuple(sorted(EXPORTS)) == command.EXPORT_NAMES
    for name in ("grade", "autograder"):
        text = CliRunner().invoke(app, [name, "--help"]).output
        assert f"hookwork {name}" in text
    assert "Exit codes: 0 everything was graded" in CliRunner().invoke(app, ["grade", "--help"]).output
