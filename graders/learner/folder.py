"""Find the learner's folder and the notebooks in it, and copy the lessons into it."""

from __future__ import annotations

from pathlib import Path

from graders.core import course
from graders.core.errors import HookworkError
from graders.core.files import write_atomically
from graders.core.rules import RULES_FILE_NAME
from graders.core.ways import keys_on
from graders.learner.notebook.record import Record
from graders.submissions.attempts import natural_sort_key
from graders.submissions.intake import Unreadable, read_notebook
from graders.submissions.lessons import Lessons

FOLDER_NAME = "hookwork"
"""The folder that `hookwork start` makes if none is named."""


class LearnerError(HookworkError):
    """Something that a learner can fix; the message says what is wrong, where, and how to fix it."""


def find_folder(given: Path | None = None) -> Path:
    """The given folder; without one, this folder, or `hookwork` in it if only that contains lessons."""
    if given is not None:
        return given
    here, below = Path(), Path(FOLDER_NAME)
    return below if not lesson_notebooks(here) and lesson_notebooks(below) else here


def lesson_notebooks(folder: Path) -> dict[str, Path]:
    """The learner's notebooks directly in a folder, by lesson. Raises `LearnerError` if it cannot be read."""
    if not folder.is_dir() or not any(folder.glob("*.ipynb")):
        return {}
    try:
        lessons = Lessons(course.lesson_stems())
        # Of several notebooks for a lesson, take the one with the plain name, or else the last, such as a newer copy.
        files = sorted(
            folder.glob("*.ipynb"), key=lambda file: (file.stem in lessons.stems, natural_sort_key(file.name))
        )
        return {lesson: file for file in files if (lesson := lessons.lesson_of(file, file.name))}
    except OSError as error:
        raise LearnerError(f"{folder} cannot be read: {_failure_reason(error)}. Choose another folder.") from None


def notebook_of(folder: Path, lesson: str) -> Path:
    """The learner's notebook for a lesson. Raises `LearnerError` if there is none."""
    found = lesson_notebooks(folder).get(lesson)
    if found is None:
        where = "This folder" if folder == Path() else folder
        raise LearnerError(
            f"{where} contains no notebook of lesson {int(lesson[:2])} ({lesson}.ipynb). Go to the "
            "folder with your lessons, name it with --folder, or get the lessons with: hookwork start"
        )
    return found


def copy_lessons(folder: Path) -> list[Path]:
    """Copy the lessons that are not in the folder yet, and the page of rules that they link to; return the new lessons.

    A file that is already there is never touched. Raises `LearnerError` if a file cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise LearnerError(f"{folder} is a file. Name a folder for the lessons: hookwork start FOLDER")
    there = lesson_notebooks(folder)
    wanted = [shipped_notebook(lesson) for lesson in course.lesson_stems() if lesson not in there]
    new = []
    for file in (*wanted, course.lessons_folder() / RULES_FILE_NAME):
        target = folder / file.name
        if target.exists() or target.is_symlink():
            continue
        try:
            write_atomically(target, file.read_bytes())
        except OSError as error:
            raise LearnerError(
                f"{target} cannot be written: {_failure_reason(error)}. Choose another folder."
            ) from None
        new.append(target)
    return [file for file in new if file.name != RULES_FILE_NAME]


def shipped_notebook(lesson: str) -> Path:
    """The notebook of a lesson that comes with the course."""
    return course.lessons_folder() / f"{lesson}.ipynb"


def next_lesson(record: Record) -> str | None:
    """The first lesson with an exercise on the learner's way that has not passed; None if all have."""
    left = {key for key in keys_on(record.way) if not record.passed(key)}
    return next((lesson for lesson in course.lesson_stems() if left & set(course.exercise_keys(lesson))), None)


def begun_notebooks(folder: Path) -> dict[str, Path]:
    """The notebooks that the learner has worked on, by lesson: their code differs from that of the course."""
    return {
        lesson: file
        for lesson, file in lesson_notebooks(folder).items()
        if _code_changed(file, shipped_notebook(lesson))
    }


def _code_changed(file: Path, original: Path) -> bool:
    try:
        return read_notebook(file).cells != read_notebook(original).cells
    except Unreadable:  # marking it will say why
        return True


def _failure_reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
