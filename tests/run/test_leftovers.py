from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from graders.run.leftovers import sweep, temporary_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is locked there")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is this process's folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def old(folder: Path, seconds: float = 1000) -> Path:
    """The same folder, as if nothing had happened in it for a while."""
    os.utime(folder, (0, folder.stat().st_mtime - seconds))
    return folder


def test_a_temporary_folder_is_gone_afterwards(temporary: Path) -> None:
    with temporary_folder("box") as folder:
        assert folder.parent == temporary
        assert folder.name.startswith("hookwork-box-")
        (folder / "locked").mkdir(mode=0)
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_swept(temporary: Path) -> None:
    program = (
        "import os, tempfile\nfrom graders.run.leftovers import temporary_folder\n"
        f"tempfile.tempdir = {str(temporary)!r}\n"
        "with temporary_folder('kit') as folder:\n    (folder / 'file').touch()\n    os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    (left,) = temporary.iterdir()
    sweep()  # it may be about to be locked
    assert list(temporary.iterdir()) == [left]
    old(left)
    sweep()
    assert list(temporary.iterdir()) == []


def test_what_is_in_use_or_not_ours_stays(temporary: Path) -> None:
    other, outside = temporary / "hookwork-mine", temporary / "elsewhere"
    for folder in (other, outside):
        folder.mkdir()
        old(folder)
    (temporary / "hookwork-box-file").touch()
    (temporary / "hookwork-box-link").symlink_to(outside)
    with temporary_folder("box") as folder:
        old(folder)
        before = set(temporary.iterdir())
        sweep()
        assert set(temporary.iterdir()) == before


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="takes root to make files of others")
def test_root_sweeps_the_folders_of_boxes_but_not_those_of_people(temporary: Path) -> None:
    boxes, people = temporary / "hookwork-box-a", temporary / "hookwork-box-b"
    for folder, uid in ((boxes, 400_123), (people, 1000)):
        folder.mkdir()
        os.chown(folder, uid, uid)
        old(folder)
    sweep()
    assert list(temporary.iterdir()) == [people]
