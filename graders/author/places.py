"""Where the parts of an exercise are: its key leads to each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from graders.core import course

TODO = "TODO:"
"""What `hookwork new` writes where an author has to write something; the rest of the line says what."""


@dataclass(frozen=True)
class ExerciseFiles:
    """The files of an exercise in a clone. Others of the same lesson share the source."""

    grader: Path
    answers: Path
    source: Path
    scene: Path
    """Where it has one of its own, and not one of a family."""


def exercise_files(key: str, lesson: str, root: Path = course.PACKAGE.parent) -> ExerciseFiles:
    """The files of the exercise of this key, in the lesson of this stem."""
    words = course.key_file_stem(key)
    return ExerciseFiles(
        grader=root / "graders" / f"lesson_{lesson}" / f"test_{words}.py",
        answers=root / "tests" / "answers" / f"lesson_{lesson}" / f"{words}.py",
        source=root / "solutions" / f"{lesson}.py",
        scene=root / "graders" / "scenes" / f"{words}.py",
    )


def find_todos(lesson: str, root: Path = course.PACKAGE.parent) -> Iterator[str]:
    """What an author still has to write for a lesson: file, line and what belongs there."""
    folders = (root / "graders" / f"lesson_{lesson}", root / "tests" / "answers" / f"lesson_{lesson}")
    graders = sorted(folders[0].glob("test_*.py"))
    for file in (
        root / "solutions" / f"{lesson}.py",
        *(file for folder in folders for file in sorted(folder.glob("*.py"))),
        *(root / "graders" / "scenes" / file.name.removeprefix("test_") for file in graders),
    ):
        lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
        for number, line in enumerate(lines, 1):
            if TODO in line:
                what = line.partition(TODO)[2].strip(" \"',")
                yield f"{file.relative_to(root)}, line {number}: still to be written: {what}"
