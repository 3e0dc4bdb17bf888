"""Somebody replaces files and folders of `--out` by links while a class is marked: nothing is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from graders.core.files import read_own_file, write_atomically


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.write_text("kept")
    out.mkdir()
    (out / "results.json").symlink_to(victim)
    write_atomically(out / "results.json", "new", below=out)
    assert (victim.read_text(), (out / "results.json").read_text()) == ("kept", "new")
    assert not (out / "results.json").is_symlink()


@pytest.mark.parametrize("linked", ["feedback", "feedback/ann"])
def test_a_linked_folder_is_not_written_to(tmp_path: Path, linked: str) -> None:
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "out"
    (elsewhere / "ann").mkdir(parents=True)
    (out / linked).parent.mkdir(parents=True)
    (out / linked).symlink_to(elsewhere)
    with pytest.raises(OSError, match=Path(linked).name):
        write_atomically(out / "feedback/ann/01.html", "new", below=out)
    assert [path.name for path in elsewhere.rglob("*")] == ["ann"]


def test_the_folder_that_was_asked_for_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "out/feedback/a.html", "new", below=tmp_path / "out")
    assert read_own_file(tmp_path / "real/feedback/a.html") == b"new"
    assert [path.name for path in (tmp_path / "real/feedback").iterdir()] == ["a.html"]
