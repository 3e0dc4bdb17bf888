"""Folders that lead nowhere, to themselves or too deep, or whose name begins with a dot, are their student's alone."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from graders.sandbox.outside.leftovers import remove_tree
from graders.submissions.archives import HIDDEN, MAX_DEPTH, TOO_DEEP
from graders.submissions.finding import find_submissions
from tests import notebooks
from tests.trouble import nest

LESSON = "01_first_things"
LINK = "The folder is a link to another place, which is not followed. Hand in the notebooks themselves."


def hand_in(*students: Path) -> None:
    for folder in students:
        folder.mkdir(parents=True)
        (folder / f"{LESSON}.ipynb").write_text(notebooks.text("x = 1"))


def marked(where: Path, scratch: Path | None = None) -> dict[str, str]:
    """For each student, why nothing is marked; empty if something is. Every file is accounted for, and none is open."""
    found = find_submissions(where, [LESSON], scratch)
    assert (found.open_accounts, found.doubts) == ([], ())
    return {one.student: one.problem or ("" if one.file else "missing") for one in found.submissions}


@pytest.mark.parametrize("target", ["bob", "gone", ".", ".other"], ids=["itself", "nowhere", "the class", "a circle"])
def test_a_link_is_a_problem_of_its_student(tmp_path: Path, target: str) -> None:
    hand_in(tmp_path / "ann", tmp_path / "cem")
    (tmp_path / "bob").symlink_to(target)
    (tmp_path / ".other").symlink_to("bob")
    assert marked(tmp_path) == {"ann": "", "bob": LINK, "cem": ""}


def test_links_beside_a_notebook_do_no_harm(tmp_path: Path) -> None:
    hand_in(tmp_path / "ann", tmp_path / "bob")
    for name in ("loop", "notes.txt"):
        (tmp_path / "bob" / name).symlink_to(name)
    assert marked(tmp_path) == {"ann": "", "bob": ""}


def test_the_folder_of_the_results_is_left_out_by_whatever_path(tmp_path: Path) -> None:
    hand_in(tmp_path / "ann", tmp_path / "bob", tmp_path / "results")
    (tmp_path / "link").symlink_to("results")
    found = find_submissions(tmp_path, [LESSON], besides=tmp_path / "bob" / ".." / "link")
    assert [submission.student for submission in found.submissions] == ["ann", "bob"]


@pytest.mark.skipif(os.mkdir not in os.supports_dir_fd, reason="such a path cannot be made here")
def test_what_lies_too_deep_is_not_read(tmp_path: Path) -> None:
    hand_in(tmp_path / "ann", tmp_path / "bob")
    try:
        nest(tmp_path / "bob", 1_100)
        nest(tmp_path / "cem", 1_100)
        assert marked(tmp_path) == {"ann": "", "bob": "", "cem": TOO_DEEP}
    finally:
        remove_tree(tmp_path)  # pytest could not


def test_a_folder_with_a_dot_is_in_the_results_if_it_holds_work(tmp_path: Path) -> None:
    hand_in(tmp_path / "ann", tmp_path / ".bob", tmp_path / "cem", tmp_path / "cem" / ".old", tmp_path / ".git")
    (tmp_path / ".empty").mkdir()
    assert marked(tmp_path) == {"ann": "", ".bob": HIDDEN, "cem": ""}
    fates = {account.file: account.fate for account in find_submissions(tmp_path, [LESSON]).accounts}
    assert fates[str(tmp_path / "cem" / ".old")] == HIDDEN


def test_an_archive_is_read_in_the_same_way(tmp_path: Path) -> None:
    folders = ("ann", ".bob", "cem", "cem/.old", ".git", "dan" + "/d" * MAX_DEPTH, "eve" + "/e" * 30_000)
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as packed:
        for folder in folders:
            packed.writestr(f"{folder}/{LESSON}.ipynb", notebooks.text("x = 1"))
    (scratch := tmp_path / "scratch").mkdir()
    wanted = {"ann": "", ".bob": HIDDEN, "cem": "", "dan": TOO_DEEP, "eve": TOO_DEEP}
    assert marked(tmp_path / "class.zip", scratch) == wanted
