"""Nothing is left of a box, not even a zombie, where the first process of the machine reaps nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest

from graders.sandbox.outside.tiers import WARM_TIERS, missing_for_tier

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
# Adopts what its descendants leave and never reaps, as a container whose first process is somebody's server. In each
# tier it has boxes run to their end, started and forked, and one cut off. Prints what it has become the parent of:
# state and command.
NEVER_REAPS = f"""
import ctypes, os, sys
from pathlib import Path
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
tiers, startable = sys.argv[1], sys.argv[2]
marking = os.fork()
if marking == 0:
    from graders.sandbox.outside.box_process import Box
    from graders.sandbox.outside.box_modules import box_modules_folder
    from graders.sandbox.outside.runner import BoxRunner
    from graders.sandbox.outside.warm_process import WarmProcess
    with box_modules_folder() as box_modules, WarmProcess(box_modules) as warm:
        for tier in tiers:
            for process in [None] * (tier in startable) + [warm]:
                assert BoxRunner(box_modules, tier, warm=process).run([{NOTEBOOK!r}], []).ended == "finished"
        for tier in tiers:
            Box(box_modules, tier, warm=warm).__enter__()
        warm.close()
    os._exit(0)
assert os.waitpid(marking, 0)[1] == 0
for pid in Path(f"/proc/self/task/{{os.getpid()}}/children").read_text().split():
    state = Path(f"/proc/{{pid}}/stat").read_text().rpartition(") ")[2][0]
    print(state, Path(f"/proc/{{pid}}/cmdline").read_text().replace(chr(0), " "))
"""


def test_no_process_of_a_box_is_left_to_a_parent_that_never_reaps() -> None:
    tiers = "".join(tier for tier in WARM_TIERS if not missing_for_tier(tier, warm=True))
    # Those that are started in D are those of B without walls.
    startable = "".join(tier for tier in tiers if tier != "D" and not missing_for_tier(tier))
    command = [sys.executable, "-c", NEVER_REAPS, tiers, startable]
    found = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert found.stdout == ""
