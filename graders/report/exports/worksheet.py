"""Fill in a grading worksheet from Moodle with grades and feedback, and leave everything else as it was.

Moodle compares the header and the identifiers with its own words for them, in the language of the person who uploads
the file. So the only file that it is sure to accept is its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from graders.core.results import SubmissionResult, SubmissionStatus
from graders.core.roster import Worksheet
from graders.core.tables import Table, cell_text, parse_number
from graders.report.exports.exported import format_score
from graders.report.gradebook import escape_formulas, safe_cell_text


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
) -> Table:
    """The worksheet with results by student's name; a row without a graded result keeps its grade.

    `comment` makes the feedback, and points are multiplied by `factor`.
    """
    columns, delimiter = worksheet.columns, worksheet.table.layout.delimiter
    moodles = (columns.identifier, worksheet.grade, columns.maximum)  # Moodle reads these: they must not be escaped
    decimal = "," if any(re.search(r"\d,\d", one) for one in _number_cells(worksheet)) else "."
    rows = []
    for row, person in zip(worksheet.table.rows, worksheet.people):
        result = found.get(person.name) if person else None
        cells = [*row, *[""] * (len(worksheet.table.header) - len(row))]
        if result is not None and (grade := format_score(result, factor)):
            cells[worksheet.grade] = grade.replace(".", decimal)
        if result is not None and columns.comment is not None:
            handed_in = result.graded and result.status is not SubmissionStatus.MISSING
            if handed_in or not cell_text(row, columns.comment):
                cells[columns.comment] = safe_cell_text(comment(result))
        rows.append(tuple(one if at in moodles else escape_formulas(one, delimiter) for at, one in enumerate(cells)))
    return replace(worksheet.table, rows=tuple(rows))


def _number_cells(worksheet: Worksheet) -> tuple[str, ...]:
    indices = (worksheet.grade, worksheet.columns.maximum)
    return tuple(written for index in indices if index is not None for written in worksheet.table.column(index))
