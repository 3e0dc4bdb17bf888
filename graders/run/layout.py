"""Whose each file of a class is, as data."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from graders.core.text import shorten_text
from graders.run.lms import NameParts, Owner
from graders.run.tree import Entry


@dataclass(frozen=True)
class Place:
    """Whose a file is, and what its place tells. `name` is the name its owner gave it; the rest is as in `NameParts`."""

    owner: Owner
    name: str
    late: bool | None = None
    attempt: float = 0.0
    timeless: bool = False
    """Whether its time is not that of its being handed in."""


@dataclass
class Layout:
    """Whose everything is.

    `how` says how the class was read. `places` has a place for each file that is somebody's, `without_owner` a reason for
    each other; `owners` are all students, with files or without. `doubts` are sentences for the instructor.
    """

    how: str
    is_class: bool
    places: dict[Entry, Place] = field(default_factory=dict)
    without_owner: dict[Entry, str] = field(default_factory=dict)
    owners: set[Owner] = field(default_factory=set)
    doubts: list[str] = field(default_factory=list)

    def tell_equal_numbers(self) -> None:
        """Doubt names that claim one number: they are not merged, and at most one of them is right."""
        claims: defaultdict[str, set[str]] = defaultdict(set)
        for owner in self.owners:
            if owner.id:
                claims[owner.id].add(owner.name)
        for number, names in sorted(claims.items()):
            if len(names) > 1:
                shown = ", ".join(repr(shorten_text(name, 60)) for name in sorted(names))
                self.doubts.append(
                    f"The number {shorten_text(number, 40)} stands in the names of several: {shown}. Look whose it is."
                )


def place_of(named: NameParts, name: str) -> Place:
    """The place of a file with this name, by what a platform says."""
    return Place(named.owner, name, late=named.late, attempt=named.attempt, timeless=named.late is not None)
