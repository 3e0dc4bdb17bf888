from __future__ import annotations

import os
from pathlib import Path

import pytest

from graders.submissions.finding import Submission, find_submissions
from graders.submissions.lessons import Lessons
from tests import notebooks
from tests.submissions.packing import FIRST, LESSONS, SECOND, found, hand_in, why_none


def test_a_single_file_belongs_to_its_folder(tmp_path: Path) -> None:
    hand_in(tmp_path / "ann", FIRST, SECOND)
    file = tmp_path / "ann" / SECOND
    assert find_submissions(file, LESSONS).submissions == [Submission("ann", "02_second_things", file)]


@pytest.mark.parametrize(
    ("lesson", "names"),
    [
        ("01_first_things", ["01_first_things", "01_anything", "01-first", "01 first", "ann_01_first_things",
                             "01_first_things (2)", "01"]),
        (None, ["1_first", "homework", "03_third", "011_first"]),
    ],
)  # fmt: skip
def test_the_name_of_a_file_says_its_lesson(tmp_path: Path, lesson: str | None, names: list[str]) -> None:
    hand_in(tmp_path, *(f"{name}.ipynb" for name in names))
    said = {name: Lessons(LESSONS).lesson_of(tmp_path / f"{name}.ipynb", f"{name}.ipynb") for name in names}
    assert said == dict.fromkeys(names, lesson)


@pytest.mark.parametrize(
    ("name", "lesson", "belongs_to"),
    [("homework", LESSONS[1], LESSONS[1]), ("homework", "09_none", None), ("01_mine", LESSONS[1], LESSONS[0])],
)
def test_else_its_metadata_says_it(tmp_path: Path, name: str, lesson: str, belongs_to: str | None) -> None:
    file = tmp_path / f"{name}.ipynb"
    file.write_text(notebooks.text("x", metadata={"hookwork": {"lesson": lesson}}))
    assert Lessons(LESSONS).lesson_of(file, file.name) == belongs_to


def test_of_several_files_for_a_lesson_the_plain_name_counts_else_the_last(tmp_path: Path) -> None:
    hand_in(tmp_path, "ann/01_a.ipynb", f"ann/{FIRST}", "ann/01_z.ipynb")
    hand_in(tmp_path, "bob/01_a.ipynb", "bob/01_b.ipynb")
    assert found(tmp_path) == [("ann", "01_first_things", FIRST), ("bob", "01_first_things", "01_b.ipynb")]


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    name = FIRST
    hand_in(tmp_path, f"ann/{name}", f"ann/old/{name}", f"bob/work/v1/{name}", f"bob/work/v2/{name}", "cy/01_a.ipynb")
    seen = find_submissions(tmp_path, LESSONS)
    assert seen.choices == (
        f"ann, 01: 2 files; old/{name} counts (they are the same), not {name}",
        f"bob, 01: 2 files; v2/{name} counts (its folder has the later number), not v1/{name}",
    )
    fates = {Path(one.file).relative_to(tmp_path).as_posix(): one.fate for one in seen.accounts}
    assert fates[f"bob/work/v1/{name}"] == f"It does not count: v2/{name} does, its folder has the later number."


def test_what_cannot_be_read_is_a_submission_all_the_same(tmp_path: Path) -> None:
    hand_in(tmp_path, f"ann/{FIRST}")
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / FIRST).symlink_to(tmp_path / "ann" / FIRST)
    (tmp_path / "cy").mkdir()
    os.mkfifo(tmp_path / "cy" / FIRST)
    assert [one.student for one in find_submissions(tmp_path, LESSONS).submissions if one.file] == ["ann", "bob", "cy"]
    pipe = tmp_path / "cy" / FIRST
    assert find_submissions(pipe, LESSONS).submissions == [Submission("cy", "01_first_things", pipe)]


def test_the_class_may_be_given_as_a_link(tmp_path: Path) -> None:
    hand_in(tmp_path / "class", f"ann/{FIRST}")
    (tmp_path / "link").symlink_to(tmp_path / "class")
    assert found(tmp_path / "link") == [("ann", "01_first_things", FIRST)]


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    names = ["'; touch x; '", "-rf --help", "=1+1", "jos\udce9", "jos\udcea", "a\nb\x1b[2J\u202e"]
    for name in names:
        hand_in(tmp_path, f"{name}/01_first_things.ipynb")
    shown = ["'; touch x; '", "-rf --help", "=1+1", "a b\ufffd[2J\ufffd", "jos\ufffd", "jos\ufffd*"]
    assert [student for student, *_ in found(tmp_path)] == shown


def test_the_message_says_what_is_expected_where(tmp_path: Path) -> None:
    nowhere, empty, single = tmp_path / "nowhere", tmp_path / "empty", tmp_path / "one"
    empty.mkdir()
    hand_in(single, "homework.ipynb")
    known = "Name it after its lesson, for example 01_first_things.ipynb (lessons: 01_first_things, 02_second_things)."
    assert why_none(nowhere) == f"{nowhere} does not exist. Give a notebook, or a folder with notebooks."
    assert why_none(empty) == (
        f"{empty} holds no notebook of a known lesson. Expected: {empty}/<student>/01_first_things.ipynb"
    )
    assert why_none(single) == f"{single / 'homework.ipynb'} belongs to no known lesson. {known}"
    assert why_none(single / "homework.ipynb") == f"{single / 'homework.ipynb'} belongs to no known lesson. {known}"


def test_nobody_takes_the_name_of_another(tmp_path: Path) -> None:
    hand_in(tmp_path, *(f"{name}/01_first_things.ipynb" for name in (" zzz_good", "zzz_good", "zzz_good ", "ZZZ_good")))
    hand_in(tmp_path, f"␣ann/{FIRST}", f" ann/{FIRST}")  # shown alike
    by_name = {
        submission.student: submission.file and submission.file.parent.name
        for submission in find_submissions(tmp_path, LESSONS).submissions
    }
    assert by_name == {
        "zzz_good": "zzz_good", "ZZZ_good": "ZZZ_good", "␣zzz_good": " zzz_good", "zzz_good␣": "zzz_good ",
        "␣ann": "␣ann", "␣ann*": " ann",
    }  # fmt: skip


def test_a_folder_that_is_called_like_a_notebook_has_a_message(tmp_path: Path) -> None:
    hand_in(tmp_path, f"ann/{FIRST}")
    (tmp_path / f"bob/{FIRST}").mkdir(parents=True)
    _, bob = find_submissions(tmp_path, LESSONS).submissions
    assert (bob.student, bob.lesson, bob.file) == ("bob", "01_first_things", None)
    assert bob.problem == ("01_first_things.ipynb is a folder, not a file. Hand in the saved notebook (.ipynb) itself.")
    (alone,) = find_submissions(tmp_path / "bob", LESSONS).submissions
    assert alone.problem == bob.problem


def test_what_one_student_hands_in_makes_nobody_elses_missing(tmp_path: Path) -> None:
    hand_in(tmp_path, f"ann/{FIRST}", f"bob/{FIRST}", f"eve/{SECOND}")
    first, second = LESSONS
    assert [entry[:2] for entry in found(tmp_path)] == [
        ("ann", first), ("bob", first), ("eve", first), ("eve", second),
    ]  # fmt: skip
    said = find_submissions(tmp_path, LESSONS, due=[second]).submissions
    assert [(one.student, one.lesson, one.file is None) for one in said if one.student != "eve"] == [
        ("ann", first, False), ("ann", second, True), ("bob", first, False), ("bob", second, True),
    ]  # fmt: skip
