"""Finds out who on the roster is meant by the logins and numbers that platforms give instead of names."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

from graders.submissions.layout import Layout
from graders.submissions.lms import Owner
from graders.submissions.roster import Roster


def use_roster(layout: Layout, roster: Roster) -> None:
    """Call the owners of files by their names on the roster where a platform tells who they are in another way.

    That is by the numbers and addresses in `known_by`, and by logins at the end of names as in `lesson-1-octo`, which
    is how GitHub Classroom names folders. Where two owners would become one person by numbers, both stay.
    """
    renamed = {owner: Owner(name) for owner, name in _by_numbers(layout, roster).items()}
    strangers = [
        owner.name
        for owner in layout.owners - {*renamed}
        if not owner.id and owner not in layout.known_by and roster.find(owner.name) is None
    ]
    logins = logins_in_names(strangers, roster)
    renamed |= {Owner(name): Owner(login) for name, login in logins.items()}
    layout.places = {
        entry: replace(place, owner=renamed.get(place.owner, place.owner)) for entry, place in layout.places.items()
    }
    layout.partners = {
        entry: tuple(renamed.get(owner, owner) for owner in owners) for entry, owners in layout.partners.items()
    }
    layout.owners = {renamed.get(owner, owner) for owner in layout.owners}
    if logins:
        name, login = min(logins.items())
        layout.notes.append(f"Names of folders and files end in logins of the roster: {name} is the work of {login}.")


def _by_numbers(layout: Layout, roster: Roster) -> dict[Owner, str]:
    """The names on the roster of owners with a number or an address that stands there."""
    claims: defaultdict[str, list[Owner]] = defaultdict(list)
    for owner, numbers in layout.known_by.items():
        person = next((person for number in numbers if number and (person := roster.find("", number))), None)
        if person is not None:
            claims[person.name].append(owner)
    return {owners[0]: name for name, owners in claims.items() if len(owners) == 1}


def logins_in_names(names: Iterable[str], roster: Roster) -> dict[str, str]:
    """The login of somebody on the roster at the end of a name, after the name of an assignment, for names with one.

    What comes before must have a digit, or be the same in several names: `Anne-Marie` is not the work of marie. Of
    several readings that which fits the most names counts, and then that with the longest login.
    """
    known = {identity.casefold().partition("@")[0]: identity for person in roster.people for identity in person.ids}
    known = {login: name for login, name in known.items() if re.search(r"[^\W\d]", login) and roster.find("", name)}
    readings: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        cuts = [match.end() for match in re.finditer("[-_]", name)]
        readings[name] = [
            (name[:cut].casefold(), known[login]) for cut in cuts if (login := name[cut:].casefold()) in known
        ]
    count = Counter(prefix for found in readings.values() for prefix, _ in found)
    sure = {
        name: [(prefix, login) for prefix, login in found if count[prefix] > 1 or re.search(r"\d", prefix)]
        for name, found in readings.items()
    }
    return {
        name: max(found, key=lambda reading: (count[reading[0]], len(reading[1])))[1]
        for name, found in sure.items()
        if found
    }
