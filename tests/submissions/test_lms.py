from __future__ import annotations

import pytest

from graders.submissions.lms import FORMATS, NameParts, Owner, file_format


def read(name: str) -> NameParts | None:
    """What the name of a single file says."""
    found = file_format([name])
    return found.parse_file_name(name) if found else None


@pytest.mark.parametrize(
    ("name", "owner", "file"),
    [
        ("lovelaceada_12345_67890_01_first.ipynb", Owner("lovelaceada", "12345"), "01_first.ipynb"),
        ("lovelaceada_LATE_12345_67890_01_first-1.ipynb", Owner("lovelaceada", "12345"), "01_first-1.ipynb"),
        ("müllerjörg_17_123_my work_2.ipynb", Owner("müllerjörg", "17"), "my work_2.ipynb"),
        ("team_alpha_12_345_x.ipynb", Owner("team_alpha", "12"), "x.ipynb"),
        ("Ada Lovelace_12_assignsubmission_file_01_a_b.ipynb", Owner("Ada Lovelace", "12"), "01_a_b.ipynb"),
        ("A_B C_12_assignsubmission_file_x.zip", Owner("A_B C", "12"), "x.zip"),
        ("L_s1_attempt_2026-11-24-18-03-21_x_s2_attempt_2026-11-24-18-03-21_y.ipynb", Owner("s1"),
         "x_s2_attempt_2026-11-24-18-03-21_y.ipynb"),
        ("ada@x.edu_3_ben@x.edu_4_y.ipynb", Owner("ada@x.edu"), "ben@x.edu_4_y.ipynb"),
    ],
)  # fmt: skip
def test_a_platform_writes_owner_and_name_into_one(name: str, owner: Owner, file: str) -> None:
    named = read(name)
    assert named
    assert (named.owner, named.file) == (owner, file)


@pytest.mark.parametrize(
    "name",
    [
        "01_first.ipynb",
        "ann_01_first.ipynb",
        "notes_2024_11_01_first.ipynb",
        "a_12_345_",
        "_12_345_x.ipynb",
        "a_12_345",
    ],
)
def test_an_ordinary_name_has_no_owner(name: str) -> None:
    assert read(name) is None


def test_names_that_chance_could_have_made_are_canvas_when_all_are() -> None:
    short = ["ada_5_12_x.ipynb", "ben_6_13_x.ipynb"]
    found = file_format(short)
    assert found
    assert found.name == "Canvas"
    assert file_format([*short, "01_first.ipynb"]) is None


def test_for_a_whole_folder_one_format_counts() -> None:
    canvas = ["ada_12_345_x.ipynb", "ben_13_346_99_assignsubmission_file_x.ipynb", "cy_14_347_x.ipynb"]
    moodle = ["Ada_12_assignsubmission_file_x.ipynb", "Ben_13_assignsubmission_file_1_2345_x.ipynb"]
    for names, expected in ((canvas, "Canvas"), (moodle, "Moodle"), (canvas[1:2], "Canvas"), (moodle[1:], "Moodle")):
        found = file_format(names)
        assert found
        assert found.name == expected


def test_months_are_read_in_full_as_well_but_not_in_a_language_of_which_nothing_is_known() -> None:
    for month, known in (("November", True), ("Brumaire", False)):
        named = read(f"12-99 - Ada - {month} 24, 2026 1803 - x.ipynb")
        assert named
        assert (named.attempt > 0) is known


def test_canvas_says_in_the_name_of_a_file_whether_it_is_late() -> None:
    late = {"ann_LATE_12_345_x.ipynb": True, "ann_12_345_x.ipynb": False, "LATE_anon_aB1cD_345_x.ipynb": True,
            "Ada_12_assignsubmission_file_x.ipynb": None}  # fmt: skip
    for name, expected in late.items():
        named = read(name)
        assert named
        assert named.late is expected


def test_no_name_makes_a_pattern_search_for_long() -> None:
    long = "a_1" * 80 + "_attempt_" + "-1" * 120
    for known in FORMATS:
        known.parse_file_name(long)
        known.parse_folder_name(long)
