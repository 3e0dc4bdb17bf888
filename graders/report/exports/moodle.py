"""Export to Moodle: a grading worksheet for each lesson, for *Assignment > Upload grading worksheet*.

Moodle finds students by `Identifier`, the number in the names of the files that teachers download. If the roster is a
worksheet from Moodle, that worksheet is filled in. Otherwise the file is in English; the gradebook's CSV import can
read it as well, and finds students by their email address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graders.core.results import Status, SubmissionResult
from graders.core.text import format_count, format_points, shorten_text
from graders.report.exports import worksheet
from graders.report.exports.exported import ExportRequest, ExportResult, describe_duplicates, format_score
from graders.report.gradebook import csv_text, escape_formulas, safe_cell_text
from graders.report.teacher_words import FROM_TEACHER, teacher_words
from graders.report.titles import Titles
from graders.submissions.roster import Person, Worksheet
from graders.submissions.student_names import name_sort_key

HEADER = ("Identifier", "Full name", "Email address", "Grade", "Maximum Grade", "Last modified (grade)",
          "Feedback comments")  # fmt: skip
SHOWN_PEOPLE = 10
"""The most people that a note names."""


def export(wanted: ExportRequest) -> ExportResult:
    """Make `moodle/<lesson>.csv`; a worksheet given as the roster is filled in only for lessons marked just now."""
    exported = ExportResult()
    given = wanted.roster.worksheet if wanted.roster else None
    for lesson in wanted.all_lessons:
        found = {one.student: one for one in wanted.batch.submissions if one.lesson == lesson}
        if given is None or not _belongs_to_lesson(given, found):
            # A file for an earlier lesson may have been made from the worksheet of its own assignment: keep it.
            if given is None or wanted.lessons is None or lesson in wanted.lessons:
                _export_in_english(exported, lesson, wanted, found)
        elif wanted.lessons is None or lesson in wanted.lessons:
            _export_given_worksheet(exported, lesson, wanted, found, given)
    return exported


def _belongs_to_lesson(given: Worksheet, found: Mapping[str, SubmissionResult]) -> bool:
    """Whether a worksheet lists at least one of the lesson's students by number; also true if none has a number."""
    listed = {person.participant for person in given.people if person}
    numbers = {one.student_id for one in found.values() if one.student_id}
    return not numbers or bool(numbers & listed)


def _export_given_worksheet(
    exported: ExportResult, lesson: str, wanted: ExportRequest, found: Mapping[str, SubmissionResult], given: Worksheet
) -> None:
    path, most = f"moodle/{lesson}.csv", worksheet.maximum_points(given)
    rows = ((person.name, {"the identifier": person.participant}) for person in given.people if person)
    if why := describe_duplicates(rows):
        exported.refused[path] = why
        return
    factor = wanted.scale_factor(lesson, most)
    filled = worksheet.fill_worksheet(
        given, found, lambda one: _feedback_comment(one, wanted.titles), factor, below=wanted.below
    )
    table = filled.table
    exported.files[path] = table.to_bytes()
    exported.notes += filter(None, [wanted.points_note(path, lesson, most), *_notes_on_what_was_there(path, filled)])
    if given.columns.comment is None:
        exported.notes.append(f"{path}: the worksheet has no column for feedback, so only grades were entered.")
    strangers = sorted(set(found) - {person.name for person in given.people if person})
    if strangers:
        exported.notes.append(
            f"{path}: the worksheet has no row for {', '.join(shorten_text(one, 40) for one in strangers)}."
        )
    if unencodable_count := table.unencodable_count:
        encoding = table.layout.encoding
        exported.notes.append(
            f"{path}: {encoding} lacks {format_count(unencodable_count, 'character')} of the feedback; each is a "
            "question mark."
        )


def _notes_on_what_was_there(path: str, filled: worksheet.Filled) -> Iterator[str]:
    if filled.kept:
        yield f"{path}: comments by teachers stay: {_listed(filled.kept)}."
    if filled.replaced:
        yield (
            f"{path}: other grades were there: {_listed(filled.replaced)}. If a teacher gave one of them, "
            "write it into hand-marks.csv."
        )


def _listed(people: Sequence[str]) -> str:
    shown = ", ".join(shorten_text(one, 60) for one in people[:SHOWN_PEOPLE])
    return f"{shown} and {len(people) - SHOWN_PEOPLE} more" if len(people) > SHOWN_PEOPLE else shown


def _export_in_english(
    exported: ExportResult, lesson: str, wanted: ExportRequest, found: Mapping[str, SubmissionResult]
) -> None:
    """Make a worksheet in English. Students without a number from Moodle have an empty identifier."""
    path = f"moodle/{lesson}.csv"
    people = {person.name: person for person in wanted.roster.people} if wanted.roster else {}
    rows, identities = [], []
    for student in sorted(found, key=name_sort_key):
        result, person = found[student], people.get(student, Person(student))
        number = f"Participant {result.student_id}" if result.student_id else ""
        identities.append((student, {"Identifier": number} if number else {"the address": person.email}))
        rest = [format_score(result), format_points(result.max_score), "-"]
        names = map(safe_cell_text, (number, student, person.email))
        rows.append([*names, *rest, escape_formulas(_feedback_comment(result, wanted.titles))])
    if why := describe_duplicates(identities):
        exported.refused[path] = why
        return
    exported.files[path] = csv_text([HEADER, *rows])
    exported.notes += filter(None, [wanted.points_note(path, lesson, None)])
    without = [student for student, identity in identities if not identity.get("Identifier")]
    if without:
        exported.notes.append(
            f"{path}: {format_count(len(without), 'student')} of {len(found)} have no identifier, without which Moodle "
            "skips a row. Give the assignment's grading worksheet as --roster, and it is filled in."
        )


def _feedback_comment(submission: SubmissionResult, titles: Titles) -> str:
    """What the teacher says, and a sentence for each exercise that has not passed; empty if there is neither.

    The sentences are cut to 2000 characters; the feedback page has the rest.
    """
    said = [
        f"{titles.exercise(exercise.key)}: {exercise.explanation or exercise.status.value}"
        for exercise in submission.exercises
        if exercise.status is not Status.PASSED
    ]
    if submission.penalty:
        said.insert(0, f"{submission.late_note or 'Late.'} {format_points(submission.penalty)} points are taken off.")
    # Moodle shows plain text, where backticks around code would only be noise.
    text = " | ".join([*([submission.message] if submission.message else []), *said])
    words = [f"{FROM_TEACHER} {word}" for word in teacher_words(submission, titles)]
    text = " | ".join([*words, *filter(None, [shorten_text(text, 2000).replace("`", "")])])
    # A student who ends our part early would seem to be a teacher in what follows.
    return f"{worksheet.OURS}{text.replace(worksheet.END.strip(), '[end]')}{worksheet.END}" if text else ""
