from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graders.sandbox.outside.leftovers import remove_leftovers, temporary_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is locked there")


def old(folder: Path, seconds: float = 1000) -> Path:
    """The same folder, as if nothing had happened in it for a while."""
    os.utime(folder, (0, folder.stat().st_mtime - seconds))
    return folder


def test_a_temporary_folder_is_gone_afterwards(tmp_path: Path) -> None:
    with temporary_folder("box", tmp_path) as folder:
        assert folder.parent == tmp_path
        assert folder.name.startswith("hookwork-box-")
        (folder / "locked").mkdir(mode=0)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    program = (
        "import os, pathlib\nfrom graders.sandbox.outside.leftovers import temporary_folder\n"
        f"with temporary_folder('modules', pathlib.Path({str(tmp_path)!r})) as folder:\n"
        "    (folder / 'file').touch()\n    os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    (left,) = tmp_path.iterdir()
    remove_leftovers(tmp_path)  # it may be about to be locked
    assert list(tmp_path.iterdir()) == [left]
    old(left)
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_use_or_not_ours_stays(tmp_path: Path) -> None:
    other, outside = tmp_path / "hookwork-mine", tmp_path / "elsewhere"
    for folder in (other, outside):
        folder.mkdir()
        old(folder)
    (tmp_path / "hookwork-box-file").touch()
    (tmp_path / "hookwork-box-link").symlink_to(outside)
    with temporary_folder("box", tmp_path) as folder:
        old(folder)
        before = set(tmp_path.iterdir())
        remove_leftovers(tmp_path)
        assert set(tmp_path.iterdir()) == before


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="takes root to make files of others")
def test_root_sweeps_the_folders_of_boxes_but_not_those_of_people(tmp_path: Path) -> None:
    boxes, people = tmp_path / "hookwork-box-a", tmp_path / "hookwork-box-b"
    for folder, uid in ((boxes, 400_123), (people, 1000)):
        folder.mkdir()
        os.chown(folder, uid, uid)
        old(folder)
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [people]
