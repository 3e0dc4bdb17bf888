"""Marks and comments by hand: `hand-marks.csv` in `--out`, which the instructor writes and no marking changes.

Results are computed first, and hand marks are put on top each time before anything is written. A result that is read
again loses them first (`without_hand_marks`), so the file alone decides, and a row that is taken out no longer counts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from graders.core import course
from graders.core.errors import HookworkError
from graders.core.files import open_regular_file, read_own_file, write_atomically
from graders.core.results import Batch, ExerciseResult, HandMark, SubmissionResult
from graders.core.text import format_count, format_points, shorten_text
from graders.instructor.naming import did_you_mean
from graders.instructor.request import BadRequest
from graders.report import results_json
from graders.report.gradebook import csv_text, safe_cell_text
from graders.submissions.hand_rows import HEADER, HandRow, HandRows, parse_hand_rows
from graders.submissions.roster import Person, Roster
from graders.submissions.tables import BadTable

HAND_MARKS = "hand-marks.csv"
Result = TypeVar("Result", ExerciseResult, SubmissionResult)


@dataclass
class HandMarked:
    """Results with hand marks, what to tell the instructor, and what somebody should check."""

    batch: Batch
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def read_hand_marks(out: Path) -> HandRows:
    """The rows of `hand-marks.csv` in `out`; none if there is no such file.

    Raises `BadRequest` if it cannot be read, or if it is gone while results still have marks from it.
    """
    file = out / HAND_MARKS
    if not os.path.lexists(file):
        _refuse_lost_file(out)
        return HandRows()
    try:
        with open_regular_file(file) as opened:
            return parse_hand_rows(opened.read())
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}. Put an ordinary file there.") from error
    except BadTable as error:
        raise BadRequest(
            f"{file} cannot be used: {shorten_text(error, 300)}. Mend it first, or the marks in it would be lost."
        ) from error


def _refuse_lost_file(out: Path) -> None:
    try:
        before = results_json.parse(read_own_file(out / "results.json"))
    except (OSError, ValueError):
        return
    if any(submission.by_hand for submission in before.submissions):
        raise BadRequest(
            f"{out / HAND_MARKS} is gone, and the results have marks from it. Put it back; or, if they should not "
            f"count any more, make it a file with one line: {','.join(HEADER)}"
        )


def write_template(batch: Batch, out: Path) -> list[Path]:
    """Write `hand-marks.csv` with a row for each student to fill in, and return its path, unless it is there already.

    Raises `OSError`.
    """
    if os.path.lexists(out / HAND_MARKS):
        return []
    names = sorted({submission.student for submission in batch.submissions})
    rows = [HEADER, *([safe_cell_text(name), *[""] * (len(HEADER) - 1)] for name in names)]
    write_atomically(out / HAND_MARKS, csv_text(rows), below=out)
    return [out / HAND_MARKS]


def without_hand_marks(batch: Batch) -> Batch:
    """The results as they were computed."""
    return replace(batch, submissions=tuple(map(_computed, batch.submissions)))


def _computed(submission: SubmissionResult) -> SubmissionResult:
    exercises = tuple(
        replace(one, score=one.by_hand.computed, by_hand=None) if one.by_hand else one for one in submission.exercises
    )
    return replace(submission, score=submission.computed_score, exercises=exercises, by_hand=None)


def with_hand_marks(batch: Batch, written: HandRows, forgotten: Collection[str] = ()) -> HandMarked:
    """Computed results with hand marks. A row that fits nobody, or nothing, is a doubt, and all others count.

    `forgotten` are the students who were taken out just now.
    """
    done = HandMarked(batch, doubts=list(written.doubts))
    words: dict[tuple[str, str, str], HandRow] = {}  # by student or group, lesson and key
    counted, everyone = 0, _Everyone(batch.submissions if written.rows else (), forgotten)
    for row in written.rows:
        try:
            target = everyone.find_target(row)
        except HookworkError as error:
            done.doubts.append(f"{row}: {error}")
            continue
        counted += 1
        words[target] = _joined(words.get(target), row, done.doubts)
    by_submission: dict[tuple[str, str], dict[str, HandRow]] = {}
    # What a group gets comes first, so that a member's own row counts more.
    for (name, lesson, key), row in sorted(words.items(), key=lambda item: not everyone.is_group(item[0][0])):
        for student in everyone.members(name, lesson):
            own = by_submission.setdefault((student, lesson), {})
            own[key] = _joined(own.get(key), row)
    done.batch = replace(
        batch,
        submissions=tuple(
            _submission_by_hand(one, by_submission[one.student, one.lesson], done.notes)
            if (one.student, one.lesson) in by_submission
            else one
            for one in batch.submissions
        ),
    )
    done.notes = [f"{HAND_MARKS}, {note}" for note in done.notes]
    done.doubts = [f"{HAND_MARKS}, {doubt}" for doubt in done.doubts]
    if counted:
        done.notes.insert(0, f"By hand: {format_count(counted, 'row')} of {HAND_MARKS}, on top of what was computed.")
    return done


class _Everyone:
    """The students and groups who have results, and what a row means by one of them, a lesson or an exercise."""

    def __init__(self, submissions: Sequence[SubmissionResult], forgotten: Collection[str]) -> None:
        self._own: dict[str, dict[str, SubmissionResult]] = {}
        self._members: dict[tuple[str, str], list[str]] = {}
        self._forgotten = forgotten
        for one in submissions:
            self._own.setdefault(one.student, {})[one.lesson] = one
        self._students = frozenset(self._own)
        for one in submissions:
            if one.group and one.group not in self._students:
                self._own.setdefault(one.group, {})[one.lesson] = replace(one, student_id="")
                self._members.setdefault((one.group, one.lesson), []).append(one.student)
        ids = {name: {one.student_id for one in own.values()} - {""} for name, own in self._own.items()}
        self._roster = Roster(Person(name, ids=tuple(sorted(numbers))) for name, numbers in ids.items())

    def is_group(self, name: str) -> bool:
        """Whether a name that was found is a group's."""
        return name not in self._students

    def members(self, name: str, lesson: str) -> list[str]:
        """Those who get what is written for this student or group in a lesson."""
        return self._members[name, lesson] if self.is_group(name) else [name]

    def find_target(self, row: HandRow) -> tuple[str, str, str]:
        """The student or group, the lesson, and the key, which is empty for a whole lesson. Raises `HookworkError`."""
        student = self._find_student(row.student)
        own = self._own[student]
        if not row.where:
            raise BadRequest("it names no lesson and no exercise.")
        for lesson, found in own.items():
            if any(exercise.key == row.where for exercise in found.exercises):
                return student, lesson, row.where
        if "-" in row.where or not row.where[0].isdecimal():
            lesson = course.find_exercise(row.where).lesson
            raise BadRequest(f"no answer of {student} to it was marked. Give the points for the lesson, {lesson}.")
        lesson = course.find_lesson(row.where)
        if lesson not in own:
            raise BadRequest(f"there is no result of {student} for this lesson. A roster and --lessons make one.")
        return student, lesson, ""

    def _find_student(self, written: str) -> str:
        """The student who is meant, letter by letter or as people on a roster are found. Raises `BadRequest`."""
        # In tables that we write, a name that starts as a formula does has an apostrophe before it.
        for name in (written, written.removeprefix("'")):
            person = None if name in self._own else self._roster.find(name)
            if name in self._own or person:
                return person.name if person else name
        if Roster(map(Person, sorted(self._forgotten))).find(written):
            raise BadRequest("--forget took out this student. Take out the row, too: it counts for nobody.")
        helps = did_you_mean(written, self._own) or "Write the name as it is in gradebook.csv."
        raise BadRequest(f"there is no such student. {helps} If they have left, take out the row.")


def _joined(before: HandRow | None, row: HandRow, doubts: list[str] | None = None) -> HandRow:
    """Two rows for the same thing as one: all comments are said, and of two numbers the last one counts.

    With `doubts`, two numbers are one of them.
    """
    if before is None:
        return row
    comment = "\n".join(dict.fromkeys(filter(None, (before.comment, row.comment))))
    numbers = [(one.points, one.change) for one in (before, row) if (one.points, one.change) != (None, None)]
    if doubts is not None and len(set(numbers)) > 1:
        doubts.append(f"{row}: two rows give points for this. The last one counts; take the other out.")
    points, change = numbers[-1] if numbers else (None, None)
    return replace(row, points=points, change=change, comment=comment)


def _submission_by_hand(
    submission: SubmissionResult, words: Mapping[str, HandRow], notes: list[str]
) -> SubmissionResult:
    """One submission with hand marks. What lateness takes from its points, it takes from those of exercises, too."""
    exercises = tuple(
        _with_mark(one, words[one.key], one.score, notes) if one.key in words else one for one in submission.exercises
    )
    gained = sum(one.score for one in exercises) - sum(one.score for one in submission.exercises)
    reached = submission.score + submission.penalty
    kept = submission.score / reached if reached else 1.0
    score = max(0.0, round(submission.score + gained * kept, 4))
    marked = replace(submission, exercises=exercises, score=score, by_hand=HandMark(computed=submission.score))
    return _with_mark(marked, words[""], submission.score, notes) if "" in words else marked


def _with_mark(one: Result, row: HandRow, computed: float, notes: list[str]) -> Result:
    points = row.points if row.change is None else one.score + row.change
    if points is not None and points < 0:
        notes.append(f"{row}: that takes away more than there is, so 0 points count.")
        points = 0.0
    if points is not None and points > one.max_score:
        most = format_points(one.max_score)
        notes.append(f"{row}: {format_points(points)} points are more than the {most} there are; they count.")
    score = one.score if points is None else round(points, 4)
    mark = HandMark(computed=computed, points=None if points is None else score, comment=row.comment)
    return replace(one, score=score, by_hand=mark)
