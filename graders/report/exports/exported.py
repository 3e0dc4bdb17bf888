"""What an export is made of, and what comes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from graders.core.results import Batch, SubmissionResult, SubmissionStatus
from graders.core.roster import Roster
from graders.core.text import format_points, shorten_text
from graders.report.titles import Titles


@dataclass(frozen=True)
class ExportRequest:
    """A batch to be exported.

    With `scale` points are converted to those that the roster has for an assignment. `lessons` are those that were
    marked just now; the batch may hold others, of earlier commands. None means all.
    """

    batch: Batch
    titles: Titles
    roster: Roster | None = None
    scale: bool = False
    lessons: Collection[str] | None = None

    @property
    def all_lessons(self) -> list[str]:
        """The lessons in the batch."""
        return sorted({submission.lesson for submission in self.batch.submissions})

    def scale_factor(self, lesson: str, most: float | None) -> float:
        """By what points are multiplied where the roster has `most` points for a lesson, or says nothing (None)."""
        own = self.lesson_max_score(lesson)
        return most / own if self.scale and most and own else 1.0

    def lesson_max_score(self, lesson: str) -> float:
        """The points that there are in a lesson."""
        return max(submission.max_score for submission in self.batch.submissions if submission.lesson == lesson)

    def points_note(self, path: str, lesson: str, most: float | None) -> str:
        """What a person should know of the points of a lesson in a file, where the roster has `most`; often nothing."""
        own = self.lesson_max_score(lesson)
        if self.scale:
            return "" if most else f"{path}: the roster has no points for {lesson}, so --scale converts nothing."
        if not most or abs(most - own) < 0.005:
            return ""
        return (
            f"{path}: {lesson} has {format_points(most)} points on the roster, and at most {format_points(own)} are entered. "
            "--scale converts them."
        )


@dataclass
class ExportResult:
    """The files of an export by their paths; why one is not there, by its path; and what a person should know."""

    files: dict[str, str | bytes] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def format_score(submission: SubmissionResult | None, factor: float = 1.0) -> str:
    """Points, multiplied; empty where nothing was handed in or something could not be graded."""
    if submission is None or submission.status is SubmissionStatus.MISSING or not submission.graded:
        return ""
    return format_points(submission.score * factor)


def describe_duplicates(rows: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """Why a table would put two marks on one person; empty where it does not.

    A row is the name of a student, and by the titles of columns what a platform finds people by.
    """
    seen: dict[tuple[str, str], list[str]] = {}
    for student, identities in rows:
        for column, identity in identities.items():
            key = " ".join(identity.casefold().split())
            if key:
                seen.setdefault((column, key), []).append(student)
    found = [
        f"{column} {shorten_text(identity, 60)} stands for "
        + " and for ".join(shorten_text(student, 60) for student in students)
        for (column, identity), students in seen.items()
        if len(students) > 1
    ]
    return "; ".join(found[:5])
