"""Processes that a notebook leaves behind come to us, also where the first process of the machine reaps nobody."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graders.run.runner import BoxRunner
from graders.run.transcript import read_transcript
from graders.run.warm import WarmProcess

ORPHAN = """
import os, time
told, tell = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.3)
        os.write(tell, open(f"/proc/{os.getppid()}/cmdline").read().replace("\\0", " ").encode())
    os._exit(0)
os.wait()
raise ValueError(os.read(told, 1000).decode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has processes that adopt")
def test_an_orphan_is_adopted_by_the_warm_process(kit: Path, warm: WarmProcess) -> None:
    (cell,) = read_transcript(BoxRunner(kit, "D", warm=warm).run([ORPHAN], []).frames).cells
    assert "-m graders.box.warm" in cell.message
