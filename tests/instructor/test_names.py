"""Who is who when a class is matched with its roster."""

from __future__ import annotations

from pathlib import Path

import pytest

from graders.core.results import Status
from graders.instructor.naming import named_by_roster
from graders.instructor.request import BadRequest, read_roster
from graders.submissions.finding import Submission
from graders.submissions.roster import parse_roster
from tests.batches import batch, exercise, graded
from tests.notebooks import LESSON
from tests.report.test_summary import printed

ROSTER = parse_roster("Name,ID\nzzz_good,7\nann,8\n")


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


def test_characters_that_cannot_be_seen_are_told_apart_by_numbers_alone() -> None:
    roster = parse_roster("Name,ID\nann\u200c,7\nbob,8\n")
    submissions = [Submission("ann\u200b", LESSON, Path("a")), Submission("bob", LESSON, Path("b"))]
    found, strangers = named_by_roster(submissions, roster)
    assert strangers == ["ann\ufffd"]
    submissions[0] = Submission("ann\u200b", LESSON, Path("a"), student_id="7")
    found, strangers = named_by_roster(submissions, roster)
    assert ([one.student for one in found], strangers) == (["ann\ufffd", "bob"], [])
    assert [person.name for person in roster.people] == ["ann\ufffd", "bob"]  # as in results, so that exports find them


def test_names_with_joiners_are_found_on_the_roster_with_and_without_them() -> None:
    persian, sinhala = "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627", "\u0dc1\u0dca\u200d\u0dbb\u0dd3 Perera"
    roster = parse_roster(f"Name,ID\n{persian},1\n{sinhala},2\n")
    for students in (
        [persian, sinhala],
        [name.replace("\u200c", "").replace("\u200d", "") for name in (persian, sinhala)],
    ):
        found, strangers = named_by_roster(handed_in(*students), roster)
        assert ([one.student for one in found], strangers) == ([persian, sinhala], [])


def test_a_lesson_of_one_student_is_not_missing_for_people_of_the_roster() -> None:
    other = Submission("ann", "02_watching_gradients", Path("x"))
    found, _ = named_by_roster([*handed_in("ann", "bob"), other], ROSTER)
    assert [(submission.student, submission.lesson) for submission in found if submission.file is None] == [
        ("zzz_good", LESSON)
    ]


def missing(text: str, *handed_in_by: Submission, due: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Who of a roster is missing in which lessons."""
    found, _ = named_by_roster(handed_in_by, parse_roster(text), due)
    return [(submission.student, submission.lesson[:2]) for submission in found if submission.missing]


def test_the_roster_says_which_lessons_are_due_for_somebody() -> None:
    absent = [Submission("ann", LESSON, None), Submission("bob", LESSON, None)]
    roster = 'Name,Lessons\nann,\nbob,"2, 03"\neve,01 02\n'
    assert missing(roster, *absent, due=(LESSON,)) == [
        ("ann", "01"),
        ("bob", "02"),
        ("bob", "03"),
        ("eve", "01"),
        ("eve", "02"),
    ]
    assert missing("Name,Lessons\nann,01 02\nbob,01\n", *handed_in("ann", "bob")) == [("ann", "02")]


def test_two_folders_that_seem_to_be_one_person_are_not_missing_under_a_third_name() -> None:
    assert missing("Name,Lessons\nZzz Good,01 02\n", *handed_in("zzz_good", "ZZZ GOOD")) == []


def test_a_roster_with_a_lesson_that_there_is_not_says_whose(tmp_path: Path) -> None:
    file = tmp_path / "roster.csv"
    file.write_text("Name,Lessons\nann,01\nbob,1 99\n")
    with pytest.raises(BadRequest, match=r"roster\.csv, bob: There is no lesson '99'\. Lessons: 00_three"):
        read_roster(file)


MOODLE = "Identifier,Full name\nParticipant 11,ann\nParticipant 12,bob\nParticipant 13,eve\n"


def test_whoever_handed_in_nothing_has_the_number_of_this_assignment() -> None:
    found, _ = named_by_roster(
        [Submission("ann", LESSON, Path("x"), student_id="11"), *handed_in("bob")], parse_roster(MOODLE)
    )
    assert [(submission.student, submission.student_id) for submission in found] == [
        ("ann", "11"),
        ("bob", "12"),
        ("eve", "13"),
    ]


def test_the_worksheet_of_another_assignment_is_refused() -> None:
    others = [
        Submission(name, LESSON, Path(name), student_id=number) for name, number in (("ann", "21"), ("bob", "22"))
    ]
    with pytest.raises(BadRequest, match="of another assignment: ann is participant 11 there, but 21 in the name"):
        named_by_roster(others, parse_roster(MOODLE))
    several = [*others, Submission("eve", LESSON, Path("eve"), student_id="13")]  # a folder with two assignments
    assert len(named_by_roster(several, parse_roster(MOODLE))[0]) == 3


BLIND = "Identifier,Status,Grade,Maximum Grade\nParticipant 11,x,,4\nParticipant 12,x,,4\n"


def test_of_blind_worksheets_too_that_of_another_assignment_is_refused() -> None:
    def of(*numbers: str) -> list[Submission]:
        return [Submission(f"Participant ({one})", LESSON, Path(one), student_id=one) for one in numbers]

    found, strangers = named_by_roster(of("11", "13"), parse_roster(BLIND))
    assert [(one.student, one.missing) for one in found] == [
        ("Participant 11", False), ("Participant (13)", False), ("Participant 12", True)]  # fmt: skip
    assert strangers == ["Participant (13)"]
    with pytest.raises(
        BadRequest, match="of another assignment: it has none of the numbers in the names of the files, such as 21"
    ):
        named_by_roster(of("21", "22"), parse_roster(BLIND))


def test_the_summary_warns_of_names_that_look_alike() -> None:
    passed = exercise("01-a", Status.PASSED)
    lines = printed(batch(graded("ann", passed), graded("Ann", passed), graded("␣eve", passed)))
    assert "'Ann', 'ann': different students whose names look alike." in lines
    assert "'␣eve': the name has spaces (␣) or characters that cannot be seen." in lines
