"""Read a roster, the list of people in a class, as Canvas, Moodle or a spreadsheet exports it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graders.core.text import (
    FILE_LIMIT,
    MESSAGE_LIMIT,
    NAME_LIMIT,
    WORD_LIMIT,
    clean_fields,
    clean_text,
    format_count,
    shorten_text,
)
from graders.submissions.roster_columns import PARTICIPANT_NUMBER, Columns, find_columns, plain_title
from graders.submissions.tables import BadTable, Table, cell_text, parse_number, read_table

_TEST_STUDENTS = ("student, test", "test student")


@dataclass(frozen=True)
class Person:
    """Somebody in the class. `row` maps the titles of the roster's columns, in lower case, to the person's cells.

    `ids` are the numbers and logins by which platforms know the person. `participant` is Moodle's number, which is
    different in each assignment; empty if the roster has none.
    """

    name: str
    row: Mapping[str, str] = field(default_factory=dict, hash=False)
    ids: tuple[str, ...] = ()
    participant: str = ""
    email: str = ""

    def __post_init__(self) -> None:
        """Rosters contain names that students chose."""
        clean_fields(self, name=NAME_LIMIT, ids=NAME_LIMIT, participant=NAME_LIMIT, email=NAME_LIMIT)
        object.__setattr__(self, "row", {title: clean_text(text, FILE_LIMIT) for title, text in self.row.items()})

    @property
    def deadline(self) -> str:
        """Their own deadline in ISO 8601, or empty."""
        return self.row.get("deadline", "")

    @property
    def lessons(self) -> tuple[str, ...]:
        """The lessons that they have to hand in, as the roster names them; empty if it does not say."""
        return tuple(re.findall(r"[^\s,;]+", self.row.get("lessons", "")))

    def get(self, *columns: str) -> str:
        """The text of the first of these columns that is not empty; empty if all are."""
        return next((self.row[column] for column in columns if self.row.get(column)), "")


@dataclass(frozen=True)
class Worksheet:
    """A grading worksheet from Moodle: its table, the index of its column for grades, and the person of each row."""

    table: Table
    columns: Columns
    grade: int
    people: tuple[Person | None, ...]


class Roster:
    """The people in a class, and how to find them.

    `columns` is the header, unchanged. `maxima` maps the column of an assignment to its maximum points on the platform.
    `worksheet` is set if the roster is a grading worksheet from Moodle.
    """

    def __init__(
        self,
        people: Iterable[Person],
        columns: Iterable[str] = (),
        maxima: Mapping[str, float] | None = None,
        worksheet: Worksheet | None = None,
        note: str = "",
    ) -> None:
        """Index the people by name and id. `note` says what was uncertain about the file, such as its encoding."""
        self.people, self.columns = tuple(people), tuple(clean_text(title, FILE_LIMIT) for title in columns)
        self.maxima = {clean_text(title, FILE_LIMIT): most for title, most in (maxima or {}).items()}
        self.worksheet, self.note = worksheet, note
        self._by_id: dict[str, set[int]] = {}
        self._by_name: dict[str, set[int]] = {}
        for index, person in enumerate(self.people):
            for identity in person.ids:
                self._by_id.setdefault(identity.casefold(), set()).add(index)
                self._by_id.setdefault(identity.casefold().partition("@")[0], set()).add(index)
            for name in _name_spellings(person):
                self._by_name.setdefault(name, set()).add(index)

    def find(self, name: str, number: str = "") -> Person | None:
        """The person with this number or name, as a platform or a folder has them; None if several share it."""
        for table, asked in ((self._by_id, number.casefold()), (self._by_id, name.casefold()),
                             (self._by_name, normalised_name(name))):  # fmt: skip
            found = table.get(asked, set()) if asked else set()
            if len(found) == 1:
                return self.people[next(iter(found))]
        return None


def parse_roster(content: bytes | str) -> Roster:
    """The roster in a CSV file with a header. Raises `BadTable` if it cannot be read or names nobody."""
    table = read_table(content)
    columns = find_columns(table)
    rows = _people_in_rows(table, columns)
    everyone = with_distinct_names([person for person in rows if person is not None])
    if not everyone:
        raise BadTable(
            "it names nobody. Expected a header with a column Student or Name (or First name and Surname), and a row "
            "for each person; columns such as ID, Email address, Deadline and Lessons are used if there are any"
        )
    left = iter(everyone)
    people = tuple(None if person is None else next(left) for person in rows)
    worksheet = None if columns.grade is None else Worksheet(table, columns, columns.grade, people)
    note = " ".join(filter(None, (_encoding_note(table, everyone), _nameless_note(table, columns, people))))
    return Roster(everyone, table.header, _assignment_maxima(table, columns), worksheet, note)


def _encoding_note(table: Table, everyone: Sequence[Person]) -> str:
    name = next((person.name for person in everyone if not person.name.isascii()), "")
    if not (table.layout.guessed and name):
        return ""
    return (
        f"it is not UTF-8, and was read as {table.layout.encoding}. Is the name {name} right? If not, save it as UTF-8."
    )


def _nameless_note(table: Table, columns: Columns, people: Sequence[Person | None]) -> str:
    """What became of rows without a name; empty if every row has one, or none can have one."""
    if columns.is_blind:
        return ""
    start = _maxima_row(table, columns)
    nameless = [
        person
        for index, (row, person) in enumerate(zip(table.rows, people))
        if not _written_name(row, columns) and (start is None or index > start)
    ]
    called = [person.name for person in nameless if person]
    said = []
    if called:
        names = shorten_text(", ".join(called), MESSAGE_LIMIT)
        go = "has no name; it goes" if len(called) == 1 else "have no name; they go"
        said.append(f"{format_count(len(called), 'row')} {go} by a number or login instead: {names}.")
    if left := len(nameless) - len(called):
        were = "has neither a name nor a number and was" if left == 1 else "have neither a name nor a number and were"
        said.append(f"{format_count(left, 'row')} {were} left out.")
    return " ".join(said)


def people_in(table: Table) -> list[Person | None]:
    """The person in each row of a table; None for a row that names nobody."""
    return _people_in_rows(table, find_columns(table))


def _people_in_rows(table: Table, columns: Columns) -> list[Person | None]:
    maxima = _maxima_row(table, columns)
    return [None if index == maxima else _person_in_row(table, row, columns) for index, row in enumerate(table.rows)]


def _written_name(row: Sequence[str], columns: Columns) -> str:
    """The name in a row; empty if it has none."""
    parts = (cell_text(row, columns.first), cell_text(row, columns.last))
    return cell_text(row, columns.name) or " ".join(filter(None, parts))


def _person_in_row(table: Table, row: Sequence[str], columns: Columns) -> Person | None:
    """The person in a row. Without a name they are called by Moodle's number, or by what else identifies them."""
    written, email = cell_text(row, columns.identifier), cell_text(row, columns.email)
    match = PARTICIPANT_NUMBER.fullmatch(written)
    participant = match["number"] if match else written
    numbers = (participant, *(cell_text(row, index) for index in columns.ids), email)
    others = () if columns.is_blind else numbers
    name = _written_name(row, columns) or next(filter(None, (written, *others)), "")
    if not name or name.casefold() in _TEST_STUDENTS:
        return None
    return Person(
        name,
        {
            plain_title(title): cell_text(row, index)
            for index, title in enumerate(table.header)
            if index != columns.identifier
        },
        tuple(dict.fromkeys(filter(None, numbers))),
        participant,
        email,
    )


def _maxima_row(table: Table, columns: Columns) -> int | None:
    """The index of Canvas's row of maximum points; None if there is none.

    Canvas writes it above all people, without ids, and indented whatever the language. A person may be called like it.
    """
    index = next((index for index, row in enumerate(table.rows) if _written_name(row, columns)), None)
    if index is None or columns.name is None:
        return None
    row = table.rows[index]
    if any(cell_text(row, one) for one in columns.ids):
        return None
    if cell_text(row, columns.name).casefold() == "points possible":
        return index
    indented = row[columns.name].startswith("   ") and any(parse_number(cell) is not None for cell in row)
    return index if columns.ids and indented else None


def _assignment_maxima(table: Table, columns: Columns) -> dict[str, float]:
    """The maximum points of each assignment, from Canvas's row of them, by the title of its column."""
    index = _maxima_row(table, columns)
    row = () if index is None else table.rows[index]
    found = ((title, parse_number(written)) for title, written in zip(table.header, row))
    return {title: most for title, most in found if most}


def with_distinct_names(people: Sequence[Person]) -> list[Person]:
    """The people, with an id added to a name that several share, and asterisks if that is not enough."""
    count = Counter(person.name for person in people)
    found: list[Person] = []
    names: set[str] = set()
    for person in people:
        name = person.name
        if count[name] > 1:
            # Shortened, because a name that grows beyond the limit would be cut, and be another's again.
            name = shorten_text(name, NAME_LIMIT // 2)
            name += f" ({shorten_text(person.ids[0], WORD_LIMIT)})" if person.ids else ""
        while name in names:
            name += "*"
        names.add(name)
        found.append(replace(person, name=name))
    return found


def _name_spellings(person: Person) -> set[str]:
    """A name, normalised, with the given name first and with the surname first, as in Canvas's `lovelaceada`."""
    last, comma, first = person.name.partition(",")
    turned = f"{first} {last}" if comma else " ".join([*person.name.split()[-1:], *person.name.split()[:-1]])
    return {normalised_name(person.name), normalised_name(turned)} - {""}


def normalised_name(name: str) -> str:
    """The letters and digits of a name in lower case, without accents."""
    decomposed = unicodedata.normalize("NFKD", name).casefold()
    return "".join(character for character in decomposed if character.isalnum())
