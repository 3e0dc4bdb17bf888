from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from graders.run.memory import exceeds, family
from graders.wire.limits import MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells")

FAMILY = """\
import os, sys
shared = b"x" * (64 << 20)
for _ in range(3):
    if os.fork() == 0:
        own = b"y" * (32 << 20)
        os.write(1, b"ready\\n")  # at once: print may write the end of the line apart
        sys.stdin.read()
        os._exit(0)
sys.stdin.read()
"""


@pytest.fixture
def parent() -> Iterator[int]:
    """A process with 64 MiB, and three children with 32 MiB each of their own."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"ready\n"] * 3
        yield process.pid
        process.communicate()


def test_children_count_and_what_they_share_counts_once(parent: int) -> None:
    assert len(family(parent)) == 4
    assert exceeds(parent, 150 * MIB)
    assert not exceeds(parent, 230 * MIB)  # and not 4 * 64 + 3 * 32


def test_a_process_that_is_gone_holds_nothing() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert not exceeds(gone.pid, 0)
