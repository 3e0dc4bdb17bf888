"""A term's course in one `--out`, command by command: nothing that was marked is lost."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import notebooks
from tests.instructor.grading import classes
from tests.instructor.grading.classes import LESSON_1
from tests.notebooks import KEYS, LESSON

SECOND, THIRD = "02_watching_gradients", "03_changing_gradients"
ROSTER = "Student,ID\n" + "".join(
    f'"{name}",{number}\n'
    for number, name in enumerate(("Diaz, Cleo", "Lovelace, Ada", "Okri, Ben", "Weil, Dan"), start=1)
)


def hand_in(section: str, student: str, lesson: str = LESSON, wrong: Sequence[str] = ()) -> Path:
    """A notebook: right answers to lesson 1 but to the exercises in `wrong`, and none to the other lessons."""
    answers = LESSON_1.right | {key: list(LESSON_1.wrong[key].values()) for key in wrong}
    cells = ["import torch", *(answers[key][0] for key in KEYS)] if lesson == LESSON else ["x = 1"]
    file = Path(section, student, f"{lesson}.ipynb")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(notebooks.text(f"# {student or section}", *cells), encoding="utf-8")
    return file


def grade(where: str | Path, *arguments: str, code: int = 0) -> str:
    return classes.grade(*arguments, where=where, code=code)


def marks() -> dict[tuple[str, str], float | str]:
    """By student and number of the lesson: the score, or the status of what has none. All files have to agree on it."""
    stored = classes.submissions()
    found = {
        (one["student"], one["lesson"][:2]): one["score"] if one["status"] == "graded" else one["status"]
        for one in stored
    }
    rows = list(csv.DictReader(Path("out/gradebook.csv").read_text().splitlines()))
    assert {row["student"] for row in rows} == {student for student, _ in found}
    for row in rows:
        own = [score for (student, _), score in found.items() if student == row["student"]]
        assert float(row["total"]) == sum(score for score in own if isinstance(score, float | int))
    page = Path("out/class.html").read_text()
    links = set(re.findall(r'href="(feedback/[^"]+)"', page))
    assert links == {str(file.relative_to("out")) for file in Path("out/feedback").rglob("*.html")}
    assert len(links) == len(stored)
    return found


def test_nothing_is_lost_in_a_term() -> None:
    Path("roster.csv").write_text(ROSTER)
    roster = ("--roster", "roster.csv")
    hand_in("A", "Ada Lovelace"), hand_in("A", "Ben Okri", wrong=KEYS[:1])
    hand_in("B", "Cleo Diaz"), hand_in("B", "Dan Weil")
    grade("A", *roster)
    assert marks() == {
        ("Diaz, Cleo", "01"): "missing", ("Lovelace, Ada", "01"): 4, ("Okri, Ben", "01"): 3,
        ("Weil, Dan", "01"): "missing"}  # fmt: skip
    text = grade("B", *roster)
    first = {("Diaz, Cleo", "01"): 4, ("Lovelace, Ada", "01"): 4, ("Okri, Ben", "01"): 3, ("Weil, Dan", "01"): 4}
    assert marks() == first
    assert f"{LESSON}: kept from before, as DIR has nothing of theirs: Lovelace, Ada; Okri, Ben." in text
    # The second lesson comes in two archives, and Dan hands in after that.
    hand_in("A2", "Ada Lovelace", SECOND), hand_in("A2", "Ben Okri", SECOND), hand_in("B2", "Cleo Diaz", SECOND)
    grade("A2", *roster), grade("B2", *roster)
    shutil.make_archive("late", "zip", hand_in("late", "Dan Weil", SECOND).parent.parent)
    text = grade("late.zip", *roster, "--export", "canvas")
    second = first | {(name, "02"): 0 for name, _ in first}
    assert marks() == second
    assert f"Kept from before: {LESSON}." in text
    rows = list(csv.reader(Path("out/canvas.csv").read_text().splitlines()))
    assert [(row[0], *row[-2:]) for row in rows[2:]] == [
        ("Diaz, Cleo", "4", "0"), ("Lovelace, Ada", "4", "0"), ("Okri, Ben", "3", "0"), ("Weil, Dan", "4", "0")
    ]  # fmt: skip
    # A third lesson, and a download of the first once more, in which one file is new and one person is not.
    hand_in("B3", "Cleo Diaz", THIRD), hand_in("B3", "Dan Weil", THIRD)
    grade("B3", *roster)
    third = second | {(name, "03"): 0 for name in ("Diaz, Cleo", "Weil, Dan")}
    third |= {(name, "03"): "missing" for name in ("Lovelace, Ada", "Okri, Ben")}
    assert marks() == third
    hand_in("again", "Ben Okri"), hand_in("again", "Dan Weil")
    grade("again", *roster)
    assert marks() == third | {("Okri, Ben", "01"): 4}
    # An appeal, in three ways: by name, with a notebook of one's own, and with a folder.
    hand_in("again", "Dan Weil", wrong=KEYS[:1])
    grade("again", *roster, "--student", "Weil, Dan")
    appealed = third | {("Okri, Ben", "01"): 4, ("Weil, Dan", "01"): 3}
    assert marks() == appealed
    mine = hand_in("instructor", "", wrong=KEYS[1:])
    grade(mine, "--student", "Lovelace, Ada")
    assert marks() == appealed | {("Lovelace, Ada", "01"): 1}
    grade("A/Ada Lovelace", *roster)
    assert marks() == appealed
    # Dan leaves.
    Path("roster.csv").write_text(ROSTER.replace('"Weil, Dan",4\n', ""))
    grade("A", *roster, "--forget", "Weil, Dan")
    left = {who: score for who, score in appealed.items() if who[0] != "Weil, Dan"}
    assert marks() == left | {("Okri, Ben", "01"): 3}


def test_without_a_roster_a_part_joins_the_rest() -> None:
    hand_in("A", "Ada Lovelace"), hand_in("A", "Ben Okri", wrong=KEYS[:1]), hand_in("B", "Cleo Diaz")
    hand_in("B", "Dan Weil")
    grade("A"), grade("B"), grade("A/Ben Okri")
    everybody = {("Ada Lovelace", "01"): 4, ("Ben Okri", "01"): 3, ("Cleo Diaz", "01"): 4, ("Dan Weil", "01"): 4}
    assert marks() == everybody
    grade(f"A/Ada Lovelace/{LESSON}.ipynb")
    assert marks() == everybody
    # A roster that comes later gives all of them their names, whoever is in DIR.
    Path("roster.csv").write_text(ROSTER)
    grade("B", "--roster", "roster.csv")
    listed = {("Lovelace, Ada", "01"): 4, ("Okri, Ben", "01"): 3, ("Diaz, Cleo", "01"): 4, ("Weil, Dan", "01"): 4}
    assert marks() == listed
    # Forgetting it makes nobody another's.
    assert "Cleo Diaz is Diaz, Cleo, who handed in the same file before." in grade("B")
    grade(f"A/Ada Lovelace/{LESSON}.ipynb")
    assert marks() == listed
    hand_in("late", "Cleo Diaz", wrong=KEYS)
    text = grade("late", code=3)
    assert "Cleo Diaz may be Diaz, Cleo, who stands in the results from before. If so, give --roster CSV" in text
    assert marks() == listed | {("Cleo Diaz", "01"): 0}
    grade("B", "--roster", "roster.csv", "--forget", "Cleo Diaz")
    assert marks() == listed


def test_a_notebook_of_nobody_who_is_known_is_not_added_without_a_question() -> None:
    hand_in("A", "Ada Lovelace"), hand_in("A", "Ben Okri")
    grade("A")
    before = marks()
    file = hand_in("instructor", "", wrong=KEYS)
    assert "instructor is not among the students in out. --student NAME says whose notebook" in grade(file, code=2)
    assert "Did you mean Ben Okri?" in grade(hand_in("ben_okri", "", wrong=KEYS), code=2)
    assert marks() == before
    grade(file, "--confirm-files")
    assert marks() == before | {("instructor", "01"): 0}
    grade("A", "--forget", "instructor")
    assert marks() == before
    hand_in("A3/Cy Twombly", "")
    assert "Cy Twombly is not among the students in out. They are added as a new student." in grade(
        "A3/Cy Twombly", code=3
    )
    assert marks() == before | {("Cy Twombly", "01"): 4}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Ada Lovelace", "DIR has work of theirs"),
        ("Dan", "there is no such student in --out. Did you mean Dan Weil?"),
        ("zzz", "there is no such student in --out."),
    ],
)
def test_only_who_has_left_can_be_forgotten(name: str, said: str) -> None:
    hand_in("A", "Ada Lovelace"), hand_in("B", "Dan Weil")
    grade("A"), grade("B")
    before = marks()
    assert f"--forget {name!r}: {said}" in grade("A", "--forget", name, code=2)
    assert marks() == before


def test_names_that_were_read_wrongly_are_gone_once_they_are_read_right() -> None:
    hand_in("A", "lesson1-ada"), hand_in("A", "lesson1-ben")
    grade("A")
    text = grade("A", "--names", "lesson1-{student}")
    assert marks() == {("ada", "01"): 4, ("ben", "01"): 4}
    assert "What stood under lesson1-ada is now under ada." in text


def test_forgetting_the_groups_takes_nothing_from_their_members() -> None:
    hand_in("A", "team_1")
    Path("teams.csv").write_text("Group,Student\nTeam 1,Ada\nTeam 1,Ben\n")
    grade("A")
    grade("A", "--groups", "teams.csv")
    assert marks() == {("Ada", "01"): 4, ("Ben", "01"): 4}
    grade("A")
    assert marks() == {("Ada", "01"): 4, ("Ben", "01"): 4, ("team_1", "01"): 4}


def test_what_is_kept_keeps_its_points_and_its_penalty_and_other_points_are_said() -> None:
    hand_in("A", "Ada Lovelace"), hand_in("B", "Dan Weil")
    Path("points.csv").write_text(f"exercise,points\n{KEYS[0]},5\n")
    grade("A", "--points", "points.csv", "--deadline", "2020-01-01", "--late", "10%/day at most 50%")
    assert marks() == {("Ada Lovelace", "01"): 4}
    text = grade("B", code=3)
    assert f"{LESSON} has 4 points now, and 8 in the results from before. Give --points as before" in text
    assert marks() == {("Ada Lovelace", "01"): 4, ("Dan Weil", "01"): 4}
    grade("B", "--points", "points.csv")
    assert marks() == {("Ada Lovelace", "01"): 4, ("Dan Weil", "01"): 8}
    assert "Ada Lovelace lost 4 points" in grade("A", "--points", "points.csv", code=2)


def test_a_notebook_that_was_downloaded_alone_is_its_owners() -> None:
    hand_in("A", "Ada Lovelace"), hand_in("A", "Ben Okri")
    for number, student in enumerate(("lovelaceada", "okriben"), start=101):
        file = hand_in("canvas", "", wrong=KEYS[:1])
        file.rename(f"canvas/{student}_{number}_20001_{LESSON}.ipynb")
    grade("canvas")
    assert marks() == {("lovelaceada", "01"): 3, ("okriben", "01"): 3}
    Path("downloads").mkdir()
    hand_in("canvas", "").rename(f"downloads/okriben_102_20007_{LESSON}-1.ipynb")
    grade(f"downloads/okriben_102_20007_{LESSON}-1.ipynb")
    assert marks() == {("lovelaceada", "01"): 3, ("okriben", "01"): 4}
