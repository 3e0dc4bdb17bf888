"""The roster: who is in the class, as Canvas, Moodle or a spreadsheet exports it."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from graders.core.errors import HookworkError

_NAMES = ("student", "name", "full name", "sortable name")
_FIRST, _LAST = ("first name", "firstname", "given name"), ("surname", "last name", "lastname", "family name")
_IDS = ("id", "identifier", "id number", "idnumber", "student id", "user id", "sis user id", "sis login id", "login",
        "username", "email address", "email", "folder")  # fmt: skip
_NOBODY = ("points possible", "student, test", "test student")


class BadRoster(HookworkError):
    """A roster that cannot be read; the message says what a roster looks like."""


@dataclass(frozen=True)
class Person:
    """Somebody in the class. `row` is the line of the roster, by the names of its columns in lower case."""

    name: str
    row: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def ids(self) -> tuple[str, ...]:
        """Numbers and logins by which platforms know them. Moodle writes `Participant 123` for 123."""
        found = (self.row.get(column, "").strip() for column in _IDS)
        return tuple(value.removeprefix("Participant ").strip() for value in found if value)

    @property
    def participant(self) -> str:
        """Moodle's number in this assignment, which is another one in the next; empty where the roster has none."""
        return self.row.get("identifier", "").removeprefix("Participant ").strip()

    @property
    def deadline(self) -> str:
        """A deadline of their own, ISO 8601, or empty."""
        return self.row.get("deadline", "").strip()

    @property
    def lessons(self) -> tuple[str, ...]:
        """The lessons that are due for them, as the roster names them; none where it does not say."""
        return tuple(re.findall(r"[^\s,;]+", self.row.get("lessons", "")))

    def get(self, *columns: str) -> str:
        """The first of these columns that has something in it."""
        return next((self.row[column] for column in columns if self.row.get(column)), "")


class Roster:
    """The people of a class, and how to find them."""

    def __init__(self, people: Iterable[Person], columns: Iterable[str] = ()) -> None:
        """Names and ids that belong to several people find nobody. `columns` is the header as it stands."""
        self.people, self.columns = tuple(people), tuple(columns)
        self._by_id: dict[str, set[int]] = {}
        self._by_name: dict[str, set[int]] = {}
        for index, person in enumerate(self.people):
            for identity in person.ids:
                self._by_id.setdefault(identity.casefold(), set()).add(index)
                self._by_id.setdefault(identity.casefold().partition("@")[0], set()).add(index)
            for name in _spellings(person):
                self._by_name.setdefault(name, set()).add(index)

    def find(self, name: str, number: str = "") -> Person | None:
        """Who is meant by the name and the number that a platform or a folder gave."""
        for table, asked in ((self._by_id, number.casefold()), (self._by_id, name.casefold()),
                             (self._by_name, _squashed(name))):  # fmt: skip
            found = table.get(asked, set()) if asked else set()
            if len(found) == 1:
                return self.people[next(iter(found))]
        return None


def parse(text: str) -> Roster:
    """The roster in a CSV file with a header. Raises `BadRoster`."""
    lines = text.removeprefix("\ufeff").splitlines()
    header = lines[0] if lines else ""
    delimiter = max(",;\t", key=header.count)
    people: list[Person] = []
    columns: list[str] = []
    try:
        reader = csv.DictReader(io.StringIO("\n".join(lines)), delimiter=delimiter)
        columns += reader.fieldnames or ()
        for raw in reader:
            row = {
                str(key).strip().casefold(): (value or "").strip() for key, value in raw.items() if type(value) is str
            }
            name = _name(row)
            if name and name.strip().casefold() not in _NOBODY:
                people.append(Person(name, row))
    except csv.Error as error:
        raise BadRoster(f"it is no CSV file ({error})") from error
    if not people:
        raise BadRoster(
            "it names nobody. Expected a header with a column Student or Name (or First name and Surname), and a row "
            "for each person; columns such as ID, Email address, Deadline and Lessons are used where they are there"
        )
    count: dict[str, int] = {}
    for person in people:
        count[person.name] = count.get(person.name, 0) + 1
    told_apart = (
        Person(f"{person.name} ({person.ids[0]})", person.row) if count[person.name] > 1 and person.ids else person
        for person in people
    )
    return Roster(told_apart, columns)


def _name(row: Mapping[str, str]) -> str:
    whole = next((row[column] for column in _NAMES if row.get(column)), "")
    parts = (next((row[column] for column in columns if row.get(column)), "") for columns in (_FIRST, _LAST))
    return whole or " ".join(part for part in parts if part)


def _spellings(person: Person) -> set[str]:
    """How a name may be spelled: as it stands, and with the surname in front. Canvas writes `lovelaceada`."""
    last, comma, first = person.name.partition(",")
    turned = f"{first} {last}" if comma else " ".join([*person.name.split()[-1:], *person.name.split()[:-1]])
    return {_squashed(person.name), _squashed(turned)} - {""}


def _squashed(name: str) -> str:
    """Letters and digits alone, without accents and case."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    return "".join(character for character in plain if character.isalnum())
