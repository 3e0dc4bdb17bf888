"""Who is who when a class is matched with its roster."""

from __future__ import annotations

from pathlib import Path

from graders.core.results import Status
from graders.core.roster import parse
from graders.instructor.request import named_by_roster
from graders.run.submissions import Submission
from tests.batches import batch, exercise, graded
from tests.report.test_summary import printed

LESSON = "01_where_gradients_live"
ROSTER = parse("Name,ID\nzzz_good,7\nann,8\n")


def handed_in(*students: str) -> list[Submission]:
    return [Submission(student, LESSON, Path(student)) for student in students]


def rows(*students: str) -> tuple[dict[str, str], list[str]]:
    """For each row of the class whose file is in it; and the strangers."""
    found, strangers = named_by_roster(handed_in(*students), ROSTER)
    return {
        submission.student: submission.file.name if submission.file else "missing" for submission in found
    }, strangers


def test_a_name_is_somebodys_that_has_it_letter_by_letter() -> None:
    assert rows("␣zzz_good", "zzz_good", "ZZZ GOOD", "ann") == (
        {"␣zzz_good": "␣zzz_good", "zzz_good": "zzz_good", "ZZZ GOOD": "ZZZ GOOD", "ann": "ann"},
        ["ZZZ GOOD", "␣zzz_good"],
    )


def test_a_name_with_what_cannot_be_seen_is_nobodys_in_the_roster() -> None:
    assert rows("␣zzz_good", "ann") == (
        {"␣zzz_good": "␣zzz_good", "ann": "ann", "zzz_good": "missing"}, ["␣zzz_good"]
    )  # fmt: skip


def test_a_lesson_of_one_student_is_not_missing_for_people_of_the_roster() -> None:
    other = Submission("ann", "02_watching_gradients", Path("x"))
    found, _ = named_by_roster([*handed_in("ann", "bob"), other], ROSTER)
    assert [(submission.student, submission.lesson) for submission in found if submission.file is None] == [
        ("zzz_good", LESSON)
    ]


def test_the_summary_warns_of_names_that_look_alike() -> None:
    passed = exercise("01-a", Status.PASSED)
    lines = printed(batch(graded("ann", passed), graded("Ann", passed), graded("␣eve", passed)))
    assert "'Ann', 'ann': different students whose names look alike." in lines
    assert "'␣eve': the name has blanks (␣) or characters that cannot be seen." in lines
