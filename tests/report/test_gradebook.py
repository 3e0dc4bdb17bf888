from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from graders.core.results import Batch, HandMark, Status, SubmissionStatus
from graders.report import gradebook
from tests.batches import batch, exercise, graded, ungraded


def rows(found: Batch) -> list[list[str]]:
    return list(csv.reader(io.StringIO(gradebook.render(found))))


def test_a_row_is_a_student_and_a_column_an_exercise() -> None:
    found = batch(
        graded("bob", exercise("01-a"), exercise("01-b", Status.WRONG, 1 / 3, 2)),
        graded("ann", exercise("01-a"), exercise("01-b", score=2, most=2)),
    )
    assert rows(found) == [
        ["student", "01-a", "01-b", "01_first total", "total", "max", "note"],
        ["ann", "1", "2", "3", "3", "3", ""],
        ["bob", "1", "0.33", "1.33", "1.33", "3", ""],
    ]


def test_students_stand_where_people_look_for_them() -> None:
    students = ("ann", "Çelik", "Émile", "Zoë")
    found = rows(batch(*(graded(student, exercise("01-a")) for student in reversed(students))))
    assert [row[0] for row in found[1:]] == list(students)


def test_lessons_follow_each_other_with_a_sum_each_and_one_for_all() -> None:
    found = batch(
        graded("ann", exercise("02-a", score=2, most=2), lesson="02_second"),
        graded("ann", exercise("01-a")),
        graded("bob", exercise("02-a", Status.WRONG, 0, 2), lesson="02_second"),
    )
    assert rows(found) == [
        ["student", "01-a", "01_first total", "02-a", "02_second total", "total", "max", "note"],
        ["ann", "1", "1", "2", "2", "3", "3", ""],
        ["bob", "", "", "0", "0", "0", "2", ""],
    ]


def test_what_was_not_handed_in_or_not_graded_is_empty_and_what_is_unreadable_is_zero() -> None:
    found = batch(
        graded("ann", exercise("01-a"), exercise("01-b", score=2, most=2)),
        ungraded("bob", SubmissionStatus.MISSING),
        ungraded("cy", SubmissionStatus.NOT_GRADED),
        ungraded("di", SubmissionStatus.UNREADABLE),
    )
    assert rows(found)[1:] == [
        ["ann", "1", "2", "3", "3", "3", ""],
        ["bob", "", "", "", "0", "3", "01_first: missing"],
        ["cy", "", "", "", "0", "3", "01_first: not-graded"],
        ["di", "0", "0", "0", "0", "3", "01_first: unreadable"],
    ]


def test_what_lateness_cost_is_noted() -> None:
    assert rows(batch(graded("ann", exercise("01-a", score=0.9), penalty=0.1)))[1][-1] == (
        "01_first: late, 0.1 points are taken off"
    )


def test_a_suspect_or_ungraded_exercise_has_a_note() -> None:
    found = batch(graded("ann", exercise("01-a", Status.SUSPECT, 0), exercise("01-b", Status.NOT_GRADED, 0)))
    assert rows(found)[1] == ["ann", "0", "", "0", "0", "2", "01-a: suspect; 01-b: not-graded"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+49", "'+49"),
        ("-rf --help", "'-rf --help"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'    =1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\u3000\uff201", "'\u3000\uff201"),
        ("\n=1", "' =1"),
        ("\x1b=1", "\ufffd=1"),
        ("ann, bob", "ann, bob"),
        ('"quoted"', '"quoted"'),
        ("a=1", "a=1"),
        ("a;=1+1", "a;'=1+1"),
        ('a; "@SUM(A1);b;-1', "a;' \"@SUM(A1);b;'-1"),
        ("a\t=1", "a    =1"),
        ("Lee, -Ann", "Lee, -Ann"),
        ("jos\udce9", "jos\ufffd"),
    ],
)
def test_no_name_becomes_a_formula(name: str, shown: str) -> None:
    assert rows(batch(graded(name, exercise("01-a"))))[1][0] == shown


@pytest.mark.parametrize(
    ("delimiter", "cell", "shown"),
    [(",", "a;=1,=1", "a;'=1,=1"), (";", "a;=1,=1", "a;=1,'=1"), ("\t", "a;=1", "a;'=1"), (";", " - ", " - ")],
)
def test_a_cell_is_safe_wherever_a_spreadsheet_splits_it(delimiter: str, cell: str, shown: str) -> None:
    assert gradebook.escape_formulas(cell, delimiter) == shown


def test_points_and_words_by_hand_count_and_have_a_note() -> None:
    given = HandMark(computed=0, points=1.5, comment="=Yes\nno")
    found = batch(
        graded("ann", exercise("01-a", score=1.5, by_hand=given), by_hand=HandMark(computed=0)),
        replace(ungraded("bob", SubmissionStatus.MISSING), score=1.5, by_hand=given),
        replace(ungraded("cy", SubmissionStatus.MISSING), by_hand=HandMark(computed=0, comment="Ill.")),
        graded("di", exercise("01-a", Status.NOT_GRADED, by_hand=given, score=1.5), by_hand=HandMark(computed=0)),
    )
    said = "1.5 points (computed: 0). =Yes no"
    assert rows(found)[1:] == [
        ["ann", "1.5", "1.5", "1.5", "1", f"01_first: by hand: 01-a: {said}"],
        ["bob", "", "1.5", "1.5", "3", f"01_first: missing; 01_first: by hand: {said}"],
        ["cy", "", "", "0", "3", "01_first: missing; 01_first: by hand: Ill."],
        ["di", "1.5", "1.5", "1.5", "1", f"01_first: by hand: 01-a: {said}; 01-a: not-graded"],
    ]


def test_a_group_has_a_note() -> None:
    assert rows(batch(graded("ann", exercise("01-a"), group="Team 1")))[1][-1] == "01_first: with Team 1"


def test_an_empty_batch_is_a_header() -> None:
    assert gradebook.render(batch()) == "student,total,max,note\n"
