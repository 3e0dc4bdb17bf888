"""`hookwork grade` as it is typed, with notebooks that run in this process."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from graders.cli import app
from graders.core import course
from graders.instructor import command
from graders.instructor.machines import Machines
from graders.marking.control import CONTROL_CELLS
from graders.report.exports import EXPORTS
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.tier_choice import choose_runner
from graders.sandbox.outside.warm_process import WarmProcess
from tests import notebooks
from tests.answers import answers_of
from tests.doubles import InProcessRunner, NoBoxes, no_prestarted_boxes
from tests.instructor.test_cluster import Here
from tests.notebooks import KEYS, LESSON

LESSON_1 = answers_of("01")
OTHER_LESSON = "02_watching_gradients"


class ClassRunner(InProcessRunner):
    """Runs the notebooks of a class in this process, and notes whose it has run, and how often the control."""

    def __init__(self) -> None:
        super().__init__("A", before=self.look)
        self.students: list[str] = []
        self.controls = 0
        self.broken = False
        self.interrupted_at = ""
        self.seed = 5  # what is drawn for a seed is drawn once for all tests

    def look(self, cells: Sequence[str]) -> None:
        if tuple(cells) == CONTROL_CELLS:
            self.controls += 1
            return
        if self.broken:
            raise OSError("no space left on device")
        self.students.append(cells[0].split()[1])
        if self.students[-1] == self.interrupted_at:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(2.0)  # until the process that waits for this notebook has taken no other one up


@pytest.fixture(autouse=True)
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassRunner:
    """What runs the notebooks, in an empty folder."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    machines.append(made := ClassRunner())
    return made


machines: list[ClassRunner] = []
"""The last of them is that of the test."""


def hand_in(
    student: str, day: int = 1, name: str = f"{LESSON}.ipynb", cell: str = "1", wrong: Sequence[str] = ()
) -> Path:
    """A notebook of a student in the folder `class`, handed in at noon of a day in January 2026.

    All its answers are right but those to the exercises in `wrong`. The first cell holds `cell`.
    """
    answers = LESSON_1.right | {key: list(LESSON_1.wrong[key].values()) for key in wrong}
    keys: Sequence[str] = KEYS
    if name.startswith(OTHER_LESSON):
        answers = answers_of("02").right
        keys = list(answers)
    file = Path("class", student, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        notebooks.text(f"# {student} {cell}", "import torch", *(answers[key][0] for key in keys)), encoding="utf-8"
    )
    noon = datetime(2026, 1, day, 12).timestamp()
    os.utime(file, (noon, noon))
    return file


def grade(*arguments: str, code: int = 0, cluster: Callable[[str], Any] | None = None) -> str:
    """Type `hookwork grade class --out out`; what it prints."""
    here = Machines(here=lambda now: no_prestarted_boxes(machines[-1]), new_seed=lambda: machines[-1].seed)
    if cluster is not None:
        here = replace(here, cluster=cluster)
    done = CliRunner().invoke(app, ["grade", "class", "--out", "out", "--jobs", "1", *arguments], obj=here)
    assert done.exit_code == code, done.output + repr(done.exception)
    return done.output


def submissions(out: str = "out") -> list[dict[str, Any]]:
    """The submissions in results.json."""
    found: list[dict[str, Any]] = json.loads(Path(out, "results.json").read_text())["submissions"]
    return found


def results() -> dict[str, dict[str, Any]]:
    """results.json by student."""
    return {submission["student"]: submission for submission in submissions()}


def test_a_class_gets_a_table_and_every_file(runner: ClassRunner) -> None:
    hand_in("ann"), hand_in("bob", wrong=KEYS[:1])
    text = grade("--export", "canvas", "--export", "gradescope", "--export", "moodle")
    assert "ann" in text
    assert "✗✓✓" in text
    assert "What went wrong" not in text
    assert "written: out/results.json, out/gradebook.csv, out/canvas.csv, out/gradescope" in text.replace("\n", " ")
    files = {
        str(file.relative_to("out")) for file in Path("out").rglob("*") if file.is_file() and file.suffix != ".frames"
    }
    assert files == {
        "results.json",
        "gradebook.csv",
        "class.html",
        "hand-marks.csv",
        "files.csv",
        "runs/seed",
        "canvas.csv",
        f"moodle/{LESSON}.csv",
        *(f"feedback/{name}/{LESSON}.html" for name in ("ann", "bob")),
        *(f"gradescope/{name}/results.json" for name in ("ann", "bob")),
    }
    assert runner.controls == 2


def test_the_exit_code_is_3_when_something_was_not_graded_and_0_whatever_the_marks(runner: ClassRunner) -> None:
    hand_in("ann", wrong=KEYS)
    grade()
    runner.broken = True
    assert "Nothing was graded, all for one reason: " in grade("--out", "new", code=3)
    assert runner.controls == 3  # a class is marked with the control, though it be a class of one
    grade("--one-student", "--fresh", code=3)
    assert runner.controls == 3  # one person's own work needs none


def test_a_lesson_in_the_place_of_another_is_doubted_and_marked_as_what_it_is() -> None:
    hand_in("ann"), hand_in("bob")
    file = Path("class", "cy", f"{LESSON}.ipynb")
    file.parent.mkdir()
    file.write_text((course.solutions_folder() / f"{OTHER_LESSON}.ipynb").read_text(encoding="utf-8"))
    doubt = f"cy: {LESSON}.ipynb has the name of lesson 01 and the content of lesson 02. It counts for lesson 02."
    before, _, after = " ".join(grade(code=3).split()).partition("Please check")
    assert doubt in before
    assert doubt in after
    found = [(one["student"], one["lesson"], one["status"], one["score"]) for one in submissions()]
    assert found == [
        ("ann", LESSON, "graded", 4), ("bob", LESSON, "graded", 4),
        ("cy", LESSON, "missing", 0), ("cy", OTHER_LESSON, "graded", 8),
    ]  # fmt: skip
    said = f"{LESSON}.ipynb has the name of this lesson and the content of lesson 02, so it counts for that."
    assert said in Path("out", "feedback", "cy", f"{LESSON}.html").read_text(encoding="utf-8")
    assert "Please check" not in grade("--confirm-files")
    Path("roster.csv").write_text("Name\nann\nbob\nCy\n")
    Path("groups.csv").write_text("Group,Student\nOne,cy\nTwo,ann\nTwo,bob\n")
    for people in ("roster", "groups"):
        grade(f"--{people}", f"{people}.csv", "--confirm-files", "--out", people)
        assert [one["message"] for one in submissions(people) if one["status"] == "missing"] == [said]


def test_an_untouched_copy_and_an_answer_elsewhere_are_in_the_summary_and_on_the_page() -> None:
    answer = LESSON_1.right["01-branch-grads"][0]
    stub = "def branch_grads(w, x):\n    raise NotImplementedError"
    for student, cells in (("ann", [answer, stub]), ("bob", [answer.replace("grads(", "grad(", 1)])):
        file = hand_in(student)
        file.write_text(notebooks.text(f"# {student}", "import torch", *cells))
    lines = " ".join(grade().split())
    copied = "The answer in code cell 3 counts. Code cell 4 is an untouched copy of the exercise, and was left out."
    misspelt = "Code cell 3 defines {0}branch_grad{0}, but the exercise asks for {0}branch_grads{0}."
    assert f"ann, 01: 01-branch-grads passed. {copied}" in lines
    assert f"bob, 01: 01-branch-grads not-attempted. {misspelt.format('`')}" in lines
    pages = [Path(f"out/feedback/{student}/{LESSON}.html").read_text(encoding="utf-8") for student in ("ann", "bob")]
    assert copied in pages[0]
    assert misspelt.format("`") in re.sub("</?code>", "`", pages[1])
    assert [results()[student]["exercises"][0].get("note") for student in ("ann", "bob")] == [
        copied, misspelt.format("`"),
    ]  # fmt: skip


def test_who_is_missing_is_listed_and_who_is_not_in_the_roster_is_told() -> None:
    hand_in("lovelaceada_101_20001_x", name="notes.txt")
    hand_in("Ada Lovelace"), hand_in("stranger")
    Path("roster.csv").write_text('Student,ID\n"Lovelace, Ada",101\n"Turing, Alan",102\n')
    text = grade("--roster", "roster.csv", "--export", "canvas", code=3)  # a stranger may be who is missing
    grade("--roster", "roster.csv", "--export", "canvas", "--confirm-files")
    assert "Not on the roster, or not clearly: " in text
    assert "stranger" in text.partition("Not on the roster")[2]
    assert results()["Turing, Alan"]["status"] == "missing"


def test_names_come_from_the_roster_and_canvas_gets_its_numbers() -> None:
    hand_in("Ada Lovelace"), hand_in("alan turing")
    Path("roster.csv").write_text('Student,ID\n"Lovelace, Ada",101\n"Turing, Alan",102\n')
    assert "Not on the roster" not in grade("--roster", "roster.csv", "--export", "canvas")
    rows = list(csv.reader(Path("out/canvas.csv").read_text().splitlines()))
    assert [row[:2] for row in rows[2:]] == [["Lovelace, Ada", "101"], ["Turing, Alan", "102"]]


def test_two_folders_of_one_person_both_keep_their_names() -> None:
    hand_in("Ada Lovelace"), hand_in("lovelaceada")
    Path("roster.csv").write_text('Student,ID\n"Lovelace, Ada",101\n')
    assert "Ada Lovelace, lovelaceada" in grade("--roster", "roster.csv")
    assert set(results()) == {"Ada Lovelace", "lovelaceada"}


TEAMS = "Group,Student\nTeam 1,Ada Lovelace\nTeam 1,Alan Turing\n"
TEAM_ROSTER = (
    f'Student,ID,{LESSON} (8)\n    Points Possible,,100\n"Lovelace, Ada",101,\n"Turing, Alan",102,\n"Noether, E",103,\n'
)


def test_a_group_is_marked_once_and_every_member_has_the_result_everywhere(runner: ClassRunner) -> None:
    hand_in("team_1", wrong=KEYS[:1]), hand_in("E Noether")
    Path("roster.csv").write_text(TEAM_ROSTER)
    Path("teams.csv").write_text(TEAMS)
    options = ("--roster", "roster.csv", "--groups", "teams.csv", "--export", "canvas,moodle,gradescope")
    text = grade(*options, "--scale")
    assert "2 notebooks, 1 at a time" in text
    assert runner.students == ["E", "team_1"]
    assert {name: (found["score"], found.get("group", "")) for name, found in results().items()} == {
        "Lovelace, Ada": (3, "Team 1"), "Turing, Alan": (3, "Team 1"), "Noether, E": (4, "")}  # fmt: skip
    rows = list(csv.reader(Path("out/canvas.csv").read_text().splitlines()))
    assert [(row[0], row[1], row[-1]) for row in rows[2:]] == [
        ("Lovelace, Ada", "101", "75"), ("Noether, E", "103", "100"), ("Turing, Alan", "102", "75")]  # fmt: skip
    for name in ("Lovelace_Ada", "Turing_Alan"):
        assert "with Team 1" in Path(f"out/feedback/{name}/{LESSON}.html").read_text()
        assert Path(f"out/gradescope/{name}/results.json").exists()
    hand_in("team_1")  # an appeal of one is one of the group
    grade(*options, "--student", "Turing, Alan")
    assert {name: found["score"] for name, found in results().items()} == {
        "Lovelace, Ada": 4, "Turing, Alan": 4, "Noether, E": 4}  # fmt: skip
    assert runner.students == ["E", "team_1", "team_1"]


def test_without_the_groups_the_summary_says_that_there_is_an_option() -> None:
    hand_in("team_1"), hand_in("E Noether")
    Path("roster.csv").write_text(TEAM_ROSTER)
    text = " ".join(grade("--roster", "roster.csv", "--export", "canvas", code=3).split())
    assert "Not on the roster, or not clearly: team_1 If they handed in as groups: --groups CSV gives" in text
    assert f"canvas.csv: {LESSON} has 100 points on the roster, and at most 4 are entered. --scale converts" in text
    (Path("class/team_1") / f"{LESSON}.ipynb").unlink(), Path("class/team_1").rmdir()
    hand_in("ada lovelace"), hand_in("alan turing"), hand_in("stranger")
    assert "--groups" not in grade("--roster", "roster.csv")  # nobody is missing


def test_a_group_that_has_the_number_of_a_member_is_said() -> None:
    hand_in("", name=f"team1_101_20001_{LESSON}.ipynb"), hand_in("", name=f"noethere_103_20002_{LESSON}.ipynb")
    Path("roster.csv").write_text(TEAM_ROSTER)
    text = " ".join(grade("--roster", "roster.csv").split())
    assert "Found by their numbers, under other names: team1 as Lovelace, Ada. If they handed in as groups:" in text
    Path("teams.csv").write_text(TEAMS)
    assert "If they" not in grade("--roster", "roster.csv", "--groups", "teams.csv")
    assert {name: found["status"] for name, found in results().items()} == {
        "Lovelace, Ada": "graded", "Turing, Alan": "graded", "Noether, E": "graded"}  # fmt: skip


def test_what_is_not_clear_about_a_group_is_said_first_and_the_exit_code_is_3() -> None:
    hand_in("team_1"), hand_in("alan turing")
    Path("teams.csv").write_text(TEAMS + "Team 2,Emmy Noether\n")
    text = " ".join(grade("--groups", "teams.csv", code=3).split())
    said = text.partition("2 notebooks")[0]
    assert f"Team 2: no file for {LESSON} has its name, and these handed in nothing either: Emmy Noether." in said
    assert f"Alan Turing handed in {LESSON} alone as well, and differently (class/alan turing/{LESSON}.ipynb)" in said
    assert {name: found["status"] for name, found in results().items()} == {
        "Ada Lovelace": "graded", "Alan Turing": "graded", "Emmy Noether": "missing"}  # fmt: skip
    assert [Path(file).parent.name for file in results()["Alan Turing"]["superseded"]] == ["alan turing"]


def test_a_group_has_the_latest_deadline_of_its_members() -> None:
    hand_in("team_1", 4, f"{LESSON}-2.ipynb"), hand_in("team_1", 1, f"{LESSON}-1.ipynb", wrong=KEYS)
    Path("roster.csv").write_text("Name,Deadline\nAda Lovelace,2026-01-05\nAlan Turing,\n")
    Path("teams.csv").write_text(TEAMS)
    grade("--deadline", "2026-01-02", "--late", "zero", "--roster", "roster.csv", "--groups", "teams.csv")
    assert {name: found["score"] for name, found in results().items()} == {"Ada Lovelace": 4, "Alan Turing": 4}


def test_an_export_with_one_person_twice_is_not_written_and_all_others_are() -> None:
    hand_in("ann"), hand_in("bob")
    Path("roster.csv").write_text("Name,ID\nann,7\nbob,7\n")
    Path("out").mkdir()
    Path("out/canvas.csv").write_text("of before")
    text = " ".join(grade("--roster", "roster.csv", "--export", "canvas,gradescope,moodle", code=3).split())
    assert (
        "canvas.csv is not written, as it would give one person two rows: ID 7 stands for ann and for bob. "
        "The file there is from an earlier command."
    ) in text
    assert "canvas.csv" not in text.partition("written: out/")[2]
    assert Path("out/canvas.csv").read_text() == "of before"
    assert Path("out/gradescope").exists()
    assert Path(f"out/moodle/{LESSON}.csv").exists()
    assert {found["status"] for found in results().values()} == {"graded"}


def test_a_worksheet_in_another_language_comes_back_in_it() -> None:
    hand_in("Jürgen Groß_1234_assignsubmission_file_"), hand_in("Ada Lovelace_1235_assignsubmission_file_")
    sheet = (
        "ID;Vollständiger Name;Status;Bewertung;Bestwertung;Feedback als Kommentar\r\n"
        "Teilnehmer/in1234;Jürgen Groß;x;{};4,00;\r\nTeilnehmer/in1235;Ada Lovelace;x;{};4,00;\r\n"
    )
    Path("roster.csv").write_bytes(sheet.format("", "").encode("cp1252"))
    text = " ".join(grade("--roster", "roster.csv", "--export", "moodle").split())
    assert "was read as cp1252. Is the name Jürgen Groß right?" in text
    assert Path(f"out/moodle/{LESSON}.csv").read_bytes() == sheet.format("4", "4").encode("cp1252")


def test_the_last_file_before_the_deadline_counts_and_all_are_kept() -> None:
    first, second, third = (hand_in("ann", day, f"{LESSON}-{day}.ipynb", cell=str(day)) for day in (1, 2, 4))
    hand_in("bob", 3)
    grade("--deadline", "2026-01-02", "--late", "10%/day")
    ann, bob = results()["ann"], results()["bob"]
    assert ann["file"].endswith("-2.ipynb")
    assert sorted(ann["superseded"]) == [str(first), str(third)]
    assert (ann["score"], ann["penalty"]) == (4, 0)
    assert (bob["score"], bob["penalty"]) == (3.6, 0.4)
    assert second.exists()


def test_when_all_are_late_the_last_one_counts() -> None:
    hand_in("ann", 5, f"{LESSON}-1.ipynb"), hand_in("ann", 4, f"{LESSON}-2.ipynb")
    grade("--deadline", "2026-01-02", "--late", "10%/day at most 20%")
    assert results()["ann"]["file"].endswith("-1.ipynb")
    assert results()["ann"]["penalty"] == 0.8


def test_days_are_counted_by_the_calendar_in_the_zone_of_the_deadline() -> None:
    zone = ZoneInfo("America/New_York")  # where summer time ends that night
    for student, clock in (("ann", "2026-11-01T19:30"), ("bob", "2026-11-01T20:00:01"), ("eve", "2026-10-31T20:00")):
        moment = datetime.fromisoformat(clock).replace(tzinfo=zone).timestamp() + 0.5
        os.utime(hand_in(student), (moment, moment))
    grade("--deadline", "2026-10-31T20:00 America/New_York", "--late", "10%/day")
    assert {name: found["penalty"] for name, found in results().items()} == {"ann": 0.4, "bob": 0.8, "eve": 0}
    said = "Handed in at 2026-11-01 20:00:01 EST; the deadline was 2026-10-31 20:00:00 EDT."
    assert said in Path(f"out/feedback/bob/{LESSON}.html").read_text()


def test_somebody_may_have_a_deadline_of_their_own() -> None:
    hand_in("ann", 4), hand_in("bob", 4)
    Path("roster.csv").write_text("Name,Deadline\nann,2026-01-05\nbob,\n")
    grade("--deadline", "2026-01-02", "--late", "zero", "--roster", "roster.csv")
    assert {name: submission["score"] for name, submission in results().items()} == {"ann": 4, "bob": 0}


@pytest.mark.parametrize("deadline", [(), ("--deadline", "2026-01-02")])
def test_canvas_alone_says_who_is_late_whatever_the_times_of_its_files(deadline: Sequence[str]) -> None:
    for day, name in ((1, f"ann_LATE_12345_67890_{LESSON}.ipynb"), (9, f"bob_12346_67891_{LESSON}.ipynb")):
        hand_in("", day, name)
    grade(*deadline, "--late", "10%/day")
    assert {name: submission["penalty"] for name, submission in results().items()} == {"ann": 0.4, "bob": 0}
    assert {name: submission["handed_in"] for name, submission in results().items()} == {"ann": "", "bob": ""}
    assert results()["ann"]["student_id"] == "12345"


def test_a_student_cannot_call_a_file_as_canvas_does() -> None:
    hand_in("ann", 9, f"ann_12345_67890_{LESSON}.ipynb"), hand_in("bob", 1)
    grade("--deadline", "2026-01-02", "--late", "zero")
    assert {name: submission["score"] for name, submission in results().items()} == {"ann": 0, "bob": 4}


def test_an_appeal_with_fewer_options_gives_no_points_back_by_accident() -> None:
    hand_in("ann", 4), hand_in("bob")
    grade("--deadline", "2026-01-02", "--late", "10%/day")
    before = results()
    for forgotten in ((), ("--late", "10%/day"), ("--deadline", "2026-01-02")):
        text = " ".join(grade("--student", "ann", *forgotten, code=2).split())
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
    first = json.loads(Path("out/results.json").read_text())["submissions"]
    for name in ("ann", "bob"):
        Path("class", name, f"{LESSON}.ipynb").unlink()
        hand_in(name, name=f"{OTHER_LESSON}.ipynb")
    text = grade("--export", "canvas,moodle")
    assert "2 notebooks, " in text
    found = json.loads(Path("out/results.json").read_text())["submissions"]
    assert [submission for submission in found if submission["lesson"] == LESSON] == first
    assert [(submission["student"], submission["lesson"]) for submission in found] == [
        (name, lesson) for name in ("ann", "bob") for lesson in (LESSON, OTHER_LESSON)
    ]
    header = next(csv.reader(Path("out/canvas.csv").read_text().splitlines()))
    assert header[-2:] == ["1. Where gradients live", "2. Watching gradients"]
    assert {file.stem for file in Path("out/moodle").iterdir()} == {LESSON, OTHER_LESSON}


def test_other_points_count_everywhere() -> None:
    hand_in("ann")
    Path("points.csv").write_text(f"exercise,points\n{KEYS[0]},11\n")
    grade("--points", "points.csv")
    assert (results()["ann"]["score"], results()["ann"]["max_score"]) == (14, 14)


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
        name: {exercise["key"] for exercise in found["exercises"] if exercise["status"] == "wrong"}
        for name, found in results().items()
    }
    assert wrong == {"ann": set(KEYS[1:]), "bob": set(KEYS[:2])}


def test_an_interrupted_run_keeps_what_is_marked(runner: ClassRunner) -> None:
    hand_in("ann"), hand_in("bob"), hand_in("cy")
    runner.interrupted_at = "bob"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever other tests left in this process
    try:
        assert "Interrupted" in grade(code=3)
    finally:
        signal.signal(signal.SIGINT, before)
    assert {name: submission["status"] for name, submission in results().items()} == {
        "ann": "graded", "bob": "graded", "cy": "not-graded"}  # fmt: skip
    grade("--student", "cy")
    assert {submission["status"] for submission in results().values()} == {"graded"}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--student", "an"), "There is no student 'an'. Did you mean ann?"),
        (("--student", "zzz"), "Students: ann ✗ There is no student 'zzz'. They are listed above."),
        (("--forget", "bob"), "--forget 'bob': there is no such student in --out."),
        (("--out", "bad.csv"), "bad.csv: File exists. A file is where a folder should be."),
        (("--out", "bad.csv/x"), "bad.csv/x: Not a directory. A file is where a folder should be."),
        (("--output-limit", "much"), "'much' is not a size"),
        (("--exercise", "01-nothing"), "There is no exercise '01-nothing'."),
        (("--exercise", "02-record-grad"), "Nobody handed in a notebook with these exercises."),
        (("--deadline", "friday"), "'friday' is not a time; write it like 2026-11-20T18:00"),
        (("--deadline", "2026-11-20T18:00 Mars/Base"), "There is no time zone 'Mars/Base'; write it like Europe/Paris"),
        (("--late", "much"), "is not a rule for late work: none, zero, 10%/day"),
        (("--export", "blackboard"), "'blackboard' is none of canvas, gradescope, moodle"),
        (("--roster", "none.csv"), "none.csv: No such file or directory"),
        (("--roster", "bad.csv"), "bad.csv cannot be used: it names nobody."),
        (("--roster", "book.csv"), "book.csv cannot be used: it is a workbook, not a CSV file."),
        (("--groups", "bad.csv"), "bad.csv cannot be used: it has no column Group."),
        (("--groups", "none.csv"), "none.csv: No such file or directory"),
        (("--points", "points.csv"), "There is no exercise '99-x'."),
        (("--isolation", "Z"), "'Z' is not a tier"),
        (("--memory-limit", "much"), "'much' is not a size"),
        (("--cell-timeout", "-1"), "is not a number of seconds above 0"),
    ],
)
def test_what_a_person_can_mend_is_a_sentence_and_exit_code_2(arguments: Sequence[str], part: str) -> None:
    hand_in("ann")
    Path("bad.csv").write_text("a,b\n")
    Path("book.csv").write_bytes(b"PK\x03\x04")
    Path("points.csv").write_text("exercise,points\n99-x,1\n")
    text = grade(*arguments, code=2)
    assert part in " ".join(text.replace("│", " ").split())
    assert "Traceback" not in text
    assert not Path("out").exists()


class OnlyD(NoBoxes):
    """Boxes of a machine on which tier D is all there is."""

    def runner(self, run_options: RunOptions) -> Any:
        assert all(map(os.path.exists, run_options.private)), "what is to be closed has to be there"
        super().runner(run_options)
        choose_runner(
            run_options, Path(), WarmProcess(Path(), can_fork=False), lacking=lambda runner: "it is not there"
        )
        return self.given


@pytest.mark.parametrize("isolation", ["D", "auto"])
def test_a_class_of_one_student_is_not_run_without_isolation_unless_that_is_allowed(
    runner: ClassRunner, isolation: str
) -> None:
    hand_in("ann")
    boxes = OnlyD(runner)
    here = Machines(here=lambda now: nullcontext(boxes))
    command = ["grade", "class", "--out", "out", "--seed", "5", "--isolation", isolation]
    done = CliRunner().invoke(app, command, obj=here)
    assert (done.exit_code, runner.students) == (3, [])
    assert "accept that with --allow-unisolated" in done.output
    assert {str(Path("class").absolute()), str(Path("out").absolute())} < set(boxes.run_options[0].private)
    assert CliRunner().invoke(app, [*command, "--allow-unisolated"], obj=here).exit_code == 0
    assert runner.students == ["ann"]
    own, before = [command[0], "class/ann", *command[2:], "--fresh"], runner.controls
    assert CliRunner().invoke(app, own, obj=here).exit_code == 0  # a folder of notebooks is somebody's own
    assert runner.controls == before


def test_the_roster_and_the_points_are_nothing_for_a_notebook_to_read(runner: ClassRunner) -> None:
    hand_in("ann")
    Path("roster.csv").write_text("Student,ID\nann,101\n")
    Path("points.csv").write_text(f"exercise,points\n{KEYS[0]},3\n")
    boxes = NoBoxes(runner)
    here = Machines(here=lambda now: nullcontext(boxes), new_seed=lambda: runner.seed)
    command = ["grade", "class", "--out", "out", "--roster", "roster.csv", "--points", "points.csv"]
    assert CliRunner().invoke(app, command, obj=here).exit_code == 0
    assert {str(Path(name).absolute()) for name in ("roster.csv", "points.csv")} < set(boxes.run_options[0].private)


def test_results_of_something_else_are_not_overwritten_by_a_part() -> None:
    hand_in("ann")
    Path("out").mkdir()
    Path("out/results.json").write_text('{"mine": 1}')
    assert "holds no results of this version" in " ".join(grade("--student", "ann", code=2).split())
    assert Path("out/results.json").read_text() == '{"mine": 1}'


@pytest.mark.parametrize("content", ['{"mine": 1}', "[" * 100_000 + "]" * 100_000, "", "{", "\0"])
def test_results_of_something_else_are_set_aside(content: str) -> None:
    hand_in("ann")
    Path("out").mkdir()
    for number in (1, 2):
        Path("out/results.json").write_text(content)
        text = " ".join(grade(code=3).split())  # marks may be in it
        assert f"holds no results of this version: it is kept as results.set-aside-{number}.json" in text
        assert Path(f"out/results.set-aside-{number}.json").read_text() == content
        assert results()["ann"]["score"] == 4


def test_a_huge_results_json_is_not_read() -> None:
    hand_in("ann")
    Path("out").mkdir()
    Path("out/results.json").touch()
    os.truncate("out/results.json", 5 << 30)
    assert "results.json has more than 512 MiB" in " ".join(grade("--student", "ann", code=2).split())
    assert "has more than 512 MiB: it is kept as results.set-aside-1.json" in " ".join(grade(code=3).split())


@pytest.mark.parametrize("kind", ["link", "file"])
def test_where_runs_cannot_be_kept_nothing_is_begun(runner: ClassRunner, kind: str) -> None:
    hand_in("ann")
    grade()
    before = results()
    Path("out/runs").rename("moved")
    if kind == "link":
        Path("out/runs").symlink_to(Path("moved").absolute())
    else:
        Path("out/runs").write_text("mine")
    runner.noted.clear()
    assert "out/runs should hold the runs of notebooks, but is" in " ".join(grade("--fresh", code=2).split())
    assert (results(), runner.noted) == (before, [])


def odd(part: str) -> str:
    """A right notebook with something in it that no ordinary file can hold, or no ordinary program can read."""
    answers = [LESSON_1.right[key][0] for key in KEYS]
    content = notebooks.content("# ann 1", "import torch", *answers)
    match part:
        case "text":
            content["cells"].append({"cell_type": "markdown", "id": "m", "metadata": {}, "source": "\ud800"})
        case "metadata":
            content["metadata"] = {"title": "\ud800"}
        case "key":
            content["cells"][0]["metadata"] = {"\udfff": 1}
        case "output":
            stream = {"output_type": "stream", "name": "stdout", "text": "\ud800"}
            content["cells"][0]["outputs"] = [stream]
        case _:
            levels = int(part.partition(" ")[0])
            content["metadata"] = {"deep": 0}
            return json.dumps(content).replace('"deep": 0', '"deep": ' + "[" * levels + "]" * levels)
    return json.dumps(content)


@pytest.mark.parametrize("part", ["text", "metadata", "key", "output", *(f"{n} levels" for n in (60, 200, 450, 976))])
def test_what_is_odd_in_one_notebook_costs_no_other_student_anything(part: str) -> None:
    hand_in("ann").write_text(odd(part)), hand_in("bob")
    text = " ".join(grade("--keep-outputs", "--export", "canvas").split())
    assert results()["bob"]["score"] == 4
    assert Path(f"out/executed/bob/{LESSON}.ipynb").exists()
    assert Path("out/canvas.csv").exists()
    read = part != "976 levels"
    assert results()["ann"]["status"] == ("graded" if read else "unreadable")
    assert Path(f"out/executed/ann/{LESSON}.ipynb").exists() == read
    said = f"out/executed/ann/{LESSON}.ipynb: characters that UTF-8 cannot hold became \N{REPLACEMENT CHARACTER}."
    assert (said in text) == (part in ("text", "metadata", "key"))


def test_results_may_lie_in_the_class() -> None:
    hand_in("ann"), hand_in("bob")
    grade("--out", "class/results")
    stored = json.loads(Path("class/results/results.json").read_text())
    assert {found["student"] for found in stored["submissions"]} == {"ann", "bob"}


def test_a_file_that_cannot_be_written_is_said_and_all_others_are_written() -> None:
    hand_in("ann"), hand_in("bob")
    Path("out/executed").mkdir(parents=True)
    Path("out/executed/ann").write_text("mine")
    text = " ".join(grade("--keep-outputs", "--export", "canvas", code=3).split())
    assert f"out/executed/ann/{LESSON}.ipynb was not written: ann is a link or not a folder" in text
    assert Path(f"out/executed/bob/{LESSON}.ipynb").exists()
    assert {name: found["score"] for name, found in results().items()} == {"ann": 4, "bob": 4}


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
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
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
    found = json.loads(Path("out/results.json").read_text())["submissions"]
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
    assert {name: submission["status"] for name, submission in results().items()} == {
        "ann": "graded", "bob": "not-graded", "zoe": "missing"}  # fmt: skip
    assert runner.noted == []


def test_when_marking_again_fails_the_earlier_marks_stay(runner: ClassRunner) -> None:
    hand_in("ann"), hand_in("bob", wrong=KEYS[:1]), hand_in("cy")
    grade()
    before = results()
    runner.broken = True
    hand_in("cy", wrong=KEYS)
    text = " ".join(grade("--fresh", code=3).split())
    assert "Not marked again, so the earlier mark stays: ann, 01; bob, 01. The graders failed with OSError: no" in text
    assert results() == before | {"cy": results()["cy"]}
    assert results()["cy"]["status"] == "not-graded"  # the earlier mark was that of another notebook
    runner.broken, runner.interrupted_at = False, "ann"
    signal_before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert "Ctrl+C once more ends them at once." in " ".join(grade("--fresh", code=3).split())
    finally:
        signal.signal(signal.SIGINT, signal_before)
    assert [(found["status"], found["score"]) for found in results().values()] == [
        ("graded", 4), ("graded", 3), ("not-graded", 0)]  # fmt: skip


def test_only_what_was_handed_in_is_counted_and_files_csv_says_what_could_not_be_read() -> None:
    hand_in("ann"), hand_in("bob").write_text("{"), hand_in("cy")
    Path("roster.csv").write_text("Name\nann\nbob\ncy\nzoe\n")
    text = grade("--roster", "roster.csv")
    assert "3 notebooks, 1 at a time" in text
    assert "3 of 3 notebooks done" in text
    assert "4 students, 2 of 3 notebooks marked, 1 missing" in Path("out/class.html").read_text()
    rows = csv.DictReader(Path("out/files.csv").read_text().splitlines())
    fates = {row["student"]: row["what became of it"] for row in rows}
    assert fates == {
        "ann": "It counts.", "bob": f"It counts, but is unreadable: {results()['bob']['message']}", "cy": "It counts."
    }  # fmt: skip


def test_the_text_that_a_notebook_may_write_is_limited(runner: ClassRunner) -> None:
    hand_in("ann")
    boxes = NoBoxes(runner)
    here = Machines(here=lambda now: nullcontext(boxes), new_seed=lambda: runner.seed)
    assert CliRunner().invoke(app, ["grade", "class", "--out", "out", "--output-limit", "3K"], obj=here).exit_code == 0
    assert boxes.run_options[0].limits.output == 3 << 10


def test_the_names_of_exports_and_the_help_are_complete() -> None:
    assert tuple(sorted(EXPORTS)) == command.EXPORT_NAMES
    for name in ("grade", "autograder"):
        text = CliRunner().invoke(app, [name, "--help"]).output
        assert f"hookwork {name}" in text
    assert "Exit codes: 0 everything was graded" in CliRunner().invoke(app, ["grade", "--help"]).output


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
