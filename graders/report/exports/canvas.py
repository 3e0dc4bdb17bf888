"""Canvas: a CSV file for *Grades > Import*, one column for each lesson.

Canvas finds students by ID, SIS User ID or SIS Login ID, and an assignment by the number in brackets after its name.
Both come from the roster: its own exported gradebook. An empty cell changes nothing in Canvas, so what is missing or
was not graded stays empty.
"""

from __future__ import annotations

import csv
import io
import re

from graders.core.results import Batch, SubmissionResult, SubmissionStatus
from graders.core.roster import Person, Roster
from graders.core.text import points
from graders.report.gradebook import neutral
from graders.report.titles import Titles

_IDENTITY = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


def files(batch: Batch, titles: Titles, roster: Roster | None = None) -> dict[str, str]:
    """`canvas.csv`."""
    return {"canvas.csv": render(batch, titles, roster)}


def render(batch: Batch, titles: Titles, roster: Roster | None = None) -> str:
    """The file. A column is called as in the roster, where one assignment there names the lesson.

    Otherwise it is called by its lesson: Canvas asks which assignment is meant, or makes one.
    """
    lessons = sorted({submission.lesson for submission in batch.submissions})
    most = {submission.lesson: submission.max_score for submission in batch.submissions}
    people = {person.name: person for person in roster.people} if roster else {}
    found: dict[str, dict[str, SubmissionResult]] = {}
    for submission in batch.submissions:
        found.setdefault(submission.student, {})[submission.lesson] = submission
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    assignments = [column for column in roster.columns if re.search(r"\(\d+\)\s*$", column)] if roster else []
    writer.writerow([*_IDENTITY, *(neutral(_column(lesson, titles, assignments)) for lesson in lessons)])
    writer.writerow(["    Points Possible", "", "", "", "", *(points(most[lesson]) for lesson in lessons)])
    for student in sorted(found):
        number = next((submission.student_id for submission in found[student].values() if submission.student_id), "")
        cells = [score(found[student].get(lesson)) for lesson in lessons]
        writer.writerow([*map(neutral, _identity(student, people.get(student), number)), *cells])
    return text.getvalue()


def _column(lesson: str, titles: Titles, assignments: list[str]) -> str:
    """What a lesson is called: the one assignment whose name has the lesson's stem, title or file in it."""
    title = titles.lesson(lesson)
    wanted = {lesson.casefold(), title.casefold(), title.partition(". ")[2].casefold()} - {""}
    found = [column for column in assignments if any(name in column.casefold() for name in wanted)]
    return found[0] if len(found) == 1 else title


def _identity(student: str, person: Person | None, number: str) -> list[str]:
    if person is None:
        return [student, number, "", "", ""]
    row = [person.get(column.casefold()) for column in _IDENTITY[1:]]
    return [person.get("student", "name") or student, row[0] or number, *row[1:]]


def score(submission: SubmissionResult | None) -> str:
    """Points; empty where nothing was handed in or something could not be graded."""
    if submission is None or submission.status is SubmissionStatus.MISSING or not submission.graded:
        return ""
    return points(submission.score)
