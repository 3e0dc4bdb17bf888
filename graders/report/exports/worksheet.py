"""Fill in a grading worksheet from Moodle with grades and feedback, and leave everything else as it was.

Moodle compares the header and the identifiers with its own words for them, in the language of the person who uploads
the file. So the only file that it is sure to accept is its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from graders.core.results import SubmissionResult, SubmissionStatus
from graders.report.exports.exported import format_score
from graders.report.gradebook import escape_formulas
from graders.submissions.roster import Worksheet
from graders.submissions.tables import Table, parse_number

OURS, END = "[Hookwork] ", " [end of Hookwork]"
"""Around what we write into a comment, so that a later command tells it from what a teacher wrote there."""
_OUR_PART = re.compile(rf"\s*{re.escape(OURS)}.*?{re.escape(END)}", re.DOTALL)
_NOT_SEEN = re.compile(r"<[^>]*>|&nbsp;|\s")


@dataclass(frozen=True)
class Filled:
    """A worksheet with results. `kept` are the people whose comment from a teacher is still there.

    `replaced` says of each grade that was there and is now another: whose, and both grades.
    """

    table: Table
    kept: tuple[str, ...]
    replaced: tuple[str, ...]


def maximum_points(worksheet: Worksheet) -> float | None:
    """The maximum points of the assignment; None if the worksheet does not say, or its rows disagree."""
    index = worksheet.columns.maximum
    found = {parse_number(written) for written in worksheet.table.column(index)} if index is not None else set()
    return found.pop() if len(found) == 1 else None


def fill_worksheet(
    worksheet: Worksheet,
    found: Mapping[str, SubmissionResult],
    comment: Callable[[SubmissionResult], str],
    factor: float = 1.0,
    *,
    below: bool = True,
) -> Filled:
    """The worksheet with results by student's name; a row without a graded result keeps its grade.

    `comment` makes the feedback, which stands `below` a teacher's own, or is left out there. Points are multiplied by
    `factor`.
    """
    columns, delimiter = worksheet.columns, worksheet.table.layout.delimiter
    # Moodle reads these, and teachers wrote the comments: they must not be escaped.
    verbatim = (columns.identifier, worksheet.grade, columns.maximum, columns.comment)
    decimal = "," if any(re.search(r"\d,\d", one) for one in _number_cells(worksheet)) else "."
    rows, kept, replaced = [], list[str](), list[str]()
    for row, person in zip(worksheet.table.rows, worksheet.people):
        result = found.get(person.name) if person else None
        cells = [*row, *[""] * (len(worksheet.table.header) - len(row))]
        if result is not None and (grade := format_score(result, factor)):
            before, cells[worksheet.grade] = cells[worksheet.grade].strip(), grade.replace(".", decimal)
            if parse_number(before) not in (None, parse_number(grade)):
                replaced.append(f"{result.student} ({before}, now {cells[worksheet.grade]})")
        if result is not None and columns.comment is not None:
            ours = escape_formulas(escape_formulas(comment(result)), delimiter)
            theirs, cells[columns.comment] = _join_comments(cells[columns.comment], ours, result, below)
            kept += [result.student] if theirs else []
        rows.append(tuple(one if at in verbatim else escape_formulas(one, delimiter) for at, one in enumerate(cells)))
    return Filled(replace(worksheet.table, rows=tuple(rows)), tuple(kept), tuple(replaced))


def _join_comments(there: str, ours: str, result: SubmissionResult, below: bool) -> tuple[bool, str]:
    """Whether a teacher has written something into a comment, and the comment with our part anew."""
    theirs = _OUR_PART.sub("", there)
    written = bool(_NOT_SEEN.sub("", theirs))
    judged = result.graded and (result.status is not SubmissionStatus.MISSING or result.decided)
    if there.strip() and not (judged or result.by_hand):
        return written, there
    parts = (theirs, ours if below else "") if written else (ours,)
    return written, "\n".join(filter(None, parts))


def _number_cells(worksheet: Worksheet) -> tuple[str, ...]:
    indices = (worksheet.grade, worksheet.columns.maximum)
    return tuple(written for index in indices if index is not None for written in worksheet.table.column(index))
