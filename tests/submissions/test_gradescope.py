"""Gradescope's export of a class: whose each folder is, and when it was handed in."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path

import pytest

from graders.core import course
from graders.submissions.finding import FoundSubmissions, find_submissions
from graders.submissions.gradescope import HandedInBy, Submitter, parse_metadata
from graders.submissions.roster import parse_roster
from tests import notebooks

LESSON, OTHER = course.lesson_stems()[1:3]
METADATA = """---
submission_111:
  :submitters:
  - :name: Ada Lovelace
    :sid: '1001'
    :email: ada@x.edu
  :created_at: 2026-11-24 18:03:21.500000000 Z
  :score: 3.0
  :results:
    output: |-
      submission_112:
      :submitters:
      - :name: Mallory
  :history:
  - :id: 5
    :submitters:
    - :name: Mallory
    :created_at: 2026-11-20 18:03:21 Z
submission_112:
  :submitters:
  - :name: 'Shaun O''Brien'
    :sid:
    :email: so@x.edu
  - :name: "\\u00C9ric \\"Z\\" L\\xF6w"
    :sid: "77"
    :email: ~
  :created_at: 2026-11-24 10:03:21 -08:00
"""
TIME = datetime(2026, 11, 24, 18, 3, 21, tzinfo=timezone.utc).timestamp()
ADA = Submitter("Ada Lovelace", "1001", "ada@x.edu")


def hand_in(folder: Path, *names: str, metadata: str = METADATA) -> None:
    """Write an export; the names are those of files."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(notebooks.text(f"# {name}"))
    (folder / "submission_metadata.yml").write_text(metadata, encoding="utf-8")


def shown(found: FoundSubmissions) -> list[tuple[str, str]]:
    """Each student with the folder of the file that counts; `-` if there is none."""
    return [(one.student, one.file.parent.name if one.file else "-") for one in found.submissions]


def test_people_and_times_are_those_of_the_entry_and_of_nothing_in_it() -> None:
    found = parse_metadata(METADATA.splitlines(keepends=True))
    assert found == {
        "submission_111": HandedInBy((ADA,), TIME),
        "submission_112": HandedInBy(
            (Submitter("Shaun O'Brien", "", "so@x.edu"), Submitter('Éric "Z" Löw', "77", "")), TIME
        ),
    }


@pytest.mark.parametrize(
    ("lines", "submitter"),
    [
        ("    - :name: Ada\n        Lovelace\n      :sid: '1001'\n      :email: ada@x.edu\n", ADA),
        ('  - :email: ada@x.edu\n    :sid: 1001\n    :name: "Ada\\\n      \\ Lovelace"\n', ADA),
        ("  - :name: ''\n    :email: ada@x.edu\n", Submitter("ada@x.edu", "", "ada@x.edu")),
        ("  - :name: !binary |-\n      QWRh\n    :sid: '7'\n", Submitter("7", "7", "")),
        ('  - :name: "\\UFFFFFFFF\\ud800"\n', Submitter("\ufffd\ufffd", "", "")),
    ],
)
def test_a_name_may_be_written_in_other_ways(lines: str, submitter: Submitter) -> None:
    text = f"submission_1:\n  :submitters:\n{lines}  :created_at: never\n"
    assert parse_metadata(text.splitlines(keepends=True)) == {"submission_1": HandedInBy((submitter,))}


@pytest.mark.parametrize(
    "text", ["", "text", "a: b\n", "submission_1:\n  :submitters: []\n", ":\n- :\n  - :name: x\n", "\0"]
)
def test_whatever_else_is_in_the_file_names_nobody(text: str) -> None:
    assert parse_metadata(text.splitlines(keepends=True)) == {}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("above", ["", "assignment_9_export"])
def test_an_export_is_a_class_of_people_also_when_they_worked_together(
    tmp_path: Path, above: str, packed: bool
) -> None:
    where = tmp_path / "class"
    hand_in(where / above, f"submission_111/{LESSON}.ipynb", f"submission_112/deep/{LESSON}.ipynb")
    if packed:
        where = Path(shutil.make_archive(str(where), "zip", where))
    (tmp_path / "scratch").mkdir()
    found = find_submissions(where, (LESSON,), tmp_path / "scratch")
    assert [one.student for one in found.submissions] == ["Ada Lovelace", 'Éric "Z" Löw', "Shaun O'Brien"]
    assert [one.handed_in for one in found.submissions] == [TIME] * 3
    assert [one.student_id for one in found.submissions] == [""] * 3
    assert len({one.file for one in found.submissions}) == 2
    assert (found.how, found.doubts, found.open_accounts) == ("folders as Gradescope names them", (), [])
    assert {one.student for one in found.accounts} == {"Ada Lovelace", 'Éric "Z" Löw, Shaun O\'Brien', ""}


def test_exports_of_two_lessons_are_one_class(tmp_path: Path) -> None:
    alone = METADATA.replace("submission_111", "submission_211").partition("submission_112")[0]
    hand_in(tmp_path / "assignment_1_export", f"submission_111/{LESSON}.ipynb", f"submission_112/{LESSON}.ipynb")
    hand_in(tmp_path / "assignment_2_export", f"submission_211/{OTHER}.ipynb", metadata=alone)
    found = find_submissions(tmp_path, (LESSON, OTHER), due=(LESSON, OTHER))
    assert shown(found) == [
        ("Ada Lovelace", "submission_111"), ("Ada Lovelace", "submission_211"),
        ('Éric "Z" Löw', "submission_112"), ('Éric "Z" Löw', "-"),
        ("Shaun O'Brien", "submission_112"), ("Shaun O'Brien", "-"),
    ]  # fmt: skip


def test_a_folder_that_the_file_does_not_name_is_doubtful(tmp_path: Path) -> None:
    hand_in(tmp_path, f"submission_111/{LESSON}.ipynb", f"submission_113/{LESSON}.ipynb")
    found = find_submissions(tmp_path, (LESSON,))
    assert shown(found) == [("Ada Lovelace", "submission_111"), ("submission_113", "submission_113")]
    assert found.doubts == ("submission_metadata.yml does not say whose this folder is: submission_113.",)


def test_a_student_names_nobody_with_a_file_of_that_name(tmp_path: Path) -> None:
    hand_in(tmp_path / "mallory", f"submission_111/{LESSON}.ipynb")
    hand_in(tmp_path, f"ben/{LESSON}.ipynb", metadata="")
    (tmp_path / "submission_metadata.yml").unlink()
    assert [one.student for one in find_submissions(tmp_path, (LESSON,)).submissions] == ["ben", "mallory"]
    export = tmp_path / "export"
    hand_in(export / "submission_112", f"submission_111/{LESSON}.ipynb")
    hand_in(export, f"submission_111/{LESSON}.ipynb")
    assert [one.student for one in find_submissions(export, (LESSON,)).submissions] == [
        "Ada Lovelace", 'Éric "Z" Löw', "Shaun O'Brien"]  # fmt: skip


def test_people_are_found_on_the_roster_by_number_or_address(tmp_path: Path) -> None:
    hand_in(tmp_path, f"submission_111/{LESSON}.ipynb", f"submission_112/{LESSON}.ipynb")
    roster = parse_roster("Name,Student ID,Email\nCountess of Lovelace,1001,\nSean,,SO@x.edu\nEric Löw,,\n")
    found = find_submissions(tmp_path, (LESSON,), roster=roster)
    assert [one.student for one in found.submissions] == ["Countess of Lovelace", 'Éric "Z" Löw', "Sean"]
