from __future__ import annotations

import pytest

from graders.report.names import file_names


@pytest.mark.parametrize(
    ("student", "name"),
    [
        ("ann", "ann"),
        ("Ann Lee", "Ann_Lee"),
        ("josé", "josé"),
        ("jose\u0301", "josé"),
        ("../../etc/passwd", "etc_passwd"),
        ("a/b\\c:d", "a_b_c_d"),
        ("<script>", "script"),
        ("...", "student"),
        ("", "student"),
        ("con", "_con"),
        ("nul.txt", "_nul.txt"),
        ("a\x00\u202eb", "a_b"),
        ("-rf", "rf"),
        ("\udce9", "student"),
    ],
)
def test_a_name_is_safe_on_every_system(student: str, name: str) -> None:
    assert file_names([student]) == {student: name}


def test_names_that_become_equal_are_counted() -> None:
    assert file_names(["ann", "Ann", "ann!", "ann_"]) == {
        "Ann": "Ann",
        "ann": "ann-2",
        "ann!": "ann-3",
        "ann_": "ann-4",
    }


def test_a_counted_name_meets_no_other() -> None:
    names = file_names(["a!", "a?", "a-2"])
    assert len({name.casefold() for name in names.values()}) == 3


def test_long_names_are_cut_and_stay_apart() -> None:
    names = file_names(["x" * 300 + "a", "x" * 300 + "b"])
    assert sorted(names.values()) == ["x" * 60, "x" * 60 + "-2"]


def test_a_name_that_is_a_folders_own_keeps_it() -> None:
    assert file_names(["␣zzz_good", "zzz_good"]) == {"zzz_good": "zzz_good", "␣zzz_good": "zzz_good-2"}
