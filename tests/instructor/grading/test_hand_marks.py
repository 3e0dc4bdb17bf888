"""Marks by hand stand on top of what is computed, and no marking takes them away."""

from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from graders.core.results import Batch, HandMark, Status, SubmissionStatus
from graders.instructor.hand_marks import HandMarked, read_hand_marks, with_hand_marks, without_hand_marks
from graders.instructor.request import BadRequest
from graders.submissions.hand_rows import HandRow, HandRows
from tests.batches import batch, exercise, graded, ungraded
from tests.instructor.grading.classes import OTHER_LESSON, grade, hand_in, results
from tests.notebooks import KEYS, LESSON

CLASS = batch(
    graded("Lovelace, Ada", exercise("01-a", Status.WRONG, 1, 2), exercise("01-b"), lesson=LESSON, student_id="101"),
    graded("Béla", exercise("01-a", score=2, most=2), exercise("01-b"), lesson=LESSON, penalty=0.0),
    ungraded("Cy", SubmissionStatus.MISSING, lesson=LESSON),
)


def marked(*written: HandRow, found: Batch = CLASS) -> HandMarked:
    """The class with these rows. Taking them off again gives back what was computed."""
    done = with_hand_marks(found, HandRows(written))
    assert without_hand_marks(done.batch) == found
    return done


def scores(done: HandMarked) -> list[float]:
    return [one.score for one in done.batch.submissions]


def test_points_of_an_exercise_and_of_a_lesson_and_a_comment() -> None:
    done = marked(
        HandRow("Lovelace, Ada", "01-a", points=2, comment="Explained it."),
        HandRow("Béla", "1", change=-0.5),
        HandRow("Cy", LESSON, points=2.5),
        HandRow("Cy", "01", comment="Oral exam."),
    )
    ada, bela, cy = done.batch.submissions
    assert scores(done) == [3, 2.5, 2.5]
    assert ada.exercises[0].by_hand == HandMark(computed=1, points=2, comment="Explained it.")
    assert ada.by_hand == HandMark(computed=2)
    assert bela.by_hand == HandMark(computed=3, points=2.5)
    assert cy.by_hand == HandMark(computed=0, points=2.5, comment="Oral exam.")
    assert (done.notes, done.doubts) == (["By hand: 4 rows of hand-marks.csv, on top of what was computed."], [])


@pytest.mark.parametrize("written", ["Lovelace, Ada", "Ada Lovelace", "ada lovelace", "101", "'Lovelace, Ada"])
def test_a_name_is_found_as_on_a_roster_and_as_our_tables_write_it(written: str) -> None:
    assert scores(marked(HandRow(written, LESSON, points=0))) == [0, 3, 0]


@pytest.mark.parametrize(
    ("student", "where", "doubt"),
    [
        ("Ada Lovelase", "01-a", "there is no such student. Did you mean Lovelace, Ada?"),
        ("bela bo", "01-a", "there is no such student. Did you mean Béla?"),
        ("Dora", "01-a", "there is no such student. Write the name as it is in gradebook.csv. If they have left, "),
        ("", "01-a", "there is no such student. Write the name as it is in gradebook.csv. If they have left, "),
        ("Béla", "", "it names no lesson and no exercise."),
        ("Béla", "16", "There is no lesson '16'. Lessons: "),
        ("Béla", "01-record-gard", "There is no exercise '01-record-gard'. "),
        ("Béla", "scale_grad", "There is no exercise 'scale_grad'. Did you mean 03-scale-grad"),
        ("Béla", "02", "there is no result of Béla for this lesson. A roster and --lessons make one."),
        ("Béla", "03-scale-grad", "no answer of Béla to it was marked. Give the points for the lesson, 03_"),
    ],
)
def test_a_row_that_fits_nothing_is_said_and_all_others_count(student: str, where: str, doubt: str) -> None:
    done = marked(HandRow(student, where, points=1), HandRow("Cy", "1", points=1))
    assert scores(done) == [2, 3, 1]
    assert len(done.doubts) == 1
    assert done.doubts[0].startswith(f"hand-marks.csv, {student}, {where}: {doubt}")


def test_of_two_rows_all_comments_are_said_and_the_last_number_counts() -> None:
    row = HandRow("Béla", "01-a", points=1, comment="First.")
    assert marked(row, row).doubts == []
    done = marked(row, HandRow("Béla", "01-a", points=2, comment="Second."))
    assert done.doubts == [
        "hand-marks.csv, Béla, 01-a: two rows give points for this. The last one counts; take the other out."
    ]
    assert done.batch.submissions[1].exercises[0].by_hand == HandMark(computed=2, points=2, comment="First.\nSecond.")


def test_a_row_that_names_a_group_counts_for_its_members_and_their_own_rows_count_more() -> None:
    team = [
        graded(name, exercise("01-a", score=1, most=2), lesson=LESSON, student_id=name[0], group="Team 1")
        for name in ("Ann", "Bob", "Cy")
    ]
    found = batch(*team, graded("Dan", exercise("01-a", score=1, most=2), lesson=LESSON))
    done = marked(
        HandRow("Bob", "01-a", points=0, comment="Absent."),
        HandRow("team 1", "01-a", points=2, comment="Well done."),
        found=found,
    )
    assert scores(done) == [2, 0, 2, 1]
    assert done.batch.submissions[1].exercises[0].by_hand == HandMark(
        computed=1, points=0, comment="Well done.\nAbsent."
    )
    assert done.doubts == []
    twice = marked(HandRow("Team 1", "1", points=2), HandRow("Team 1", "1", points=1), found=found)
    assert (scores(twice), len(twice.doubts)) == ([1, 1, 1, 1], 1)
    assert marked(HandRow("Team 1", "02", points=2), found=found).doubts == [
        "hand-marks.csv, Team 1, 02: there is no result of Team 1 for this lesson. A roster and --lessons make one."
    ]


def test_a_row_of_somebody_who_was_just_taken_out_is_said() -> None:
    done = with_hand_marks(CLASS, HandRows((HandRow("Dan Weil", "1", points=1),)), ["Weil, Dan"])
    assert done.doubts == [
        "hand-marks.csv, Dan Weil, 1: --forget took out this student. Take out the row, too: it counts for nobody."
    ]


def test_more_than_there_is_counts_and_less_than_nothing_does_not_and_both_are_said() -> None:
    done = marked(HandRow("Béla", "01-a", points=15), HandRow("Lovelace, Ada", "1", change=-7))
    assert scores(done) == [0, 16, 0]
    assert done.notes[1:] == [
        "hand-marks.csv, Lovelace, Ada, 1: that takes away more than there is, so 0 points count.",
        "hand-marks.csv, Béla, 01-a: 15 points are more than the 2 there are; they count.",
    ]


def test_what_lateness_takes_it_takes_from_points_of_exercises_by_hand_and_not_from_those_of_a_lesson() -> None:
    late = replace(CLASS.submissions[1], score=1.5, penalty=1.5, late_note="Late.")
    half = batch(late)
    assert scores(marked(HandRow("Béla", "01-a", points=0), found=half)) == [0.5]
    assert scores(marked(HandRow("Béla", "1", points=3), found=half)) == [3]
    done = marked(HandRow("Béla", "01-a", points=0), HandRow("Béla", "1", change=1), found=half)
    assert scores(done) == [1.5]
    assert done.batch.submissions[0].by_hand == HandMark(computed=1.5, points=1.5)


def test_what_could_not_be_graded_is_decided_by_a_teacher() -> None:
    found = batch(
        graded("Ann", exercise("01-a", Status.NOT_GRADED, 0), lesson=LESSON),
        ungraded("Bob", SubmissionStatus.NOT_GRADED, lesson=LESSON),
        ungraded("Cy", SubmissionStatus.NOT_GRADED, lesson=LESSON),
    )
    done = marked(HandRow("Ann", "01-a", points=1), HandRow("Bob", "1", points=1), HandRow("Cy", "1", comment="Wait."),
                  found=found)  # fmt: skip
    assert [one.graded for one in done.batch.submissions] == [True, True, False]


def write(*lines: str, header: str = "student,lesson or exercise,points,change,comment") -> None:
    Path("out/hand-marks.csv").write_text("\n".join([header, *lines, ""]), encoding="utf-8")


def rows(file: str) -> list[list[str]]:
    return list(csv.reader(Path(file).read_text().splitlines()))


def gradebook() -> dict[str, dict[str, str]]:
    header, *found = rows("out/gradebook.csv")
    return {row[0]: dict(zip(header, row)) for row in found}


def test_a_template_has_every_name_and_is_never_written_again() -> None:
    hand_in("=ann"), hand_in("bob")
    assert "out/hand-marks.csv" in grade()
    file = Path("out/hand-marks.csv")
    assert file.read_text() == "student,lesson or exercise,points,change,comment\n'=ann,,,,\nbob,,,,\n"
    file.write_text(file.read_text().replace("'=ann,,", f"'=ann,{KEYS[0]},2"))
    before = file.read_bytes()
    assert "out/hand-marks.csv" not in grade()
    assert file.read_bytes() == before
    assert results()["=ann"]["exercises"][0]["by_hand"] == {"computed": 1, "points": 2, "comment": ""}


SHEET = """Identifier,Full name,Grade,Maximum Grade,Feedback comments
Participant 1,ann,,4,Hello.
Participant 2,bob,,4,
"""
OPTIONS = ("--export", "canvas,gradescope,moodle", "--roster", "sheet.csv")
SAID = "=1+1 <script>alert(1)</script>"


@pytest.fixture
def marked_class() -> None:
    hand_in("ann", wrong=KEYS[:1]), hand_in("bob")
    Path("sheet.csv").write_text(SHEET)
    grade(*OPTIONS)
    write(f'ann,{KEYS[0]},0.5,,"{SAID}"', "bob,1,,-1,Late for the talk.")


@pytest.mark.usefixtures("marked_class")
def test_a_mark_by_hand_survives_every_marking_until_it_is_taken_out() -> None:
    for again in ((), ("--student", "ann"), ("--exercise", KEYS[0]), ("--fresh",)):
        assert "By hand: 2 rows of hand-marks.csv" in grade(*OPTIONS, *again)
        ann, bob = results()["ann"], results()["bob"]
        assert (ann["score"], ann["by_hand"]) == (3.5, {"computed": 3, "points": None, "comment": ""})
        assert (bob["score"], bob["by_hand"]) == (3, {"computed": 4, "points": 3, "comment": "Late for the talk."})
    write()
    grade()
    assert [(one["score"], "by_hand" in one) for one in results().values()] == [(3, False), (4, False)]


@pytest.mark.usefixtures("marked_class")
def test_a_mark_by_hand_is_in_every_file() -> None:
    grade(*OPTIONS)
    page = Path(f"out/feedback/ann/{LESSON}.html").read_text()
    assert "0.5 points (computed: 0). =1+1 &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert [row[-1] for row in rows("out/canvas.csv")] == ["1. Where gradients live", "4", "3.5", "3"]
    assert [row[2] for row in rows(f"out/moodle/{LESSON}.csv")] == ["Grade", "3.5", "3"]
    for name, score, says in (("ann", 3.5, SAID), ("bob", 3, "3 points (computed: 4). Late for the talk.")):
        made = json.loads(Path(f"out/gradescope/{name}/results.json").read_text())
        assert (made["score"], says in made["output"]) == (score, True)
    assert gradebook()["bob"]["note"] == f"{LESSON}: by hand: 3 points (computed: 4). Late for the talk."
    assert gradebook()["ann"][KEYS[0]] == "0.5"
    assert {"3.5 of 4 ✎", "3 of 4 ✎"} == set(re.findall(r"[\d.]+ of [\d.]+ ✎", Path("out/class.html").read_text()))


@pytest.mark.usefixtures("marked_class")
def test_where_the_file_is_gone_its_marks_are_not_dropped_in_silence() -> None:
    grade()
    os.remove("out/hand-marks.csv")
    assert "hand-marks.csv is gone" in grade(code=2)
    assert results()["bob"]["score"] == 3


def test_the_marks_of_another_lesson_stay() -> None:
    hand_in("ann")
    grade()
    write("ann,1,1,,")
    Path("class/ann", f"{LESSON}.ipynb").unlink()
    hand_in("ann", name=f"{OTHER_LESSON}.ipynb")
    grade()
    assert gradebook()["ann"][f"{LESSON} total"] == "1"
    write("ann,1,2,,")
    grade()
    assert gradebook()["ann"][f"{LESSON} total"] == "2"


def test_a_row_counts_for_somebody_who_is_not_in_this_part_of_the_class() -> None:
    hand_in("ann"), hand_in("bob")
    grade()
    Path("class/bob", f"{LESSON}.ipynb").rename("bob.ipynb")
    Path("class/bob").rmdir()
    write("bob,1,1,,Oral exam.")
    grade()
    assert {name: row["total"] for name, row in gradebook().items()} == {"ann": "4", "bob": "1"}
    assert "1 point (computed: 4). Oral exam." in Path(f"out/feedback/bob/{LESSON}.html").read_text()
    write()
    grade("--forget", "bob")
    assert set(gradebook()) == {"ann"}


def test_a_row_for_nobody_is_exit_code_3_and_everything_is_written() -> None:
    hand_in("ann")
    grade()
    write("anne,1,1,,")
    text = grade("--confirm-files", code=3)
    assert "hand-marks.csv, anne, 1: there is no such student. Did you mean ann?" in text
    assert results()["ann"]["score"] == results()["ann"]["max_score"]


def test_a_file_that_cannot_be_used_stops_the_command_before_anything_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "hand-marks.csv"
    file.write_bytes(b"PK\x03\x04")
    with pytest.raises(BadRequest, match="it is a workbook, not a CSV file"):
        read_hand_marks(tmp_path)
    file.write_text("student,lesson,points\n")
    assert read_hand_marks(tmp_path) == HandRows()
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadRequest, match="It is a link to another file"):
        read_hand_marks(tmp_path)
