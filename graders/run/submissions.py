"""Which notebooks there are: students, lessons, files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graders.run.intake import Unreadable, read_notebook

OWN = "me"
"""The student's name when a single notebook, or one folder of notebooks, is marked."""


class NoSubmissions(Exception):
    """There is nothing to mark; the message says where it was looked for and what is expected there."""


@dataclass(frozen=True)
class Submission:
    """One student's notebook for one lesson. `file` is None when it is missing."""

    student: str
    lesson: str
    file: Path | None


def find_submissions(where: Path, lessons: Sequence[str]) -> list[Submission]:
    """The submissions in a class folder, a student's folder, or a single notebook.

    `lessons` are the stems of the lessons that can be marked. A student in a class who has no notebook for
    a lesson that somebody else handed in gets a submission without a file. Raises `NoSubmissions`.
    """
    if not where.exists():
        raise NoSubmissions(f"{where} does not exist. Give a notebook, or a folder with notebooks.")
    if not where.is_dir():
        lesson = lesson_of(where, lessons)
        if lesson is None:
            raise NoSubmissions(_unknown_lesson(where, lessons))
        return [Submission(where.absolute().parent.name or OWN, lesson, where)]
    if direct := _notebooks(where):
        found = _of_student(where.absolute().name, direct, lessons)
        if not found:
            raise NoSubmissions(_unknown_lesson(direct[0], lessons))
        return found
    found = []
    folders = sorted(path for path in where.iterdir() if path.is_dir() and not path.name.startswith((".", "_")))
    for folder in folders:
        found += _of_student(folder.name, _notebooks(folder), lessons)
    if not found:
        raise NoSubmissions(
            f"{where} holds no notebook of a known lesson. Expected: {where}/<student>/{lessons[0]}.ipynb"
        )
    handed_in = sorted({submission.lesson for submission in found})
    there = {(submission.student, submission.lesson) for submission in found}
    found += [
        Submission(folder.name, lesson, None)
        for folder in folders
        for lesson in handed_in
        if (folder.name, lesson) not in there
    ]
    return sorted(found, key=lambda submission: (submission.student, submission.lesson))


def _notebooks(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix == ".ipynb" and not path.is_dir())


def _of_student(student: str, files: Sequence[Path], lessons: Sequence[str]) -> list[Submission]:
    """One submission for each lesson; of several files for one lesson, the one with the plain name, else the last."""
    by_lesson: dict[str, Path] = {}
    for file in sorted(files, key=lambda file: (file.stem in lessons, file.name)):
        lesson = lesson_of(file, lessons)
        if lesson is not None:
            by_lesson[lesson] = file
    return [Submission(student, lesson, file) for lesson, file in sorted(by_lesson.items())]


def lesson_of(file: Path, lessons: Sequence[str]) -> str | None:
    """The lesson a file belongs to: by the stem or the `NN_` prefix in its name, else by its metadata."""
    for lesson in lessons:
        if lesson in file.stem:
            return lesson
    if match := re.match(r"(\d\d)[_\-. ]", file.name):
        for lesson in lessons:
            if lesson.startswith(match[1] + "_"):
                return lesson
    try:
        named = read_notebook(file).lesson
    except Unreadable:
        return None
    return named if named in lessons else None


def _unknown_lesson(file: Path, lessons: Sequence[str]) -> str:
    return (
        f"{file} belongs to no known lesson. Name it after its lesson, for example {lessons[0]}.ipynb "
        f"(lessons: {', '.join(lessons)})."
    )
