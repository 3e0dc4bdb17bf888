"""Archives of classes and of students: what is found in good ones, and that bad ones write nothing anywhere."""

from __future__ import annotations

import sys
import zipfile
from datetime import datetime
from pathlib import Path

import pytest

from graders.sandbox.outside.leftovers import temporary_folder
from graders.submissions.archives import MAX_WANTED
from graders.submissions.finding import Submission, find_submissions
from tests.submissions.packing import FIRST, GOOD, LESSONS, SECOND, found, hand_in, patched, tarred, why_none, zipped
from tests.trouble import as_ordinary_user, nothing_can_be_written


def test_archives_are_known_by_their_suffixes_in_any_case(tmp_path: Path, scratch: Path) -> None:
    names = [f"./class/ann/{FIRST}", f"./class/ann/{SECOND}", f"./class/bob/{FIRST}"]
    expected = [("ann", LESSONS[0], FIRST), ("ann", LESSONS[1], SECOND), ("bob", LESSONS[0], FIRST)]
    assert found(zipped(tmp_path / "b.ZIP", *names), scratch) == expected
    with temporary_folder("unpacked") as other:
        assert found(tarred(tmp_path / "c.tar.gz", *names), other) == expected


def test_reports_name_the_archive_and_not_where_it_was_unpacked(tmp_path: Path, scratch: Path) -> None:
    archive = zipped(tmp_path / "a.zip", f"class/ann/{FIRST}", f"class/bob/{FIRST}")
    first, _ = find_submissions(archive, LESSONS, scratch).submissions
    assert first.origin == f"{archive}/class/ann/{FIRST}" or first.origin == f"{archive}/ann/{FIRST}"
    assert first.file is not None
    assert first.file.is_relative_to(scratch)
    assert first.file.read_bytes() == GOOD


def test_one_students_archive_is_one_students_work(tmp_path: Path, scratch: Path) -> None:
    archive = zipped(tmp_path / "ann.zip", FIRST, SECOND, "data.csv", ".ipynb_checkpoints/01_first_things.ipynb")
    assert found(archive, scratch) == [("ann", LESSONS[0], FIRST), ("ann", LESSONS[1], SECOND)]
    assert sorted(path.name for path in scratch.rglob("*") if path.is_file()) == ["0.ipynb", "1.ipynb"]


def test_times_in_the_archive_of_a_class_count_and_those_in_a_students_own_do_not(
    tmp_path: Path, scratch: Path
) -> None:
    early, late = (datetime(2026, 1, day, 12).timestamp() for day in (1, 5))
    inner = zipped(tmp_path / "inner.zip", (zipfile.ZipInfo(FIRST, (2020, 1, 1, 0, 0, 0)), GOOD)).read_bytes()
    archive = zipped(
        tmp_path / "class.zip",
        (zipfile.ZipInfo(f"ann/{FIRST}", (2026, 1, 1, 12, 0, 0)), GOOD),
        (zipfile.ZipInfo("bob/work.zip", (2026, 1, 5, 12, 0, 0)), inner),
        (zipfile.ZipInfo(f"cy/{FIRST}", (1980, 0, 0, 0, 0, 0)), GOOD),
    )
    found = {
        submission.student: submission
        for submission in find_submissions(archive, LESSONS, scratch, lambda owner: early + 60).submissions
    }
    assert (found["ann"].handed_in, found["ann"].late) == (early, 0)
    assert (found["bob"].handed_in, found["bob"].late) == (late, late - early - 60)
    assert found["cy"].handed_in > late  # unknown: when it was unpacked


def test_a_student_may_hand_in_an_archive(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "class/ann").mkdir(parents=True)
    (tmp_path / "class/bob").mkdir()
    zipped(tmp_path / "class/ann/work.zip", f"work/{FIRST}", f"work/more/{SECOND}", f"__MACOSX/work/._{FIRST}")
    tarred(tmp_path / "class/bob/work.tgz", FIRST)
    assert found(tmp_path / "class", scratch) == [
        ("ann", LESSONS[0], FIRST),
        ("ann", LESSONS[1], SECOND),
        ("bob", LESSONS[0], FIRST),
    ]
    first, *_ = find_submissions(tmp_path / "class", LESSONS, scratch / "..").submissions
    assert first.origin == f"{tmp_path}/class/ann/work.zip/work/{FIRST}"


def test_an_archive_in_the_archive_of_a_class_is_opened_but_none_further_in(tmp_path: Path, scratch: Path) -> None:
    inner = zipped(tmp_path / "inner.zip", FIRST).read_bytes()
    middle = zipped(tmp_path / "middle.zip", ("inner.zip", inner)).read_bytes()
    archive = zipped(tmp_path / "outer.zip", ("ann/a.zip", inner), ("bob/b.zip", middle))
    assert found(archive, scratch) == [
        ("ann", LESSONS[0], FIRST),
        ("bob", LESSONS[0], "inner.zip is an archive, and was not opened. Hand in the notebooks themselves."),
    ]


def test_names_of_other_alphabets_come_through(tmp_path: Path, scratch: Path) -> None:
    assert found(zipped(tmp_path / "a.zip", f"Зоя Müller/{FIRST}", f"李/{FIRST}"), scratch) == [
        ("Зоя Müller", LESSONS[0], FIRST),
        ("李", LESSONS[0], FIRST),
    ]
    unflagged = patched(zipped(tmp_path / "b.zip", f"M__ller/{FIRST}", f"a/{FIRST}"), (b"M__ller", "Müller".encode()))
    with temporary_folder("unpacked") as other:  # as programs on macOS write it
        assert [student for student, *_ in found(unflagged, other)] == ["a", "Müller"]


def test_a_class_may_have_more_members_than_a_student(tmp_path: Path, scratch: Path) -> None:
    names = [f"s{number:03}/{FIRST}" for number in range(MAX_WANTED + 50)]
    assert len(found(zipped(tmp_path / "class.zip", *names), scratch)) == MAX_WANTED + 50


def test_without_a_private_folder_archives_stay_closed(tmp_path: Path) -> None:
    hand_in(tmp_path, f"ann/{FIRST}")
    zipped(tmp_path / "ann/02_second_things.zip", SECOND)
    first, second = find_submissions(tmp_path, LESSONS).submissions
    assert first == Submission("ann", LESSONS[0], tmp_path / "ann" / FIRST)
    assert second.problem == (
        "02_second_things.zip is an archive, and was not opened. Hand in the notebooks themselves."
    )


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no modes there")
def test_a_folder_that_cannot_be_read_costs_its_owner_alone(tmp_path: Path) -> None:
    hand_in(tmp_path / "class", f"ann/{FIRST}", f"bob/{FIRST}")
    (tmp_path / "class/bob").chmod(0)
    program = f"""
import json
from pathlib import Path
from graders.submissions.finding import find_submissions
found = find_submissions(Path({str(tmp_path / "class")!r}), {LESSONS!r})
print(json.dumps([[one.student, one.lesson, one.problem or one.file.name] for one in found.submissions]))
"""
    assert as_ordinary_user(program) == [
        ["ann", LESSONS[0], FIRST],
        ["bob", LESSONS[0], "The folder cannot be read: Permission denied."],
    ]
    (tmp_path / "class/bob").chmod(0o700)


def test_a_full_disk_is_said_and_is_nobodys_fault(tmp_path: Path, scratch: Path) -> None:
    archive = zipped(tmp_path / "a.zip", f"ann/{FIRST}", f"bob/{FIRST}")
    with nothing_can_be_written():
        why = why_none(archive, scratch)
    assert why == f"{archive} could not be read or unpacked: File too large."
