"""What a group hands in is every member's; whatever is not clear is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graders.core.results import SubmissionResult
from graders.instructor.group_work import GroupWork, share_group_work, with_copies, without_copies
from graders.instructor.naming import named_by_roster
from graders.submissions import groups, roster
from graders.submissions.finding import Submission
from tests import notebooks
from tests.batches import graded
from tests.notebooks import LESSON

TEAMS = groups.parse_groups(
    "Group,Student\nTeam 1,Ada Lovelace\nTeam 1,Ben Okri\nTeam 2,Cy Twombly\nTeam 2,Di Prince\n"
)
PEOPLE = roster.parse_roster(
    'Student,ID\n"Lovelace, Ada",11\n"Okri, Ben",12\n"Twombly, Cy",13\n"Prince, Di",14\n"Wolf, Lo",15\n'
)
ADA, BEN, CY, DI, LO = (person.name for person in PEOPLE.people)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def file(student: str, content: str = "", number: str = "", handed_in: float = 0.0, lesson: str = LESSON) -> Submission:
    """A submission whose file is called like the student, with these contents (otherwise like nobody else's)."""
    path = Path(student.replace("/", "_") + lesson[:2])
    path.write_text(content or student)
    return Submission(student, lesson, path, student_id=number, handed_in=handed_in)


def shared(*found: Submission, teams: groups.Groups = TEAMS, people: roster.Roster | None = PEOPLE) -> GroupWork:
    return share_group_work(found, teams, people)


def files(work: GroupWork) -> dict[str, str]:
    assert len({(one.student, one.lesson) for one in work.submissions}) == len(work.submissions)
    return {one.student: one.file.name.removesuffix("01") if one.file else "missing" for one in work.submissions}


@pytest.mark.parametrize("name", ["Team 1", "team1", "team_1", "TEAM-1"])
def test_every_member_has_the_file_of_the_group_under_the_name_of_the_roster(name: str) -> None:
    work = shared(file(name, number="11"), file("Team 2"))
    assert files(work) == {ADA: name, BEN: name, CY: "Team 2", DI: "Team 2"}
    assert work.groups == {
        (ADA, LESSON): "Team 1",
        (BEN, LESSON): "Team 1",
        (CY, LESSON): "Team 2",
        (DI, LESSON): "Team 2",
    }
    assert (work.notes, work.doubts) == ([], [])
    assert [one.student_id for one in work.submissions] == ["", "", "", ""]  # 11 is Ada's number alone


def test_without_a_roster_members_are_called_as_in_the_file_with_its_numbers() -> None:
    teams = groups.parse_groups("name,canvas_user_id,group_name\nAda L,11,Team 1\nBen O,12,Team 1\n")
    work = shared(file("team1", number="11"), file("adal"), teams=teams, people=None)
    assert files(work) == {"Ada L": "team1", "Ben O": "team1"}
    assert [one.student_id for one in work.submissions] == ["11", "12"]
    assert work.doubts == [
        f"Ada L handed in {LESSON} alone as well, and differently (adal01): what Team 1 handed in counts."
    ]
    assert [one.superseded for one in work.submissions] == [("adal01",), ()]


def test_moodle_repeats_the_file_of_a_group_for_each_member() -> None:
    people = roster.parse_roster("Identifier,Full name\nParticipant 7,Ada Lovelace\nParticipant 8,Ben Okri\n")
    teams = groups.parse_groups("Group,Student\nTeam-1,Ada Lovelace\nTeam-1,Ben Okri\n")
    work = shared(
        file("Team-1-Ada Lovelace", "x", "7"), file("Team-1-Participant (8)", "x", "8"), teams=teams, people=people
    )
    assert [(one.student, one.student_id) for one in work.submissions] == [("Ada Lovelace", "7"), ("Ben Okri", "8")]
    assert len(without_copies(work.submissions)) == 1
    assert work.doubts == []


def test_whoever_also_handed_in_alone_is_said_and_the_group_counts() -> None:
    work = shared(file("Team 1"), file("Ben Okri", number="12"))
    assert files(work) == {ADA: "Team 1", BEN: "Team 1", CY: "missing", DI: "missing"}
    assert [doubt.partition(",")[0] for doubt in work.doubts] == ["Okri"]
    assert shared(file("Team 1", "same"), file("Ben Okri", "same")).doubts == []


def test_where_one_member_handed_in_that_is_the_groups() -> None:
    work = shared(file("Ada Lovelace"))
    assert files(work) == {ADA: "Ada Lovelace", BEN: "Ada Lovelace", CY: "missing", DI: "missing"}
    assert work.notes == [
        f"Team 1: no file for {LESSON} has its name. That of {ADA} counts for all of it.",
        f"Team 2: no file for {LESSON} has its name, and these handed in nothing either: {CY}; {DI}.",
    ]


def test_nobody_gets_the_work_of_another_where_a_lesson_is_not_for_groups() -> None:
    work = shared(file("Ada Lovelace"), file("Cy Twombly"), file("Di Prince"))
    assert files(work) == {ADA: "Ada Lovelace", BEN: "missing", CY: "Cy Twombly", DI: "Di Prince"}
    assert work.groups == {}


def test_of_several_files_of_a_group_the_last_counts() -> None:
    found = file("Team 1", handed_in=1), file("team1", handed_in=3), file("Team-1", handed_in=2)
    work = shared(*found)
    assert files(work)[ADA] == "team1"
    assert work.doubts == [f"Team 1 has several files for {LESSON}: team101 counts, and not Team-101, Team 101."]


BLANK = notebooks.text("def branch_grads(w, x):\n    raise NotImplementedError")
WORKED = notebooks.text("def branch_grads(w, x):\n    return {}")


def test_the_untouched_file_of_a_group_takes_nothing_from_what_a_member_finished() -> None:
    work = shared(file("Team 1", BLANK, handed_in=2), file("Ada Lovelace", WORKED, handed_in=1))
    assert files(work)[ADA] == files(work)[BEN] == "Ada Lovelace"
    assert work.groups[BEN, LESSON] == "Team 1"
    assert [one.superseded for one in work.submissions if one.student in (ADA, BEN)] == [("Team 101",)] * 2
    assert work.doubts == [
        f"Team 1: the file for {LESSON} with its name is untouched. That of {ADA} counts for all of it."
    ]


@pytest.mark.parametrize(("team", "ada", "ben"), [(BLANK, BLANK, ""), (WORKED, WORKED, ""), (BLANK, WORKED, WORKED)])
def test_otherwise_the_file_of_the_group_counts(team: str, ada: str, ben: str) -> None:
    found = [file("Team 1", team), file("Ada Lovelace", ada), *([file("Ben Okri", ben)] if ben else [])]
    assert files(shared(*found))[ADA] == "Team 1"


def test_of_several_files_of_a_group_one_that_somebody_worked_in_counts() -> None:
    work = shared(file("Team 1", WORKED, handed_in=1), file("team1", BLANK, handed_in=3))
    assert files(work)[ADA] == "Team 1"
    assert work.doubts == [f"Team 1 has several files for {LESSON}: Team 101 counts, and not team101."]


def test_a_member_of_two_groups_is_said() -> None:
    teams = groups.parse_groups("Group,Student\nTeam 1,Ada Lovelace\nTeam 2,Ada Lovelace\nTeam 2,Ben Okri\n")
    work = shared(file("Team 2"), teams=teams)
    assert files(work) == {ADA: "Team 2", BEN: "Team 2"}
    assert f"{ADA} is in several groups (Team 1; Team 2); of these Team 2 handed in." in work.notes
    assert work.doubts == []
    work = shared(file("Team 1"), file("Team 2"), teams=teams)
    assert files(work) == {ADA: "Team 1", BEN: "Team 2"}
    assert work.doubts == [f"{ADA} is in groups that all handed in {LESSON} (Team 1; Team 2): Team 1 counts."]
    assert work.submissions[0].superseded == ("Team 201",)


def test_a_member_who_is_not_on_the_roster_has_a_result_and_is_said() -> None:
    teams = groups.parse_groups("Group,Student\nTeam 1,Ada Lovelace\nTeam 1,Zed X\n")
    work = shared(file("Team 1"), teams=teams)
    assert files(work) == {ADA: "Team 1", "Zed X": "Team 1"}
    assert work.doubts == ["Zed X is in a group, but not on the roster, or not clearly."]


def test_a_file_that_names_a_group_and_somebody_else_counts_for_no_group() -> None:
    work = shared(file("Team 1", number="13"), file("Team 2-Lo Wolf", number="15"))
    assert files(work) == {"Team 1": "Team 1", "Team 2-Lo Wolf": "Team 2-Lo Wolf", ADA: "missing", BEN: "missing",
                           CY: "missing", DI: "missing"}  # fmt: skip
    assert work.doubts == [
        f"Team 1: the name says Team 1, but the rest says {CY}, who is not in it. It does not count for the group.",
        f"Team 2-Lo Wolf: the name says Team 2, but the rest says {LO}, who is not in it. "
        "It does not count for the group.",
    ]


def test_what_cannot_be_read_is_the_groups_too_and_a_notebook_counts_before_it() -> None:
    broken = Submission("Team 1", LESSON, None, origin="team.zip", problem="It is damaged.")
    work = shared(broken)
    assert [(one.student, one.problem) for one in work.submissions[:2]] == [
        (ADA, "It is damaged."),
        (BEN, "It is damaged."),
    ]
    assert files(shared(broken, file("team1")))[BEN] == "team1"


def test_a_group_is_as_late_as_the_member_with_the_latest_deadline() -> None:
    late, in_time = (replace(file(f"Team 1-{name}", "x", handed_in=70.0), late=late) for name, late in (
        ("Ada Lovelace", 30.0), ("Ben Okri", 0.0)))  # fmt: skip
    for found in ((late, in_time), (in_time, late)):
        assert {one.student: one.late for one in shared(*found).submissions} == {ADA: 0, BEN: 0, CY: 0, DI: 0}


def test_one_run_is_enough_and_everybody_has_its_result() -> None:
    found = shared(file("Team 1"), file("Lo Wolf")).submissions
    once = without_copies(found)
    assert sorted(one.student for one in once) == ["Lo Wolf", ADA, DI, CY]
    results: list[SubmissionResult] = [
        graded(one.student, lesson=LESSON, seed=number) for number, one in enumerate(once)
    ]
    copied = {result.student: result.seed for result in with_copies(results, found)}
    assert set(copied) == {ADA, BEN, CY, DI, "Lo Wolf"}
    assert copied[ADA] == copied[BEN]


NAMES = st.sampled_from(["Ada", "ada", "Ben", "Team 1", "team1", "Team 1-Ada", "Team 2-Zed", "Zed", "Ann-Lee", "Ann"])


@settings(max_examples=300)
@given(st.sets(NAMES, min_size=1), st.lists(st.tuples(NAMES, NAMES), min_size=1), st.sets(NAMES), st.booleans())
def test_nobody_vanishes_and_nobody_is_there_twice(
    students: set[str], pairs: list[tuple[str, str]], listed: set[str], numbered: bool
) -> None:
    found = [Submission(name, LESSON, Path(name), student_id=str(len(name)) * numbered) for name in sorted(students)]
    teams = groups.parse_groups("Group,Student\n" + "".join(f"{group},{student}\n" for group, student in pairs))
    people = (
        roster.parse_roster("Name,ID\n" + "".join(f"{name},{len(name)}\n" for name in sorted(listed)))
        if listed
        else None
    )
    work = share_group_work(found, teams, people)
    given = {str(one.file) for one in work.submissions if one.file} | {
        one for it in work.submissions for one in it.superseded
    }
    assert given == students
    assert len({one.student for one in work.submissions}) == len(work.submissions)
    if people:
        named, _ = named_by_roster(work.submissions, people)
        assert len({(one.student, one.lesson) for one in named}) == len(named)
