"""Hands in notebooks, and packs them, and other things, into archives."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from graders.submissions.finding import NoSubmissions, find_submissions
from tests import notebooks

LESSONS = ("01_first_things", "02_second_things")
FIRST, SECOND = "01_first_things.ipynb", "02_second_things.ipynb"
GOOD = notebooks.text("x = 1").encode()


def hand_in(folder: Path, *names: str) -> None:
    """Put notebooks of these names into a folder; a name may start with a student's folder."""
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(GOOD)


def zipped(
    file: Path, *members: str | tuple[str | zipfile.ZipInfo, bytes], packing: int = zipfile.ZIP_DEFLATED
) -> Path:
    """A zip file with these members: names of good notebooks or folders, or names with their content."""
    with zipfile.ZipFile(file, "w", packing) as archive:
        for member in members:
            name, content = (member, b"" if member.endswith("/") else GOOD) if isinstance(member, str) else member
            archive.writestr(name, content)
    return file


def tarred(file: Path, *members: str | tarfile.TarInfo) -> Path:
    """A tar.gz file with good notebooks of these names, and other members as they are given."""
    with tarfile.open(file, "w:gz") as archive:
        for member in members:
            if isinstance(member, str):
                info = tarfile.TarInfo(member)
                info.size = len(GOOD)
                archive.addfile(info, io.BytesIO(GOOD))
            else:
                archive.addfile(member)
    return file


def patched(file: Path, *changes: tuple[bytes, bytes]) -> Path:
    """The same file with some bytes replaced by as many others, wherever they occur."""
    raw = file.read_bytes()
    for old, new in changes:
        assert old in raw
        assert len(old) == len(new)
        raw = raw.replace(old, new)
    file.write_bytes(raw)
    return file


def found(where: Path, scratch: Path | None = None) -> list[tuple[str, str, str]]:
    """Student, lesson, and name of the file, or what is said instead of it."""
    return [
        (
            submission.student,
            submission.lesson,
            (submission.origin or str(submission.file)).rpartition("/")[2]
            if submission.file
            else submission.problem or "missing",
        )
        for submission in find_submissions(where, LESSONS, scratch).submissions
    ]


def why_none(where: Path, scratch: Path | None = None) -> str:
    """The message when there is nothing to mark."""
    with pytest.raises(NoSubmissions) as caught:
        find_submissions(where, LESSONS, scratch)
    return str(caught.value)
