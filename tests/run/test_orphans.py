"""Nothing is left of a box, not even a zombie, where the first process of the machine reaps nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest

from graders.run.tiers import missing_for_tier

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has processes that adopt")

# Leaves two orphans: one that ends at once, and one that does not.
NOTEBOOK = """
import os, time
for seconds in (0, 100):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            time.sleep(seconds)
        os._exit(0)
    os.wait()
"""
# Adopts what its descendants leave and never reaps, as a container whose first process is somebody's server. Has boxes
# run to their end, started and forked, and one cut off. Prints what it has become the parent of: state and command.
NEVER_REAPS = f"""
import ctypes, os, sys
from pathlib import Path
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
tier, *ways = sys.argv[1:]
marking = os.fork()
if marking == 0:
    from graders.run.box_process import Box
    from graders.run.box_modules import box_modules_folder
    from graders.run.runner import BoxRunner
    from graders.run.warm_process import WarmProcess
    with box_modules_folder() as box_modules, WarmProcess(box_modules) as warm:
        for way in ways:
            if way == "cut off":
                Box(box_modules, tier, warm=warm).__enter__()
                warm.close()
            else:
                runner = BoxRunner(box_modules, tier, warm=None if way == "started" else warm)
                assert runner.run([{NOTEBOOK!r}], []).ended == "finished"
    os._exit(0)
assert os.waitpid(marking, 0)[1] == 0
for pid in Path(f"/proc/self/task/{{os.getpid()}}/children").read_text().split():
    state = Path(f"/proc/{{pid}}/stat").read_text().rpartition(") ")[2][0]
    print(state, Path(f"/proc/{{pid}}/cmdline").read_text().replace(chr(0), " "))
"""


@pytest.mark.parametrize("tier", ["A", "B", "D"])
def test_no_process_of_a_box_is_left_to_a_parent_that_never_reaps(tier: str) -> None:
    if reason := missing_for_tier(tier, warm=True):
        pytest.skip(reason)
    ways = ["forked", "cut off"] if missing_for_tier(tier) else ["started", "forked", "cut off"]
    command = [sys.executable, "-c", NEVER_REAPS, tier, *ways]
    found = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert found.stdout == ""
