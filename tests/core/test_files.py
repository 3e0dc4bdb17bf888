from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from graders.core.files import open_regular_file, write_atomically
from tests.trouble import nothing_can_be_written


def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "c.txt", "ü")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == "ü".encode()
    write_atomically(tmp_path / "raw", b"\xff\x00")
    assert (tmp_path / "raw").read_bytes() == b"\xff\x00"


@pytest.mark.skipif(sys.platform == "win32", reason="it has no umask")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o644), (0o027, 0o640)])
def test_others_may_read_it_as_the_umask_says_and_nothing_is_left_beside_it(
    tmp_path: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "results.json", "{}")
        write_atomically(tmp_path / "gradebook.csv", "", below=tmp_path)
    finally:
        os.umask(before)
    found = sorted((path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir())
    assert found == [("gradebook.csv", mode), ("results.json", mode)]


def test_an_old_file_is_replaced_and_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("kept")
    (tmp_path / "results.json").symlink_to(tmp_path / "outside")
    write_atomically(tmp_path / "results.json", "new")
    write_atomically(tmp_path / "results.json", "newer")
    assert (tmp_path / "results.json").read_text() == "newer"
    assert (tmp_path / "outside").read_text() == "kept"


def test_the_old_file_stays_whole_when_writing_fails(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("old")
    with nothing_can_be_written(), pytest.raises(OSError, match="File too large"):
        write_atomically(tmp_path / "results.json", "new and longer")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("results.json", "old")]


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="there is no way to open what is no link alone")
def test_a_folder_that_is_a_link_is_refused_with_its_name_and_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "elsewhere")
    said = r"runs is a link or not a folder, and is not followed; remove it: '.*runs/a\.frames'"
    with pytest.raises(NotADirectoryError, match=said):
        write_atomically(tmp_path / "runs" / "a.frames", b"x", below=tmp_path)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("inner", ["../a", "b/../../a", "b/../a"])
def test_nothing_is_written_outside_of_the_folder_that_is_named(tmp_path: Path, inner: str) -> None:
    with pytest.raises(OSError, match="it leads out of"):
        write_atomically(tmp_path / "out" / inner, "x", below=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders")
@pytest.mark.parametrize(
    ("kind", "number"), [("pipe", errno.EINVAL), ("folder", errno.EINVAL), ("link", errno.ELOOP), ("", errno.ENOENT)]
)
def test_only_a_regular_file_is_opened_and_nothing_is_waited_for(tmp_path: Path, kind: str, number: int) -> None:
    file = tmp_path / "file"
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "link":
            file.symlink_to(__file__)
    with pytest.raises(OSError, match="file") as caught:
        open_regular_file(file)
    assert caught.value.errno == number
