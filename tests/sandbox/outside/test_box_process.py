from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from graders.probing import forked
from graders.probing.asking import Answer
from graders.sandbox.outside import box_process
from graders.sandbox.outside.conversation import run_notebook
from graders.sandbox.outside.leftovers import remove_tree
from graders.sandbox.outside.low_memory import Bound, LowMemoryGuard
from graders.sandbox.outside.warm_process import WarmProcess
from graders.wire import forking
from graders.wire.frames import Frame
from graders.wire.limits import Limits
from tests.trouble import nest


def test_a_tree_deeper_than_a_path_can_be_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    nest(folder, 3000)
    remove_tree(folder)
    assert not folder.exists()


def locked_tree() -> tuple[Path, Path]:
    """A folder whose folders are locked one inside the other, with a link to a file outside, and that file."""
    folder = inner = Path(tempfile.mkdtemp())
    outside = Path(tempfile.mkdtemp()) / "outside"
    outside.write_text("kept")
    outside.chmod(0o604)
    for name in ("a", "b", "c"):
        inner = inner / name
        inner.mkdir()
    (inner / "link").symlink_to(outside)
    (inner / "file").write_text("removed")
    inner.chmod(0o500)
    inner.parent.chmod(0)
    inner.parent.parent.chmod(0)
    return folder, outside


@pytest.mark.skipif(not forking.can_fork, reason="needs a fork")
def test_locked_folders_are_removed_and_no_link_is_followed() -> None:
    def work(_: Frame) -> Answer:
        if os.getuid() == 0:
            os.setuid(65534)  # nothing is locked for root
        folder, outside = locked_tree()
        remove_tree(folder)
        seen = {"left": folder.exists(), "mode": outside.stat().st_mode & 0o777, "text": outside.read_text()}
        outside.unlink()
        outside.parent.rmdir()
        return Answer({"type": "seen", **seen})

    probes = forked.ForkedProbes(work)
    found = probes.answer("90-a", Frame({"type": "probe"}), 30)
    probes.end()
    assert found.head == {"type": "seen", "left": False, "mode": 0o604, "text": "kept"}


def test_removing_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")


WITHOUT_PYTHON = """
import sys
from pathlib import Path
from graders.sandbox.outside.box_process import Box

sys.executable = "/nowhere/python"
try:
    with Box(Path("modules")):
        pass
except FileNotFoundError as error:
    print(error.filename)
"""


def test_a_box_that_cannot_start_leaves_no_folder(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYTHON],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "/nowhere/python\n"
    assert list(tmp_path.iterdir()) == []


class CountingGuard(LowMemoryGuard):
    """A guard that notes when it was asked about a box, and the pause until it may be asked again."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[float, float]] = []

    def must_end(self, box: Bound) -> bool:
        self.asked.append((time.monotonic(), box.pause))
        return False


def test_memory_is_looked_at_after_each_pause_and_not_for_each_frame(box_modules: Path, warm: WarmProcess) -> None:
    guard = CountingGuard()
    cells = [*["pass"] * 40, "import time\ntime.sleep(0.3)"]
    box = box_process.Box(box_modules, warm=warm, guard=guard)
    assert run_notebook(box, cells, [], Limits(), fork=True)[-1].head["how"] == "finished"
    assert len(guard.asked) >= 3
    for (earlier, pause), (later, _) in itertools.pairwise(guard.asked):
        assert later - earlier >= pause
