"""Finds the files of an exercise by its key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from graders.core import course

TODO = "TODO:"
"""The mark that `hookwork new` writes where the author has work to do; the rest of the line says what."""


@dataclass(frozen=True)
class ExerciseFiles:
    """The files of an exercise in a clone. All exercises of a lesson share `source`."""

    grader: Path
    answers: Path
    source: Path
    scene: Path
    """The file of stories written for this exercise alone; most exercises use some that they share."""


def exercise_files(key: str, lesson: str, root: Path = course.PACKAGE.parent) -> ExerciseFiles:
    """The paths of the files of an exercise, whether they exist or not. `lesson` is a stem such as "03_changing"."""
    words = course.key_file_stem(key)
    return ExerciseFiles(
        grader=root / "graders" / "exercises" / f"lesson_{lesson}" / f"test_{words}.py",
        answers=root / "tests" / "answers" / f"lesson_{lesson}" / f"{words}.py",
        source=root / "solutions" / f"{lesson}.py",
        scene=root / "graders" / "scenes" / "stories" / f"{words}.py",
    )


def is_meant(lesson: str, name: str) -> bool:
    """Whether this is the lesson's number ("3" or "03"), or the beginning of its stem."""
    return int(name) == int(lesson[:2]) if name.isdecimal() else lesson.startswith(name)


def find_todos(lesson: str, root: Path = course.PACKAGE.parent) -> Iterator[str]:
    """What an author still has to write for a lesson: sentences with the file, the line and what belongs there."""
    folders = (root / "graders" / "exercises" / f"lesson_{lesson}", root / "tests" / "answers" / f"lesson_{lesson}")
    graders = sorted(folders[0].glob("test_*.py"))
    for file in (
        root / "solutions" / f"{lesson}.py",
        *(file for folder in folders for file in sorted(folder.glob("*.py"))),
        *(root / "graders" / "scenes" / "stories" / file.name.removeprefix("test_") for file in graders),
    ):
        lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
        for number, line in enumerate(lines, 1):
            if TODO in line:
                what = line.partition(TODO)[2].strip(" \"',")
                yield f"{file.relative_to(root)}, line {number}: still to be written: {what}"
