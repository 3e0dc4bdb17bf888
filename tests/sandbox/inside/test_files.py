"""What a notebook has written, in a file system of its own and elsewhere."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from graders.sandbox.inside.files import files_over_limit, remove_notebook_files
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import missing_for_tier
from graders.wire.limits import MIB, NOTEBOOK_FOLDERS, Limits

LIMITS = Limits(files=MIB, inodes=20)


def test_in_a_folder_that_is_no_file_system_what_is_seen_counts(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    assert files_over_limit(str(tmp_path), LIMITS) is None
    (tmp_path / "work/large").write_bytes(bytes(18 * MIB))
    assert files_over_limit(str(tmp_path), LIMITS) == "more than 1 MiB of files"
    for number in range(20):
        (tmp_path / f"work/{number}").touch()
    assert files_over_limit(str(tmp_path), LIMITS) == "more than 20 files"


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of folders")
def test_closed_folders_go_as_well(tmp_path: Path) -> None:
    if os.getuid() == 0:
        pytest.skip("no folder is closed to root; the hostile catalogue tries it in tiers A and B")
    inner = tmp_path / "work/a/b"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    for folder in (inner, inner.parent, tmp_path / "work"):
        folder.chmod(0)
    remove_notebook_files(str(tmp_path))
    assert {path.name for path in tmp_path.rglob("*")} == set(NOTEBOOK_FOLDERS)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has bubblewrap")
@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "."])
def test_files_of_no_bytes_are_bounded_where_bubblewrap_does_not_bound_them(box_modules: Path, place: str) -> None:
    if reason := missing_for_tier("A"):
        pytest.skip(reason)
    code = (
        f"import os, time\nos.mkdir('{place}/closed')\nfor i in range(6000):\n    os.mknod(f'{place}/closed/{{i}}')\n"
    )
    cells = [
        code + f"os.chmod('{place}/closed', 0)\ntime.sleep(50)",
        f"import os\nassert not os.path.exists('{place}/closed')",
    ]
    frames = BoxRunner(box_modules, "A", Limits()).run(cells, []).frames
    found = [frame.head for frame in frames if frame.type == "cell"]
    assert [head["status"] for head in found] == ["over-limit", "ok"]
    assert found[0]["message"] == "files: the notebook wrote more than 4000 files"
