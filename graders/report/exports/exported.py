"""What an export gets and what it returns, and a few functions that several formats share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from graders.core.results import Batch, SubmissionResult, SubmissionStatus
from graders.core.text import format_points, shorten_text
from graders.report.titles import Titles
from graders.submissions.roster import Roster


@dataclass(frozen=True)
class ExportRequest:
    """A batch to export.

    With `scale`, points are converted to the roster's maximum for an assignment. `lessons` are those that were marked
    just now, since the batch may include others from earlier commands; None means all. A comment that a teacher has
    written on the platform always stays; with `below`, ours stands below it.
    """

    batch: Batch
    titles: Titles
    roster: Roster | None = None
    scale: bool = False
    lessons: Collection[str] | None = None
    below: bool = True

    @property
    def all_lessons(self) -> list[str]:
        """The lessons in the batch, sorted."""
        return sorted({submission.lesson for submission in self.batch.submissions})

    def scale_factor(self, lesson: str, most: float | None) -> float:
        """The factor for a lesson's points if the roster's maximum is `most` (None if it says nothing)."""
        own = self.lesson_max_score(lesson)
        return most / own if self.scale and most and own else 1.0

    def lesson_max_score(self, lesson: str) -> float:
        """The maximum points of a lesson."""
        return max(submission.max_score for submission in self.batch.submissions if submission.lesson == lesson)

    def points_note(self, path: str, lesson: str, most: float | None) -> str:
        """A note on a lesson's points in the file `path`, if they differ from the roster's maximum `most`; or empty."""
        own = self.lesson_max_score(lesson)
        if self.scale:
            return "" if most else f"{path}: the roster has no points for {lesson}, so --scale converts nothing."
        if not most or abs(most - own) < 0.005:
            return ""
        return (
            f"{path}: {lesson} has {format_points(most)} points on the roster, and at most {format_points(own)} are "
            "entered. --scale converts them."
        )


@dataclass
class ExportResult:
    """What an export made: contents and reasons for refusing, both by path, and notes for a person."""

    files: dict[str, str | bytes] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def format_score(submission: SubmissionResult | None, factor: float = 1.0) -> str:
    """A submission's points times `factor`; empty if nothing was handed in or part of it could not be graded.

    Points that a teacher has given count in any case.
    """
    if submission is None or not submission.graded:
        return ""
    if submission.status is SubmissionStatus.MISSING and not submission.decided:
        return ""
    return format_points(submission.score * factor)


def describe_duplicates(rows: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """Which students a platform would take for the same person, in words; empty if there are none.

    A row is a student's name, and a mapping from a column's title to the text by which the platform finds people.
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
