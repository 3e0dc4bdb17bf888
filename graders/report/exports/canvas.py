"""Export to Canvas: a CSV file for *Grades > Import*, with a column for each lesson.

Canvas finds students by ID, SIS User ID or SIS Login ID, and an assignment by the number in brackets after its name.
Both come from the roster, which is Canvas's own exported gradebook. An empty cell changes nothing in Canvas, so work
that is missing or was not graded has empty cells.
"""

from __future__ import annotations

import re

from graders.core.text import format_points
from graders.report.class_numbers import lessons_by_student
from graders.report.exports.exported import ExportRequest, ExportResult, describe_duplicates, format_score
from graders.report.gradebook import csv_text, safe_cell_text
from graders.report.titles import Titles
from graders.submissions.roster import Person

FILE = "canvas.csv"
_IDENTITY = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_FOUND_BY = slice(1, 4)
"""The columns of `_IDENTITY` by which Canvas finds a student."""


def export(wanted: ExportRequest) -> ExportResult:
    """Make `canvas.csv`, with each column named like the roster's one assignment for the lesson.

    If there isn't exactly one, it has the lesson's title, and Canvas asks which assignment is meant or creates one.
    """
    lessons = wanted.all_lessons
    listed = wanted.roster.columns if wanted.roster else ()
    assignments = [column for column in listed if re.search(r"\(\d+\)\s*$", column)]
    columns = {lesson: _column_title(lesson, wanted.titles, assignments) for lesson in lessons}
    maxima = {lesson: wanted.roster.maxima.get(columns[lesson]) if wanted.roster else None for lesson in lessons}
    found = lessons_by_student(wanted.batch)
    people = {person.name: person for person in wanted.roster.people} if wanted.roster else {}
    identities = {
        student: _identity_cells(student, people.get(student), _platform_number(student, wanted)) for student in found
    }
    header = [*_IDENTITY, *(safe_cell_text(columns[lesson]) for lesson in lessons)]
    most = (format_points(maxima[one] or wanted.lesson_max_score(one)) for one in lessons)
    rows = [["    Points Possible", *[""] * 4, *most]]
    for student, handed_in in found.items():
        cells = (format_score(handed_in.get(one), wanted.scale_factor(one, maxima[one])) for one in lessons)
        rows.append([*map(safe_cell_text, identities[student]), *cells])
    exported = ExportResult(notes=[note for one in lessons if (note := wanted.points_note(FILE, one, maxima[one]))])
    why = describe_duplicates(
        (one, dict(zip(_IDENTITY[_FOUND_BY], identities[one][_FOUND_BY]))) for one in sorted(found)
    )
    if why:
        exported.refused[FILE] = why
        return exported
    exported.files[FILE] = csv_text([header, *rows])
    return exported


def _column_title(lesson: str, titles: Titles, assignments: list[str]) -> str:
    """The one assignment whose name contains the lesson's stem or title; otherwise the lesson's title."""
    title = titles.lesson(lesson)
    wanted = {lesson.casefold(), title.casefold(), title.partition(". ")[2].casefold()} - {""}
    found = [column for column in assignments if any(name in column.casefold() for name in wanted)]
    return found[0] if len(found) == 1 else title


def _platform_number(student: str, wanted: ExportRequest) -> str:
    """The student's number on the platform; empty if it is Moodle's, which could be another person's in Canvas."""
    moodles = wanted.roster is not None and wanted.roster.worksheet is not None
    numbers = (one.student_id for one in wanted.batch.submissions if one.student == student and one.student_id)
    return "" if moodles else next(numbers, "")


def _identity_cells(student: str, person: Person | None, number: str) -> list[str]:
    if person is None:
        return [student, number, "", "", ""]
    row = [person.get(column.casefold()) for column in _IDENTITY[1:]]
    return [person.get("student") or student, row[0] or number, *row[1:]]
