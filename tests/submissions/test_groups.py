"""Groups as Canvas and Moodle export them, and as people write them."""

from __future__ import annotations

import pytest

from graders.submissions.groups import parse_groups
from graders.submissions.tables import BadTable

CANVAS = """name,canvas_user_id,user_id,login_id,sections,group_name,canvas_group_id,group_id
Ada Lovelace,11,S1,ada,A,Group 1,5,
Ben Okri,12,S2,ben,A,Group 1,5,
Cy Twombly,13,S3,cy,A,,,
"""
OVERVIEW = """Grouping,Group,First name,Last name,Email address
Labs,Group 1,Ada,Lovelace,ada@x.org
Talks,Group 1,Ada,Lovelace,ada@x.org
Labs,Group 1,Ben,Okri,ben@x.org
"""
PARTICIPANTS = """"First name","Last name","Email address",Groups
Ada,Lovelace,ada@x.org,"Group 1, Group 2"
Ben,Okri,ben@x.org,"Group 1"
Cy,Twombly,cy@x.org,
"""
WORKSHEET = """ID;Vollständiger Name;Status;Gruppe;Bewertung;Bestwertung;Feedback als Kommentar
Teilnehmer/in11;Ada Lovelace;x;Group 1;;4,00;
Teilnehmer/in12;Ben Okri;x;Group 1;;4,00;
Teilnehmer/in13;Cy Twombly;x;-;;4,00;
"""
ONE = {"Group 1": ["Ada Lovelace", "Ben Okri"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CANVAS, ONE),
        (OVERVIEW, ONE),
        (PARTICIPANTS, {**ONE, "Group 2": ["Ada Lovelace"]}),
        (WORKSHEET, ONE),
        ("Student;Team\nAda Lovelace;Group 1\nBen Okri;Group 1\n", ONE),
    ],
)
def test_who_is_in_which_group(text: str, expected: dict[str, list[str]]) -> None:
    groups = parse_groups(text)
    assert {group.name: [person.name for person in group.members] for group in groups.groups} == expected


def test_a_group_is_found_as_platforms_write_its_name() -> None:
    groups = parse_groups("group,student\nGroup 1,a\ngroup-1,b\nLes Éléphants!,c\n!!!,d\n")
    found = map(groups.find, ("Group 1", "group1", "les_elephants", "", "???", "!!!", "Group 2"))
    assert [group and group.name for group in found] == ["Group 1", None, "Les Éléphants!", None, None, "!!!", None]


@pytest.mark.parametrize("text", ["Name,ID\nann,7\n", "group,student\n,ann\n-,bob\n", ""])
def test_what_has_no_groups_says_what_is_expected(text: str) -> None:
    with pytest.raises(BadTable, match="columns Group and Student"):
        parse_groups(text)
