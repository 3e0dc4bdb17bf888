"""Read who works with whom from a table of groups and students, written by hand or exported by Canvas or Moodle."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from graders.core.text import NAME_LIMIT, clean_text
from graders.submissions.roster import Person, normalised_name, people_in
from graders.submissions.roster_columns import plain_title
from graders.submissions.tables import BadTable, cell_text, read_table

_GROUP_TITLES = ("group name", "groupname", "group", "team name", "team", "gruppe", "gruppenname", "groupe",
                 "nom du groupe", "grupo", "nombre del grupo", "gruppo", "groep", "grupa", "skupina", "grupp", "ryhmä",
                 "группа")  # fmt: skip
_GROUP_LIST_TITLES = ("groups", "teams", "gruppen", "groupes", "grupos", "gruppi", "groepen", "grupy", "skupiny",
                      "grupper", "ryhmät", "группы")  # fmt: skip
"""Titles of a column that lists all groups of a student in one cell."""


@dataclass(frozen=True)
class Group:
    """A group and its members, named as in the file."""

    name: str
    members: tuple[Person, ...]


class Groups:
    """The groups of a class, by name."""

    def __init__(self, groups: Iterable[Group]) -> None:
        """Index the groups by their exact names."""
        self.groups = tuple(groups)
        self._exact = {group.name: group for group in self.groups}

    def find(self, name: str) -> Group | None:
        """The group with this exact name, or the only one that differs just in case, accents or punctuation."""
        if name in self._exact:
            return self._exact[name]
        found = [group for group in self.groups if normalised_name(group.name) == normalised_name(name) != ""]
        return found[0] if len(found) == 1 else None


def parse_groups(content: bytes | str) -> Groups:
    """The groups in a CSV file with a header. A student with several rows or several groups is in each of the groups.

    Raises `BadTable` if there is no column for groups, or nobody is in one.
    """
    table = read_table(content)
    titles = [plain_title(title) for title in table.header]
    column = next((titles.index(title) for title in (*_GROUP_TITLES, *_GROUP_LIST_TITLES) if title in titles), None)
    if column is None:
        raise BadTable(
            "it has no column Group. Expected a header with the columns Group and Student, and a row for each student, "
            "as in the groups that Canvas and Moodle export"
        )
    members: dict[str, dict[tuple[str, tuple[str, ...]], Person]] = {}
    for row, person in zip(table.rows, people_in(table)):
        written = cell_text(row, column)
        names = re.split(r"\s*[,;]\s*", written) if titles[column] in _GROUP_LIST_TITLES else [written]
        for name in (clean_text(name, NAME_LIMIT) for name in names):
            if name not in ("", "-") and person is not None:
                # Moodle repeats a group for each grouping that contains it.
                members.setdefault(name, {}).setdefault((person.name, person.ids), person)
    if not members:
        raise BadTable(
            "it puts nobody into a group. Expected the columns Group and Student, and a row for each student"
        )
    return Groups(Group(name, tuple(people.values())) for name, people in members.items())
