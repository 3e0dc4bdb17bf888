from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from graders.run.memory import SECONDS, MemoryWatch, family
from graders.wire.limits import MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells")

FAMILY = """\
import mmap, os, sys
held = b"h" * (100 << 20)
os.write(1, b"ready\\n")  # at once: print may write the end of the line apart
sys.stdin.readline()
shared = b"x" * (64 << 20)
for _ in range(3):
    if os.fork() == 0:
        own = mmap.mmap(-1, 32 << 20)
        own.write(b"y" * (32 << 20))
        os.write(1, b"added\\n")
        sys.stdin.read()
        os._exit(0)
sys.stdin.read()
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    """A process with 100 MiB. Asked by a line, it adds 64 MiB, and three children with 32 MiB each of their own."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.communicate()


@pytest.mark.parametrize("forked", [False, True])
def test_what_is_added_counts_also_in_children_and_what_they_share_counts_once(
    parent: subprocess.Popen[bytes], forked: bool
) -> None:
    small, large = (MemoryWatch(parent.pid, bound * MIB, forked=forked) for bound in (140, 200))
    assert not small.exceeded()
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(b"\n")
    parent.stdin.flush()
    assert [parent.stdout.readline() for _ in range(3)] == [b"added\n"] * 3
    assert len(family(parent.pid)) == 4
    time.sleep(SECONDS)
    assert small.exceeded()
    assert not large.exceeded()  # and not 4 * (100 + 64) + 3 * 32


def test_looks_are_not_repeated_at_once(parent: subprocess.Popen[bytes]) -> None:
    watch = MemoryWatch(parent.pid, -200 * MIB)  # exceeded from the start
    assert watch.exceeded()
    assert not watch.exceeded()
    time.sleep(SECONDS)
    assert watch.exceeded()


def test_a_process_that_is_gone_holds_nothing() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert not MemoryWatch(gone.pid, 0).exceeded()
