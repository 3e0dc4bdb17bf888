"""What a teacher writes into `hand-marks.csv` is read however a spreadsheet saves it, and nothing is lost unsaid."""

from __future__ import annotations

import codecs

import pytest

from graders.submissions.hand_rows import HandRow, HandRows, parse_hand_rows
from graders.submissions.tables import BadTable

HEADER = "student,lesson or exercise,points,change,comment\n"
ANN = HandRow("Ann", "01-a", points=1.5, comment="Well said")


@pytest.mark.parametrize(
    "content",
    [
        f"{HEADER}Ann,01-a,1.5,,Well said\n".encode(),
        codecs.BOM_UTF8 + f"{HEADER}Ann,01-a,1.5,,Well said\n".encode(),
        f'{HEADER}Ann,01-a,"1,5",,Well said\n'.encode(),
        f"{HEADER.replace(',', ';')}Ann;01-a;1,5;;Well said;;\r\n;;;;\r\n".encode("cp1252"),
        f"sep=;\r\n{HEADER.replace(',', ';')}Ann;01-a;1,5;;Well said\r\n".encode(),
        codecs.BOM_UTF16_LE + "Name\tKey\tPoints\tComments\n Ann \t01-a\t1.5\tWell said\n".encode("utf-16-le"),
    ],
)
def test_separators_marks_and_decimals_of_any_spreadsheet(content: bytes) -> None:
    assert parse_hand_rows(content) == HandRows((ANN,))


def test_rows_that_say_nothing_are_no_rows() -> None:
    assert parse_hand_rows(f"{HEADER}Ann,,,,\nBob,01-a,,,\n") == HandRows()
    assert parse_hand_rows(HEADER) == HandRows()


def test_a_change_has_a_sign_of_any_kind() -> None:
    rows = parse_hand_rows(f"{HEADER}Ann,01-a,,+1,\nAnn,01-a,,-0.5,\nAnn,01-a,,\N{MINUS SIGN}2,\n").rows
    assert [row.change for row in rows] == [1.0, -0.5, -2.0]


@pytest.mark.parametrize(
    ("cells", "doubt"),
    [
        ("2,1", "it has both points and a change. Keep one of them."),
        ("+2,", "points have no sign. Write +2 into the column change, or the new points without a sign."),
        ("-2,", "points have no sign. Write -2 into the column change, or the new points without a sign."),
        ("two,", "'two' is not a number of points."),
        ("nan,", "'nan' is not a number of points."),
        (",50 %", "'50 %' is not a number of points."),
        (f"{'9' * 400},", f"'{'9' * 39}…' is not a number of points."),
    ],
)
def test_numbers_that_cannot_be_used_are_said_and_the_comment_counts(cells: str, doubt: str) -> None:
    found = parse_hand_rows(f"{HEADER}Ann,01-a,{cells},See me\n")
    assert found == HandRows((HandRow("Ann", "01-a", comment="See me"),), (f"Ann, 01-a: {doubt}",))


def test_a_comment_is_not_cut_unsaid() -> None:
    more = "the row has more cells than the header. Put a text with commas in quotation marks."
    assert parse_hand_rows(f"{HEADER}Ann,01-a,2,,Well, said\n") == HandRows((), (f"Ann, 01-a: {more}",))
    cut = "only the first 2000 characters of the comment are shown."
    assert parse_hand_rows(f"{HEADER}Ann,01-a,2,,{'x' * 2001}\n").doubts == (f"Ann, 01-a: {cut}",)


@pytest.mark.parametrize("content", ["", "student,points\nAnn,2\n", "lesson,points\n1,2\n", "PK\x03\x04", "a\0b"])
def test_what_is_no_such_table_is_refused(content: str) -> None:
    with pytest.raises(BadTable):
        parse_hand_rows(content.encode())
