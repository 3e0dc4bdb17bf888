"""Moodle: a grading worksheet for each lesson, for *Assignment > Upload grading worksheet*.

Moodle finds students by `Identifier`, the number in the names of the files it lets you download. The same file can be
read by the gradebook's CSV import, which finds students by their email address.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from graders.core.results import Batch, Status, SubmissionResult
from graders.core.roster import Person, Roster
from graders.core.text import clean, points
from graders.report.exports.canvas import score
from graders.report.gradebook import neutral
from graders.report.titles import Titles

HEADER = ("Identifier", "Full name", "Email address", "Grade", "Maximum Grade", "Last modified (grade)",
          "Feedback comments")  # fmt: skip


def files(batch: Batch, titles: Titles, roster: Roster | None = None) -> dict[str, str]:
    """`moodle/<lesson>.csv`."""
    lessons = sorted({submission.lesson for submission in batch.submissions})
    by_lesson = {
        lesson: [submission for submission in batch.submissions if submission.lesson == lesson] for lesson in lessons
    }
    return {f"moodle/{lesson}.csv": render(by_lesson[lesson], titles, roster) for lesson in lessons}


def render(submissions: Sequence[SubmissionResult], titles: Titles, roster: Roster | None = None) -> str:
    """The worksheet of one lesson. Students without a number of Moodle's have an empty identifier."""
    people = {person.name: person for person in roster.people} if roster else {}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for submission in sorted(submissions, key=lambda submission: submission.student):
        person = people.get(submission.student, Person(submission.student))
        number = submission.student_id
        identity = [f"Participant {number}" if number else "", submission.student, person.get("email address", "email")]
        rest = [score(submission), points(submission.max_score), "-"]
        writer.writerow([*map(neutral, identity), *rest, neutral(_comment(submission, titles))])
    return text.getvalue()


def _comment(submission: SubmissionResult, titles: Titles) -> str:
    """One sentence for each exercise that is not passed. Long comments belong on the feedback page."""
    said = [
        f"{titles.exercise(exercise.key)}: {exercise.message or exercise.status.value}"
        for exercise in submission.exercises
        if exercise.status is not Status.PASSED
    ]
    if submission.penalty:
        said.insert(0, f"{submission.late_note or 'Late.'} {points(submission.penalty)} points are taken off.")
    # Moodle shows plain text, in which the marks around code are noise.
    return clean(" | ".join([*([submission.message] if submission.message else []), *said]), 2000).replace("`", "")
