from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graders.submissions import groups
from graders.submissions.roster import parse_roster
from graders.submissions.tables import BadTable, read_table

CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section
    Points Possible,,,,
"Lovelace, Ada",101,S1,ada@x.org,A
"Müller, Jürgen",102,S2,jmueller,A
"Student, Test",103,,,A
"""
MOODLE = """Identifier;Full name;Email address;Deadline
Participant 7;Ada Lovelace;ada@x.org;2026-01-05
Participant 8;Ann Lee;ann@x.org;
Participant 9;Ann Lee;lee@x.org;
"""


@pytest.mark.parametrize(
    ("name", "number", "found"),
    [
        ("lovelaceada", "101", "Lovelace, Ada"),
        ("lovelaceada", "", "Lovelace, Ada"),
        ("Ada Lovelace", "", "Lovelace, Ada"),
        ("ada@x.org", "", "Lovelace, Ada"),
        ("ada", "", "Lovelace, Ada"),
        ("S2", "", "Müller, Jürgen"),
        ("jurgen muller", "", "Müller, Jürgen"),
        ("mullerjurgen", "", "Müller, Jürgen"),
        ("whoever", "102", "Müller, Jürgen"),
        ("whoever", "", None),
        ("", "", None),
    ],
)
def test_people_are_found_by_what_platforms_call_them(name: str, number: str, found: str | None) -> None:
    person = parse_roster(CANVAS).find(name, number)
    assert (person.name if person else None) == found


def test_a_name_that_two_people_share_finds_nobody_and_a_number_does() -> None:
    roster = parse_roster(MOODLE)
    assert [person.name for person in roster.people] == ["Ada Lovelace", "Ann Lee (8)", "Ann Lee (9)"]
    assert roster.find("Ann Lee") is None
    person = roster.find("Ann Lee", "9")
    assert person is not None
    assert person.get("email address") == "lee@x.org"


def test_a_deadline_of_their_own() -> None:
    assert [person.deadline for person in parse_roster(MOODLE).people] == ["2026-01-05", "", ""]


GITHUB = """"identifier","github_username","github_id","name"
"Ada Lovelace","darth","11",""
"ben@x.org","octo","12",""
"1234","cleo","13","Cleo Diaz"
"","eve-1","14",""
"""


def test_whoever_has_no_name_in_the_roster_goes_by_what_else_identifies_them() -> None:
    roster = parse_roster(GITHUB)
    assert [person.name for person in roster.people] == ["Ada Lovelace", "ben@x.org", "Cleo Diaz", "eve-1"]
    assert [person.participant for person in roster.people] == [""] * 4
    for login, name in (("darth", "Ada Lovelace"), ("OCTO", "ben@x.org"), ("1234", "Cleo Diaz")):
        person = roster.find(login)
        assert person is not None
        assert person.name == name
    assert roster.note == ("3 rows have no name; they go by a number or login instead: Ada Lovelace, ben@x.org, eve-1.")


def test_a_row_with_neither_a_name_nor_a_number_is_counted() -> None:
    roster = parse_roster("Name,ID,Section\nAda Lovelace,1,A\n,2,A\n,,A\n")
    assert [person.name for person in roster.people] == ["Ada Lovelace", "2"]
    assert roster.note == (
        "1 row has no name; it goes by a number or login instead: 2. "
        "1 row has neither a name nor a number and was left out."
    )


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "Student\n", "\x00", '"'])
def test_what_is_no_roster_says_what_one_looks_like(text: str) -> None:
    with pytest.raises(BadTable, match=r"names nobody|not a CSV"):
        parse_roster(text)


CELLS = st.sampled_from(
    ["ID", "Name", "Group", "Grade", "Maximum Grade", "Participant 1", "4,00", '"', "", "-", "x;y", "é", "\0", "sep=;"]
)
TEXTS = st.lists(st.lists(CELLS, max_size=6), max_size=6).map(lambda rows: "\r\n".join(map(",".join, rows)))
ENCODINGS = st.sampled_from(["utf-8-sig", "utf-16", "cp1252"])


@settings(max_examples=300)
@given(st.binary(max_size=80) | st.builds(lambda text, encoding: text.encode(encoding), TEXTS, ENCODINGS))
def test_whatever_is_in_the_file_it_is_read_or_refused_with_a_sentence(raw: bytes) -> None:
    for read in (parse_roster, groups.parse_groups):
        with contextlib.suppress(BadTable):
            assert read(raw)
    with contextlib.suppress(BadTable):
        table = read_table(raw)
        assert table.unencodable_count == 0
        assert table.to_bytes().startswith(table.layout.mark)
