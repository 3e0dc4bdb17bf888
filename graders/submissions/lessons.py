"""Tells which lesson a file belongs to and whether somebody worked in it, from its name and text. Nothing is run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graders.core import course
from graders.core.source import exercise_cells
from graders.core.text import shorten_text
from graders.core.untouched import is_untouched_cell
from graders.submissions.intake import Notebook, Unreadable, read_notebook

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
    """What a file tells: the lesson in its metadata, how much in it belongs to each lesson, and its SHA-256."""

    named: str | None
    votes: Counter[str]
    sha256: str

    @property
    def lesson(self) -> str | None:
        """The lesson in the metadata, unless all functions and checks are those of others: then that of most."""
        (most, count), (_, second), *_ = [*self.votes.most_common(2), ("", 0), ("", 0)]
        by_text = most if count > second else None
        return self.named if self.named and (self.votes[self.named] or by_text is None) else by_text


class Lessons:
    """The lessons that can be marked, by their stems. Each file is read once."""

    def __init__(self, stems: Sequence[str]) -> None:
        self.stems = tuple(stems)
        self._functions = {lesson: function_names(lesson) for lesson in self.stems}
        self._facts: dict[Path, _NotebookFacts] = {}

    def lesson_of(self, file: Path | None, name: str) -> str | None:
        """The lesson that a file is meant for: by the stem or `NN_` prefix in `name`, or else by its content.

        `file` is None if it is no notebook.
        """
        if lesson := self.lesson_in_name(name):
            return lesson
        facts = self._read_facts(file)
        return facts.lesson if facts else None

    def lesson_in_content(self, file: Path | None, name: str) -> tuple[str | None, str]:
        """The lesson of a file by its name and its content, and if they differ, a sentence that says so.

        The content decides when it has functions or checks of another lesson, and none of the lesson in the name.
        """
        named, facts = self.lesson_in_name(name), self._read_facts(file)
        inside = facts.lesson if facts else None
        if facts is None or inside is None or named in (None, inside):
            return named or inside, ""
        if facts.votes[named] and facts.named is None:  # functions of earlier lessons may stand beside its own
            return named, ""
        counts = inside if facts.votes[inside] and not facts.votes[named] else named
        return counts, (
            f"{shorten_text(name, 80)} has the name of lesson {named[:2]} and the content of lesson {inside[:2]}. "
            f"It counts for lesson {counts[:2]}. Check which one is meant, and rename the file."
        )

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

    def why_unknown(self, file: str) -> str:
        """Tells that a file is of none of these lessons, and how to name it."""
        return (
            f"{file} belongs to no known lesson. Name it after its lesson, for example {self.stems[0]}.ipynb "
            f"(lessons: {', '.join(self.stems)})."
        )

    def is_untouched(self, file: Path, lesson: str) -> bool:
        """Whether nobody worked in a notebook: every cell for an exercise is a stub. True for an unreadable file."""
        try:
            cells = read_notebook(file).cells
        except Unreadable:
            return True
        asked = self._functions.get(lesson, frozenset())
        return all(is_untouched_cell(cell) for cell in cells if asked & set(_DEFINED.findall(cell)))

    def notebook_digest(self, file: Path) -> str:
        """The SHA-256 of a notebook in hexadecimal; empty if it cannot be read."""
        facts = self._read_facts(file)
        return facts.sha256 if facts else ""

    def _read_facts(self, file: Path | None) -> _NotebookFacts | None:
        if file is None:
            return None
        if file not in self._facts:
            try:
                found = read_notebook(file)
            except Unreadable:
                return None
            named = found.lesson if found.lesson in self.stems else None
            self._facts[file] = _NotebookFacts(named, self._count_votes(found), found.sha256)
        return self._facts[file]

    def _count_votes(self, notebook: Notebook) -> Counter[str]:
        """For each lesson, how many of its functions and checks are in the cells."""
        votes: Counter[str] = Counter()
        for cell in notebook.cells:
            numbers, names = set(_CHECKED.findall(cell)), set(_DEFINED.findall(cell))
            for lesson in self.stems:
                votes[lesson] += len(names & self._functions[lesson]) + (lesson[:2] in numbers)
        return votes
