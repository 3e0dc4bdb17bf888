from __future__ import annotations

from dataclasses import replace

from graders.core.results import HandMark, Status, SubmissionStatus
from graders.report import class_numbers as numbers
from tests.batches import batch, exercise, graded, ungraded

FORGOT = exercise("01-a", Status.WRONG, 0, 1, mistake="forgot-return", message="Return it.")
CLASS = batch(
    graded("ann", exercise("01-a"), exercise("01-b")),
    graded("bob", FORGOT, exercise("01-b", Status.NOT_ATTEMPTED, 0)),
    graded("cy", FORGOT, exercise("01-b", Status.RAISED, 0)),
    graded("di", exercise("01-a", Status.NOT_GRADED, 0, message="Disk full."), exercise("01-b", Status.SUSPECT, 0)),
    ungraded("eve", SubmissionStatus.MISSING),
    ungraded("fay", SubmissionStatus.NOT_GRADED, "No kernel."),
    ungraded("gil", SubmissionStatus.UNREADABLE, "Empty."),
)
"""Seven students; one of them, fay, was not graded at all."""


def test_exercises_are_counted_without_what_was_not_graded() -> None:
    first, second = numbers.exercise_numbers(CLASS)
    assert (first.key, first.students, first.tried, first.count(Status.PASSED), first.mean) == ("01-a", 3, 3, 1, 1 / 3)
    assert (second.key, second.students, second.tried, second.count(Status.PASSED)) == ("01-b", 4, 3, 1)


def test_a_mistake_is_counted_among_those_who_tried() -> None:
    (found,) = numbers.common_mistakes(CLASS)
    assert found == numbers.CommonMistake("01-a", "forgot-return", "Return it.", ("bob", "cy"), 3)


def test_both_mistakes_of_an_answer_are_counted() -> None:
    both = exercise("01-a", Status.WRONG, 0, mistake="a", message="One.", second_mistake="b", second_message="Two.")
    found = [(one.mistake, one.message, one.students) for one in numbers.common_mistakes(batch(graded("ann", both)))]
    assert found == [("a", "One.", ("ann",)), ("b", "Two.", ("ann",))]


def test_the_hardest_come_first_and_what_all_passed_is_not_hard() -> None:
    found = numbers.exercise_numbers(
        batch(
            graded("ann", exercise("01-a"), exercise("01-b", Status.WRONG, 0), exercise("01-c", Status.WRONG, 0)),
            graded("bob", exercise("01-a"), exercise("01-b"), exercise("01-c", Status.NOT_ATTEMPTED, 0)),
        )
    )
    assert [exercise.key for exercise in numbers.hardest_exercises(found)] == ["01-c", "01-b"]


def test_our_failures_do_not_count_against_a_student() -> None:
    found = {student.student: student for student in numbers.student_numbers(CLASS)}
    assert (found["di"].score, found["di"].max_score) == (0, 1)
    assert found["fay"].max_score == 0
    assert found["eve"] == numbers.StudentNumbers("eve", 0, 3, 0, 0, 0, 1)
    needing = numbers.students_needing_help(list(found.values()))
    assert [student.student for student in needing] == ["bob", "cy", "di", "eve", "gil"]


def test_a_notebook_that_could_not_be_run_is_listed_once() -> None:
    submission = graded(
        "ann", exercise("01-a", Status.NOT_GRADED, 0), status=SubmissionStatus.NOT_GRADED, message="No kernel."
    )
    assert [(entry.key, entry.why) for entry in numbers.ungraded_items(batch(submission))] == [("", "No kernel.")]


def test_a_note_on_an_answer_is_listed_for_the_teacher() -> None:
    found = batch(graded("ann", exercise("01-a", note="Cell 3 counts."), exercise("01-b")))
    assert [(entry.key, entry.why) for entry in numbers.ungraded_items(found)] == [("01-a", "Cell 3 counts.")]


def test_what_has_no_verdict_is_listed_with_its_reason() -> None:
    assert [(entry.student, entry.key, entry.what, entry.why) for entry in numbers.ungraded_items(CLASS)] == [
        ("di", "01-a", "not-graded", "Disk full."),
        ("di", "01-b", "suspect", ""),
        ("fay", "", "not-graded", "No kernel."),
        ("gil", "", "unreadable", "Empty."),
    ]


def test_what_a_teacher_has_given_points_for_counts_and_needs_no_look() -> None:
    given = HandMark(computed=0, points=1)
    found = batch(
        graded("ann", exercise("01-a", Status.NOT_GRADED, by_hand=given), exercise("01-b", Status.SUSPECT, 0)),
        replace(ungraded("bob", SubmissionStatus.NOT_GRADED), score=1.0, by_hand=given),
        replace(ungraded("cy", SubmissionStatus.UNREADABLE), score=1.0, by_hand=given),
    )
    assert [(one.student, one.key) for one in numbers.ungraded_items(found)] == [("ann", "01-b")]
    assert [(one.score, one.max_score) for one in numbers.student_numbers(found)] == [(1, 2), (1, 3), (1, 3)]
