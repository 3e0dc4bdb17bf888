"""CSV files as people have them: saved by platforms and by spreadsheets of any country."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from graders.core.errors import HookworkError

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
_DELIMITERS = ",;\t|"
# Spreadsheets write this line for each other; it is no part of the table.
_SEPARATOR_LINE = re.compile(r'"?sep=(?P<delimiter>[^\r\n])"?(?:\r\n|\n|\r|$)', re.IGNORECASE)


class BadTable(HookworkError):
    """A file that is no CSV file, or lacks what it is read for; the message says what is expected."""


@dataclass(frozen=True)
class CsvLayout:
    """How a table is written down. `mark` are the bytes by which a file begins that names its encoding itself.

    `guessed` is whether the encoding is a guess, for a file that is no UTF-8 and has no mark.
    """

    encoding: str = "utf-8"
    mark: bytes = b""
    delimiter: str = ","
    newline: str = "\n"
    guessed: bool = False


@dataclass(frozen=True)
class Table:
    """A header and rows. A row may have fewer cells than the header, or more."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    layout: CsvLayout = CsvLayout()

    def column(self, index: int) -> tuple[str, ...]:
        """The cells of a column, without blanks around them; empty where a row is too short."""
        return tuple(cell_text(row, index) for row in self.rows)

    @property
    def unencodable_count(self) -> int:
        """How many characters its encoding does not have."""
        text = "".join(part for row in (self.header, *self.rows) for part in row)
        return len(text) - len(text.encode(self.layout.encoding, "ignore").decode(self.layout.encoding))

    def to_bytes(self) -> bytes:
        """The file, laid out as it was. What its encoding does not have becomes `?`."""
        text = io.StringIO()
        writer = csv.writer(text, delimiter=self.layout.delimiter, lineterminator=self.layout.newline)
        writer.writerows([self.header, *self.rows])
        return self.layout.mark + text.getvalue().encode(self.layout.encoding, "replace")


def cell_text(row: Sequence[str], index: int | None) -> str:
    """One cell of a row, without blanks around it; empty where there is none."""
    return row[index].strip() if index is not None and index < len(row) else ""


def read_table(content: bytes | str) -> Table:
    """The table in a CSV file. Raises `BadTable`."""
    text, encoding, mark, guessed = (content, "utf-8", b"", False) if isinstance(content, str) else decode_csv(content)
    text = text.removeprefix("\ufeff")
    if "\0" in text:
        raise BadTable("it is no CSV file (it has NUL characters). Export it as CSV (UTF-8)")
    line = _SEPARATOR_LINE.match(text)
    text = text[line.end() :] if line else text
    delimiter = line["delimiter"] if line else max(_DELIMITERS, key=lambda one: len(_parse_header(text, one)))
    rows = [tuple(row) for row in _parse_rows(text, delimiter) if any(part.strip() for part in row)]
    newline = next((end for end in ("\r\n", "\n", "\r") if end in text), "\n")
    layout = CsvLayout(encoding, mark, delimiter, newline, guessed)
    return Table(rows[0] if rows else (), tuple(rows[1:]), layout)


def decode_csv(raw: bytes) -> tuple[str, str, bytes, bool]:
    """The text of a file, its encoding, its mark, and whether that is a guess. Raises `BadTable`."""
    if raw.startswith(_WORKBOOKS):
        raise BadTable("it is a workbook and no CSV file. Save it as CSV (UTF-8)")
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(encoding, "replace"), encoding, mark, False
    try:
        return raw.decode("utf-8"), "utf-8", b"", False
    except UnicodeDecodeError:
        pass
    # The code page of Windows in most of Europe and America; of its 256 bytes five stand for nothing.
    encoding = "cp1252" if not re.search(rb"[\x81\x8d\x8f\x90\x9d]", raw) else "latin-1"
    return raw.decode(encoding), encoding, b"", True


def _parse_rows(text: str, delimiter: str) -> list[list[str]]:
    """The rows of a text. Raises `BadTable`, also where an open quotation mark would swallow all that follows."""
    for strict in (True, False):
        try:
            return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=strict))
        except csv.Error as error:
            if not strict:
                raise BadTable(f"it is no CSV file ({error})") from error
            if "unexpected end" in str(error):
                raise BadTable("it is no CSV file (a quotation mark is opened and never closed)") from error
    raise AssertionError


def _parse_header(text: str, delimiter: str) -> list[str]:
    """The first row that has something in it, read with this delimiter."""
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        return next((row for row in reader if any(part.strip() for part in row)), [])
    except csv.Error:
        return []


def parse_number(text: str) -> float | None:
    """The number in a cell, with a point or a comma before its decimals; None for anything else."""
    plain = text.strip()
    if not re.fullmatch(r"[+-]?\d+(?:[.,]\d+)?", plain):
        return None
    return float(plain.replace(",", "."))
