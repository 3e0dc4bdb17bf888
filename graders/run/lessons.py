"""Tells which lesson a file belongs to and whether somebody worked in it, from its name and text. Nothing is run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graders.core import course
from graders.core.source import STUB, exercise_cells
from graders.run.intake import Notebook, Unreadable, read_notebook

_DEFINED = re.compile(r"^(?:def|class)[ \t]+(\w+)", re.M)
_CHECKED = re.compile(r"\b(?:check|hint|solution)\(\s*[\"'](\d\d)-")


def function_names(lesson: str) -> frozenset[str]:
    """The functions and classes that the exercises of a lesson ask for; empty if there is no such lesson."""
    if lesson not in course.lesson_stems():
        return frozenset()
    cells = exercise_cells(course.lesson_source(lesson))
    return frozenset(
        name
        for key, cell in cells.items()
        for name in _DEFINED.findall(cell)
        if name.replace("_", "").casefold()
        == course.key_file_stem(key).replace("_", "")  # GuardedNet answers guarded-net
    )


@dataclass(frozen=True)
class _NotebookFacts:
    """What a file tells: the lesson in its metadata, the lesson by its functions and checks, and its SHA-256."""

    named: str | None
    defined: str | None
    sha256: str


class Lessons:
    """The lessons that can be marked, by their stems. A file is read only if its name does not tell its lesson."""

    def __init__(self, stems: Sequence[str]) -> None:
        self.stems = tuple(stems)
        self._functions = {lesson: function_names(lesson) for lesson in self.stems}
        self._facts: dict[Path, _NotebookFacts] = {}

    def lesson_of(self, file: Path | None, name: str) -> str | None:
        """The lesson of a file: by the stem or `NN_` prefix in `name`, by its metadata, or by its text; else None.

        `file` is None if it is no notebook.
        """
        if lesson := self.lesson_in_name(name):
            return lesson
        facts = self._read_facts(file) if file is not None else None
        return (facts.named or facts.defined) if facts else None

    def lesson_in_name(self, name: str) -> str | None:
        """The lesson that the name of a file tells; None if it tells none."""
        for lesson in self.stems:
            if lesson in name:
                return lesson
        if match := re.match(r"(\d\d)[_\-. ]", name):
            for lesson in self.stems:
                if lesson.startswith(match[1] + "_"):
                    return lesson
        return None

    def is_untouched(self, file: Path, lesson: str) -> bool:
        """Whether nobody worked in a notebook: no cell for an exercise lost its stub. True for an unreadable file."""
        try:
            cells = read_notebook(file).cells
        except Unreadable:
            return True
        asked = self._functions.get(lesson, frozenset())
        return all(STUB in cell for cell in cells if asked & set(_DEFINED.findall(cell)))

    def notebook_digest(self, file: Path) -> str:
        """The SHA-256 of a notebook in hexadecimal; empty if it cannot be read."""
        facts = self._read_facts(file)
        return facts.sha256 if facts else ""

    def _read_facts(self, file: Path) -> _NotebookFacts | None:
        if file not in self._facts:
            try:
                found = read_notebook(file)
            except Unreadable:
                return None
            named = found.lesson if found.lesson in self.stems else None
            self._facts[file] = _NotebookFacts(named, None if named else self._lesson_by_text(found), found.sha256)
        return self._facts[file]

    def _lesson_by_text(self, notebook: Notebook) -> str | None:
        """The lesson to which most of the functions and checks in the cells belong; None if there is a tie."""
        votes: Counter[str] = Counter()
        for cell in notebook.cells:
            numbers, names = set(_CHECKED.findall(cell)), set(_DEFINED.findall(cell))
            for lesson in self.stems:
                votes[lesson] += len(names & self._functions[lesson]) + (lesson[:2] in numbers)
        (best, count), (_, second), *_ = [*votes.most_common(2), ("", 0), ("", 0)]
        return best if count > second else None
