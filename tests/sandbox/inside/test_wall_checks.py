"""Whether the self-test of a box notices that processes are not bounded, or that they are."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, resource, sys, threading
from graders.sandbox.inside.wall_checks import forks_are_bounded
if os.getuid() == 0:  # no limit binds root
    os.setuid(54321)
if sys.argv[1] == "bounded":
    resource.setrlimit(resource.RLIMIT_NPROC, (4, 4))
print(forks_are_bounded(8), threading.active_count())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are bounded on Linux alone")
@pytest.mark.parametrize(("how", "held"), [("bounded", "True 1"), ("unbounded", "False 1")])
def test_it_notices_whether_processes_are_bounded_and_leaves_none(how: str, held: str) -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == held
