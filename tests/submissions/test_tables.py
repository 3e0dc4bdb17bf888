"""CSV files in every encoding and with every delimiter that platforms and spreadsheets write."""

from __future__ import annotations

import codecs

import pytest

from graders.submissions.tables import BadTable, parse_number, read_table

TEXT = "Name;ID\r\nJürgen Groß;7\r\nAda;8\r\n"


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        (TEXT.encode(), "utf-8"),
        (codecs.BOM_UTF8 + TEXT.encode(), "utf-8"),
        (TEXT.encode("cp1252"), "cp1252"),
        (codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "utf-16-be"),
    ],
)
@pytest.mark.parametrize("newline", ["\r\n", "\n", "\r"])
def test_a_table_is_read_and_written_as_it_was(raw: bytes, encoding: str, newline: str) -> None:
    wide = "\r\n".encode(encoding)
    raw = raw.replace(wide, newline.encode(encoding))
    table = read_table(raw)
    assert (table.header, table.rows) == (("Name", "ID"), (("Jürgen Groß", "7"), ("Ada", "8")))
    assert (table.layout.encoding, table.layout.newline, table.layout.delimiter) == (encoding, newline, ";")
    assert table.layout.guessed == (encoding == "cp1252")
    assert table.to_bytes() == raw


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_that_of_the_header_and_may_stand_in_cells(delimiter: str) -> None:
    text = f'"Full, or; other\tname|"{delimiter}ID\n"Lovelace, Ada; x\t|"{delimiter}7\n'
    assert read_table(text).rows == (("Lovelace, Ada; x\t|", "7"),)
    assert read_table(text).to_bytes().decode().count("\n") == 2


@pytest.mark.parametrize("line", ["sep=;\n", '"sep=;"\r\n', "SEP=;\n"])
def test_the_line_that_names_the_separator_is_no_part_of_the_table(line: str) -> None:
    table = read_table(line + "Name, or so;ID\nann;7\n")
    assert (table.header, table.rows) == (("Name, or so", "ID"), (("ann", "7"),))
    assert table.to_bytes() == b"Name, or so;ID\nann;7\n"


def test_what_an_encoding_does_not_have_is_counted_and_written_as_a_question_mark() -> None:
    table = read_table("Name\nJürgen ▲→\n".encode("utf-16"))
    assert table.unencodable_count == 0
    old = read_table("Name\nJürgen\n".encode("cp1252"))
    new = type(old)(old.header, (("Jürgen ▲→",),), old.layout)
    assert (new.unencodable_count, new.to_bytes()) == (2, "Name\nJürgen ??\n".encode("cp1252"))


@pytest.mark.parametrize(
    ("raw", "part"),
    [
        (b"PK\x03\x04...", "a workbook"),
        (b"\xd0\xcf\x11\xe0\xa1", "a workbook"),
        ("Name\nann\n".encode("utf-16-le"), "NUL characters"),
        (b'Name,ID\n"ann,7\nbob,8\n', "never closed"),
    ],
)
def test_what_is_no_csv_file_says_what_helps(raw: bytes, part: str) -> None:
    with pytest.raises(BadTable, match=part):
        read_table(raw)


def test_a_mark_before_a_text_is_no_part_of_its_first_title() -> None:
    assert read_table("\ufeffName,Group\nada,1\n").header == ("Name", "Group")


def test_numbers_have_a_point_or_a_comma() -> None:
    assert [parse_number(text) for text in ("4", "4.50", " 4,00 ")] == [4, 4.5, 4]
    assert {parse_number(text) for text in ("-", "", "4 of 5", "1.2.3")} == {None}
