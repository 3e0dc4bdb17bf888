"""`hookwork grade` as it is typed, with notebooks that run in this process."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from graders.cli import app
from graders.core import course
from graders.instructor import command
from graders.report.exports import EXPORTS
from tests import notebooks
from tests.instructor.grading.classes import LESSON_1, OTHER_LESSON, ClassRunner, grade, hand_in, results, submissions
from tests.notebooks import KEYS, LESSON


def test_a_class_gets_a_table_and_every_file(runner: ClassRunner) -> None:
    hand_in("ann"), hand_in("bob", wrong=KEYS[:1])
    text = grade("--export", "canvas", "--export", "gradescope", "--export", "moodle")
    assert "ann" in text
    assert "✗✓✓" in text
    assert "What went wrong" not in text
    assert "written: out/results.json, out/gradebook.csv, out/canvas.csv, out/gradescope" in text
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
    before, _, after = grade(code=3).partition("Please check")
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
    lines = grade()
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


def test_other_points_count_everywhere() -> None:
    hand_in("ann")
    Path("points.csv").write_text(f"exercise,points\n{KEYS[0]},11\n")
    grade("--points", "points.csv")
    assert (results()["ann"]["score"], results()["ann"]["max_score"]) == (14, 14)


def test_the_names_of_exports_and_the_help_are_complete() -> None:
    assert tuple(sorted(EXPORTS)) == command.EXPORT_NAMES
    for name in ("grade", "autograder"):
        text = CliRunner().invoke(app, [name, "--help"]).output
        assert f"hookwork {name}" in text
    assert "Exit codes: 0 everything was graded" in CliRunner().invoke(app, ["grade", "--help"]).output
