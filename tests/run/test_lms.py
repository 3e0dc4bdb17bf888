from __future__ import annotations

import pytest

from graders.run.lms import Owner, late_by_name, owner_in_archive, owner_of_file, owner_of_folder


@pytest.mark.parametrize(
    ("name", "owner", "file"),
    [
        ("lovelaceada_12345_67890_01_first.ipynb", Owner("lovelaceada", "12345"), "01_first.ipynb"),
        ("lovelaceada_LATE_12345_67890_01_first-1.ipynb", Owner("lovelaceada", "12345"), "01_first-1.ipynb"),
        ("müllerjörg_17_123_my work_2.ipynb", Owner("müllerjörg", "17"), "my work_2.ipynb"),
        ("Ada Lovelace_12_assignsubmission_file_01_a_b.ipynb", Owner("Ada Lovelace", "12"), "01_a_b.ipynb"),
        ("A_B C_12_assignsubmission_file_x.zip", Owner("A_B C", "12"), "x.zip"),
    ],
)
def test_a_platform_writes_owner_and_name_into_one(name: str, owner: Owner, file: str) -> None:
    assert owner_of_file(name) == (owner, file)


@pytest.mark.parametrize(
    "name",
    ["01_first.ipynb", "ann_01_first.ipynb", "notes_2024_11_01_first.ipynb", "a_b_12_345_x.ipynb", "a_12_345_",
     "_12_345_x.ipynb", "a_12_345", "a/b_12_345_x.ipynb"],
)  # fmt: skip
def test_an_ordinary_name_has_no_owner(name: str) -> None:
    assert owner_of_file(name) is None


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("Ada Lovelace_123456_assignsubmission_file_", Owner("Ada Lovelace", "123456")),
        ("Ada Lovelace_123456_assignsubmission_file", Owner("Ada Lovelace", "123456")),
        ("Ada Lovelace_123456_assignsubmission_onlinetext_", Owner("Ada Lovelace", "123456")),
        ("ada_lovelace", Owner("ada_lovelace")),
        ("ada_12_345_x", Owner("ada_12_345_x")),
    ],
)
def test_a_folder_is_always_somebodys(name: str, owner: Owner) -> None:
    assert owner_of_folder(name) == owner


def test_a_path_in_an_archive_is_that_of_a_folder_or_of_a_file() -> None:
    assert owner_in_archive("ann/work/01_first.ipynb") == Owner("ann")
    assert owner_in_archive("ann_12_345_01_first.ipynb") == Owner("ann", "12")
    assert owner_in_archive("01_first.ipynb") is None


def test_canvas_says_in_the_name_of_a_file_whether_it_is_late() -> None:
    assert late_by_name("ann_LATE_12_345_01_first.ipynb") is True
    assert late_by_name("ann_12_345_01_first.ipynb") is False
    assert late_by_name("Ada Lovelace_12_assignsubmission_file_01_first.ipynb") is None
    assert late_by_name("01_first.ipynb") is None
