"""The layout of a class as data: which student each file belongs to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from graders.core.text import shorten_text
from graders.submissions.lms import NameParts, Owner
from graders.submissions.student_names import VISIBLE_BLANK, visible_name
from graders.submissions.tree import Entry

OWN_NAME = "me"
"""The student's name when a single notebook, or one folder of notebooks, is marked."""


@dataclass(frozen=True)
class Place:
    """The owner of a file, the name that the owner gave it, and `late` and `attempt` as in `NameParts`."""

    owner: Owner
    name: str
    late: bool | None = None
    attempt: float = 0.0
    timeless: bool = False
    """Whether the file's time is not when it was handed in, but for example when a platform packed it."""


@dataclass
class Layout:
    """The owner of each file.

    `how` says in a few words how the class was read. `places` has every file with an owner, and `without_owner` every
    other file, with the reason. `owners` are all students, also those without files. `partners` handed in a file
    together with its owner, and `known_by` has numbers and addresses that a platform gives beside a name. `doubts` and
    `notes` are sentences for the instructor.
    """

    how: str
    is_class: bool
    places: dict[Entry, Place] = field(default_factory=dict)
    without_owner: dict[Entry, str] = field(default_factory=dict)
    owners: set[Owner] = field(default_factory=set)
    partners: dict[Entry, tuple[Owner, ...]] = field(default_factory=dict)
    known_by: dict[Owner, tuple[str, ...]] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def tell_equal_numbers(self) -> None:
        """Add a doubt for each number that several names have. They stay different students."""
        claims: defaultdict[str, set[str]] = defaultdict(set)
        for owner in self.owners:
            if owner.id:
                claims[owner.id].add(owner.name)
        for number, names in sorted(claims.items()):
            if len(names) > 1:
                shown = ", ".join(repr(shorten_text(name, 60)) for name in sorted(names))
                self.doubts.append(
                    f"Several students have the number {shorten_text(number, 40)}: {shown}. Check whose it is."
                )


def place_of(named: NameParts, name: str) -> Place:
    """The place of the file `name`, from what a platform says about it."""
    return Place(named.owner, name, late=named.late, attempt=named.attempt, timeless=named.late is not None)


def unique_names(owners: Iterable[Owner]) -> dict[Owner, str]:
    """A name for each student that can be shown and is unique."""
    shown = {owner: shown_name(owner.name) for owner in owners}
    count = Counter(shown.values())
    names: dict[Owner, str] = {}
    # First those whose own name is exactly the one that is shown.
    for owner in sorted(shown, key=lambda owner: (shown[owner] != owner.name, owner)):
        name = f"{shown[owner]} ({owner.id})" if owner.id and count[shown[owner]] > 1 else shown[owner]
        while name in names.values():
            name += "*"
        names[owner] = name
    return names


def shown_name(name: str) -> str:
    """A student's name in a form that can be shown and used for a folder."""
    shown = visible_name(name)
    return shown if shown.strip(f". {VISIBLE_BLANK}") else OWN_NAME
