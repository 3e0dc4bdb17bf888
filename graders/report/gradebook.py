"""Render `gradebook.csv`: a row per student, a column per exercise, and totals for each lesson and for the course."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from graders.core.results import Batch, Status, SubmissionResult, SubmissionStatus
from graders.core.text import MESSAGE_LIMIT, format_points, shorten_text
from graders.report.class_numbers import exercise_keys, lessons_by_student, sums_of_points
from graders.report.teacher_words import teacher_words

_NO_VERDICT = (Status.SUSPECT, Status.NOT_GRADED)
_FORMULA = "=+\\-@\uff1d\uff0b\uff0d\uff20"
"""The characters that start a formula, including the full-width forms that some spreadsheets also accept."""


def render(batch: Batch) -> str:
    """The gradebook as CSV. A cell has points; it is empty if nothing was handed in or it could not be graded."""
    lessons = sorted({submission.lesson for submission in batch.submissions})
    keys = {lesson: exercise_keys(batch, lesson) for lesson in lessons}
    header = [column for lesson in lessons for column in (*keys[lesson], f"{lesson} total")]
    rows = [["student", *header, "total", "max", "note"]]
    for student, found in lessons_by_student(batch).items():
        cells = [cell for lesson in lessons for cell in _lesson_cells(found.get(lesson), keys[lesson])]
        sums = map(format_points, sums_of_points(found.values()))
        rows.append([safe_cell_text(student), *cells, *sums, safe_cell_text(_student_note(found))])
    return csv_text(rows)


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """The text of a CSV file with these rows. What strangers wrote has to be made safe for spreadsheets before."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def safe_cell_text(text: str) -> str:
    """`text`, shortened, so that no spreadsheet takes it for a formula, whatever delimiter it splits a file at."""
    return escape_formulas(shorten_text(text, MESSAGE_LIMIT))


def escape_formulas(text: str, delimiter: str = ",") -> str:
    """The text of a cell with an apostrophe before every formula, at its start and wherever it could be split.

    Spreadsheets split at commas, semicolons or tabs, depending on their country. A `delimiter` of the file itself does
    no harm, because the cell is quoted.
    """
    if text.strip() == "-":  # what Moodle writes for a missing date
        return text
    others = "".join({",", ";", "\t"} - {delimiter, "," if delimiter == "\t" else ""})
    return re.sub(rf"(^|[{others}])(?=[\s\"]*[{_FORMULA}])", r"\1'", text)


def _lesson_cells(submission: SubmissionResult | None, keys: list[str]) -> list[str]:
    if submission is None:
        return [""] * (len(keys) + 1)
    nothing = "0" if submission.status is SubmissionStatus.UNREADABLE else ""
    unknown = submission.status in (SubmissionStatus.MISSING, SubmissionStatus.NOT_GRADED)
    scores = {
        exercise.key: format_points(exercise.score)
        for exercise in submission.exercises
        if exercise.decided or not (unknown or exercise.status is Status.NOT_GRADED)
    }
    total = "" if unknown and not submission.decided else format_points(submission.score)
    return [*(scores.get(key, nothing) for key in keys), total]


def _student_note(found: dict[str, SubmissionResult]) -> str:
    notes = [
        f"{lesson}: {submission.status.value}"
        for lesson, submission in sorted(found.items())
        if submission.status is not SubmissionStatus.GRADED
    ]
    notes += [
        f"{lesson}: late, {format_points(submission.penalty)} points are taken off"
        for lesson, submission in sorted(found.items())
        if submission.penalty
    ]
    notes += [f"{lesson}: with {submission.group}" for lesson, submission in sorted(found.items()) if submission.group]
    notes += [
        f"{lesson}: by hand: {' '.join(word.split())}"
        for lesson, submission in sorted(found.items())
        for word in teacher_words(submission)
    ]
    exercises = [exercise for submission in found.values() for exercise in submission.exercises]
    notes += [f"{exercise.key}: {exercise.status.value}" for exercise in exercises if exercise.status in _NO_VERDICT]
    return "; ".join(notes)
