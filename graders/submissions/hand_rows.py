"""Read the points and comments that a teacher writes by hand into a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graders.core.results import COMMENT_LIMIT
from graders.core.text import NAME_LIMIT, clean_fields, shorten_text
from graders.submissions.roster_columns import NAMES, plain_title
from graders.submissions.tables import BadTable, cell_text, parse_number, read_table

HEADER = ("student", "lesson or exercise", "points", "change", "comment")
_TITLES = (
    NAMES,
    ("lesson or exercise", "exercise", "key", "lesson"),
    ("points",),
    ("change",),
    ("comment", "comments"),
)
_MOST_POINTS = 1_000_000


@dataclass(frozen=True)
class HandRow:
    """One row: new points or a change of points, and a comment, for a lesson or an exercise of a student."""

    student: str
    where: str
    points: float | None = None
    change: float | None = None
    comment: str = ""

    def __post_init__(self) -> None:
        """Clean the texts as results have them, so that names still match those letter by letter."""
        clean_fields(self, {"comment"}, student=NAME_LIMIT, where=NAME_LIMIT, comment=COMMENT_LIMIT)

    def __str__(self) -> str:
        """The row, as messages name it."""
        return shorten_text(f"{self.student}, {self.where}", 100)


@dataclass(frozen=True)
class HandRows:
    """The rows that say something, and a sentence for each part of the table that cannot be used."""

    rows: tuple[HandRow, ...] = ()
    doubts: tuple[str, ...] = ()


def parse_hand_rows(content: bytes | str) -> HandRows:
    """The rows of a CSV file with the titles of `HEADER`; rows that say nothing are left out. Raises `BadTable`."""
    table = read_table(content)
    titles = [plain_title(title) for title in table.header]
    columns = [next((titles.index(name) for name in names if name in titles), None) for names in _TITLES]
    if None in columns[:2]:
        raise BadTable(f"it needs a header with the columns {', '.join(HEADER)}")
    rows, doubts = [], list[str]()
    for row in table.rows:
        made, wrong = _read_row([cell_text(row, column) for column in columns])
        if any(cell.strip() for cell in row[len(titles) :]):
            doubts.append(f"{made}: the row has more cells than the header. Put a text with commas in quotation marks.")
            continue
        doubts += [f"{made}: {doubt}" for doubt in wrong]
        if made.points is not None or made.change is not None or made.comment:
            rows.append(made)
    return HandRows(tuple(rows), tuple(doubts))


def _read_row(cells: Sequence[str]) -> tuple[HandRow, list[str]]:
    """A row, and what is wrong with it. Numbers that cannot be used are left out, and the comment still counts."""
    student, where, points, change, comment = cells
    points, change = (written.replace("\N{MINUS SIGN}", "-") for written in (points, change))
    doubts = [doubt] if (doubt := _doubt_about(points, change)) else []
    numbers = (None, None) if doubt else (parse_number(points), parse_number(change))
    if len(comment) > COMMENT_LIMIT:
        doubts.append(f"only the first {COMMENT_LIMIT} characters of the comment are shown.")
    return HandRow(student, where, *numbers, comment), doubts


def _doubt_about(points: str, change: str) -> str:
    """Why the numbers of a row cannot be used; empty if they can, or if there are none."""
    if points and change:
        return "it has both points and a change. Keep one of them."
    written = points or change
    number = parse_number(written)
    if written and (number is None or abs(number) > _MOST_POINTS):
        return f"{shorten_text(written, 40)!r} is not a number of points."
    if points.startswith(("+", "-")):
        return f"points have no sign. Write {points} into the column change, or the new points without a sign."
    return ""
