"""Read CSV files as platforms and spreadsheets of any country save them, and write them back in the same layout."""

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
# Excel starts a file with a line such as "sep=;" to name its delimiter; it is not part of the table.
_SEPARATOR_LINE = re.compile(r'"?sep=(?P<delimiter>[^\r\n])"?(?:\r\n|\n|\r|$)', re.IGNORECASE)


class BadTable(HookworkError):
    """A file is not a CSV file, or lacks a column that is needed; the message says what was expected."""


@dataclass(frozen=True)
class CsvLayout:
    """How a table is written as text. `mark` is its byte order mark, which names the encoding; empty if it has none.

    `guessed` says whether the encoding is a guess, because the file is not UTF-8 and has no mark.
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
        """The cells of a column, stripped of spaces; empty if a row is too short."""
        return tuple(cell_text(row, index) for row in self.rows)

    @property
    def unencodable_count(self) -> int:
        """How many characters of the table its encoding cannot express."""
        text = "".join(part for row in (self.header, *self.rows) for part in row)
        return len(text) - len(text.encode(self.layout.encoding, "ignore").decode(self.layout.encoding))

    def to_bytes(self) -> bytes:
        """The table as a file in its layout. A character that its encoding cannot express becomes `?`."""
        text = io.StringIO()
        writer = csv.writer(text, delimiter=self.layout.delimiter, lineterminator=self.layout.newline)
        writer.writerows([self.header, *self.rows])
        return self.layout.mark + text.getvalue().encode(self.layout.encoding, "replace")


def cell_text(row: Sequence[str], index: int | None) -> str:
    """One cell of a row, stripped of spaces; empty if the row is too short or `index` is None."""
    return row[index].strip() if index is not None and index < len(row) else ""


def read_table(content: bytes | str) -> Table:
    """The table in a CSV file; empty rows are left out. Raises `BadTable` if it is not a CSV file."""
    text, encoding, mark, guessed = (content, "utf-8", b"", False) if isinstance(content, str) else decode_csv(content)
    text = text.removeprefix("\ufeff")
    if "\0" in text:
        raise BadTable("it is not a CSV file (it has NUL characters). Export it as CSV (UTF-8)")
    line = _SEPARATOR_LINE.match(text)
    text = text[line.end() :] if line else text
    delimiter = line["delimiter"] if line else max(_DELIMITERS, key=lambda one: len(_parse_header(text, one)))
    rows = [tuple(row) for row in _parse_rows(text, delimiter) if any(part.strip() for part in row)]
    newline = next((end for end in ("\r\n", "\n", "\r") if end in text), "\n")
    layout = CsvLayout(encoding, mark, delimiter, newline, guessed)
    return Table(rows[0] if rows else (), tuple(rows[1:]), layout)


def decode_csv(raw: bytes) -> tuple[str, str, bytes, bool]:
    """The text of a file, its encoding, its byte order mark, and whether it was guessed. Raises `BadTable`."""
    if raw.startswith(_WORKBOOKS):
        raise BadTable("it is a workbook, not a CSV file. Save it as CSV (UTF-8)")
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(encoding, "replace"), encoding, mark, False
    try:
        return raw.decode("utf-8"), "utf-8", b"", False
    except UnicodeDecodeError:
        pass
    # Windows uses cp1252 in most of Europe and America. These five bytes mean nothing in it.
    encoding = "cp1252" if not re.search(rb"[\x81\x8d\x8f\x90\x9d]", raw) else "latin-1"
    return raw.decode(encoding), encoding, b"", True


def _parse_rows(text: str, delimiter: str) -> list[list[str]]:
    """The rows of a text. Raises `BadTable`, also if a quotation mark that is never closed would swallow the rest."""
    for strict in (True, False):
        try:
            return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=strict))
        except csv.Error as error:
            if not strict:
                raise BadTable(f"it is not a CSV file ({error})") from error
            if "unexpected end" in str(error):
                raise BadTable("it is not a CSV file (a quotation mark is opened and never closed)") from error
    raise AssertionError


def _parse_header(text: str, delimiter: str) -> list[str]:
    """The first row that is not empty, read with this delimiter; empty if there is none or it cannot be read."""
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        return next((row for row in reader if any(part.strip() for part in row)), [])
    except csv.Error:
        return []


def parse_number(text: str) -> float | None:
    """The number in a cell, with a decimal point or comma; None for anything else."""
    plain = text.strip()
    if not re.fullmatch(r"[+-]?\d+(?:[.,]\d+)?", plain):
        return None
    return float(plain.replace(",", "."))
