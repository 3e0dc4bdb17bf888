"""Folders that end in a login, as GitHub Classroom names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graders.core import course
from graders.submissions.finding import find_submissions
from graders.submissions.layout import Layout
from graders.submissions.lms import Owner
from graders.submissions.logins import logins_in_names, use_roster
from graders.submissions.roster import parse_roster
from tests import notebooks

LESSON, OTHER = course.lesson_stems()[1:3]
ROSTER = parse_roster(
    '"identifier","github_username","github_id","name"\n'
    '"Ada Lovelace","ada-l","11",""\n"Ben Okri","l","12",""\n"Marie Curie","Marie","13",""\n'
)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["lesson-1-ada-l", "lesson-1-l", "lesson-1-marie"], ["ada-l", "l", "Marie"]),
        (["hw_MARIE", "hw_l"], ["Marie", "l"]),
        (["lesson-1-marie"], ["Marie"]),
        (["lesson-1-ada-l"], ["ada-l"]),
        (["Anne-Marie", "lesson-1-l"], [None, "l"]),
        (["lesson-1", "lesson-1-11", "marie", "lesson-1-"], [None, None, None, None]),
    ],
)
def test_a_login_stands_behind_the_name_of_an_assignment(names: list[str], found: list[str | None]) -> None:
    logins = logins_in_names(names, ROSTER)
    assert [logins.get(name) for name in names] == found


def test_a_login_of_two_people_is_nobodys() -> None:
    roster = parse_roster("Name,username\nAda,octo\nBen,Octo\n")
    assert logins_in_names(["lesson-1-octo", "lesson-2-octo"], roster) == {}


def test_the_repositories_of_a_person_are_theirs_whatever_the_assignment(tmp_path: Path) -> None:
    for folder, lesson in (("one-1-ada-l", LESSON), ("one-1-l", LESSON), ("two-2-ada-l", OTHER), ("Ben Okri", OTHER)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{lesson}.ipynb").write_text(notebooks.text("x"))
    found = find_submissions(tmp_path, (LESSON, OTHER), roster=ROSTER)
    assert [(one.student, one.lesson[1]) for one in found.submissions if one.file] == [
        ("ada-l", "1"), ("ada-l", "2"), ("Ben Okri", "2"), ("l", "1")]  # fmt: skip
    assert found.notes == ("Names of folders and files end in logins of the roster: one-1-ada-l is the work of ada-l.",)


def test_two_owners_with_the_number_of_one_person_stay_two() -> None:
    one, two, ben = Owner("a.l."), Owner("A. Lovelace"), Owner("b.o.")
    layout = Layout(
        "by hand", is_class=True, owners={one, two, ben}, known_by={one: ("11",), two: ("11",), ben: ("12",)}
    )
    use_roster(layout, ROSTER)
    assert layout.owners == {one, two, Owner("Ben Okri")}
