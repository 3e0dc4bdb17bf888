from __future__ import annotations

import os
from pathlib import Path

import pytest

from graders.learner.folder import copy_lessons
from graders.learner.saved import SavedNotebooks
from tests.learner.answers import FIRST


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy_lessons(tmp_path)
    return tmp_path


def looks(saved: SavedNotebooks, count: int = 3) -> list[list[str]]:
    """The names that some looks in a row find."""
    return [[file.name for _, file in saved.find_newly_saved()] for _ in range(count)]


def test_what_is_there_at_the_start_was_not_saved(folder: Path) -> None:
    assert looks(SavedNotebooks(folder)) == [[], [], []]


def test_a_save_is_found_once_as_soon_as_the_file_rests(folder: Path) -> None:
    saved = SavedNotebooks(folder)
    (folder / FIRST).write_text((folder / FIRST).read_text() + " ")
    assert looks(saved) == [[], [FIRST], []]


def test_a_file_that_is_still_being_written_is_waited_for(folder: Path) -> None:
    saved = SavedNotebooks(folder)
    text = (folder / FIRST).read_text()
    for part in (10, 100, 1000):
        (folder / FIRST).write_text(text[:part])
        assert looks(saved, 1) == [[]]
    (folder / FIRST).write_text(text + " ")
    assert looks(saved) == [[], [FIRST], []]


def test_a_file_that_is_replaced_counts_even_with_an_old_time(folder: Path) -> None:
    saved = SavedNotebooks(folder)
    facts = (folder / FIRST).stat()
    (folder / "temporary").write_bytes((folder / FIRST).read_bytes())
    os.utime(folder / "temporary", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    os.replace(folder / "temporary", folder / FIRST)
    assert looks(saved) == [[], [FIRST], []]


def test_a_notebook_that_disappears_and_comes_back_is_marked(folder: Path) -> None:
    saved = SavedNotebooks(folder)
    text = (folder / FIRST).read_text()
    (folder / FIRST).unlink()
    assert looks(saved) == [[], [], []]
    (folder / FIRST).write_text(text)
    assert looks(saved) == [[], [FIRST], []]


def test_other_files_are_not_looked_at(folder: Path) -> None:
    saved = SavedNotebooks(folder)
    (folder / "scratch.ipynb").write_text("{}")
    (folder / "hookwork-progress.json").write_text("{}")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / FIRST).write_text("{}")
    assert looks(saved) == [[], [], []]
