from __future__ import annotations

import pytest

from graders.submissions.student_names import is_plain_name, lookalike_names, name_sort_key, visible_name


@pytest.mark.parametrize("name", ["zzz_good", "Ann Lee", "Çelik, Özge", "李 明", "x" * 60])
def test_most_names_stay_as_they_are(name: str) -> None:
    assert visible_name(name) == name
    assert is_plain_name(name)


@pytest.mark.parametrize(
    ("name", "shown"),
    [(" zzz", "␣zzz"), ("zzz  ", "zzz␣␣"), ("Ann  Lee", "Ann ␣Lee"), ("\u00a0zzz\u2003", "␣zzz␣"),
     ("zzz\u200b", "zzz\ufffd"), ("\u202ezzz", "\ufffdzzz")],
)  # fmt: skip
def test_what_cannot_be_seen_is_shown(name: str, shown: str) -> None:
    assert visible_name(name) == shown
    assert not is_plain_name(shown)


def test_names_are_sorted_as_people_read_them() -> None:
    names = ["ann", "Çelik", "Cy", "Élan", "Emil", "Émile", "Eva", "Łukasz", "Mia", "Ødegaard", "Zed"]
    assert sorted([*names[5:], *names[:5]], key=name_sort_key) == names


def test_names_that_look_alike_are_told() -> None:
    assert lookalike_names(["ann", "Ann", "bob", "␣bob", "\u0430nn", "eve", "J\u00f6rg", "Jorg", "l0", "lo"]) == [
        ["Ann", "ann", "\u0430nn"],
        ["Jorg", "J\u00f6rg"],
        ["bob", "␣bob"],
        ["l0", "lo"],
    ]
