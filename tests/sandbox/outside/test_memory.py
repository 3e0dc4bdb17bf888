from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graders.sandbox.outside.box_process import Box
from graders.sandbox.outside.conversation import run_notebook
from graders.sandbox.outside.memory import MAPS_SECONDS, SECONDS, MemoryWatch, process_tree
from graders.sandbox.outside.process_memory import (
    is_unreadable,
    map_memory,
    most_memory,
    own_memory,
    proportional_memory,
    socket_bytes,
    socket_memory,
)
from graders.sandbox.outside.tiers import missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess
from graders.wire.limits import MIB
from tests.sandbox.outside.catalogue import CASES

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


Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program that prints a line when it is ready, and then waits to be ended."""
    processes: list[subprocess.Popen[bytes]] = []

    def run(code: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def parent(start: Start) -> subprocess.Popen[bytes]:
    """A process with 100 MiB. Asked by a line, it adds 64 MiB, and three children with 32 MiB each of their own."""
    return start(FAMILY)


@pytest.mark.parametrize("forked", [False, True])
def test_what_is_added_counts_also_in_children_and_what_they_share_counts_once(
    parent: subprocess.Popen[bytes], forked: bool
) -> None:
    small, large = (MemoryWatch(parent.pid, bound * MIB, forked=forked) for bound in (140, 200))
    assert not small.is_exceeded()
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(b"\n")
    parent.stdin.flush()
    assert [parent.stdout.readline() for _ in range(3)] == [b"added\n"] * 3
    assert len(process_tree(parent.pid)) == 4
    assert small.is_exceeded()
    assert not large.is_exceeded()  # and not 4 * (100 + 64) + 3 * 32


def test_a_process_that_is_gone_holds_nothing() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert not MemoryWatch(gone.pid, 0).is_exceeded()


WAIT = "\nimport os, sys\nos.write(1, b'ready\\n')\nsys.stdin.read()"
SOCKETS = "import socket\nkept = [one for _ in range(20) for one in socket.socketpair()]"


def test_sockets_count_for_what_they_may_hold_and_once_however_many_processes_have_them(start: Start) -> None:
    process = start(SOCKETS + "\nimport os\nif os.fork() == 0:\n    import time\n    time.sleep(60)" + WAIT)
    pids = process_tree(process.pid)
    assert (len(pids), socket_memory(pids)) == (2, 40 * socket_bytes())
    assert most_memory(process.pid) >= own_memory(process.pid) + socket_memory([process.pid])
    os.kill(pids[1], 9)


def test_a_socket_holds_no_more_than_it_counts_for() -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        ours.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                sent += ours.send(bytes(100_000))
        assert 0 < sent <= socket_bytes()
        ours.close()
        theirs.close()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of a system call")
def test_a_process_whose_first_thread_has_ended_is_counted(start: Start) -> None:
    work = "import os, time\n    kept = b'x' * (64 << 20)\n    os.write(1, b'ready\\n')\n    time.sleep(60)"
    code = f"def hold():\n    import time\n    time.sleep(0.5)\n    {work}\n{SOCKETS}\nimport ctypes, threading\n"
    process = start(code + "threading.Thread(target=hold).start()\nctypes.CDLL(None).syscall(60, 0)")
    assert b"Rss" not in Path(f"/proc/{process.pid}/status").read_bytes()
    assert own_memory(process.pid) >= 64 * MIB
    assert proportional_memory(process.pid) >= 64 * MIB
    assert socket_memory([process.pid]) == 40 * socket_bytes()


MAPS = """\
import ctypes, mmap
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
base = libc.mmap(None, ctypes.c_size_t(40_000 * 4096), 1, 0x22, -1, ctypes.c_long(0))
for number in range(0, 40_000, 2):
    assert libc.mprotect(ctypes.c_void_p(base + 4096 * number), ctypes.c_size_t(4096), 3) == 0
"""


def test_what_the_kernel_keeps_for_maps_is_counted(start: Start) -> None:
    process = start("pass" + WAIT)
    assert 0 < map_memory([process.pid], MIB) < MIB
    process = start(MAPS + WAIT)
    assert 10 * MIB < map_memory([process.pid], 100 * MIB) < 40 * MIB
    assert MIB < map_memory([process.pid] * 100, MIB) < 150 * MIB  # what is more than enough is not counted
    watch = MemoryWatch(process.pid, 4 * MIB)
    assert not watch.is_exceeded()
    time.sleep(MAPS_SECONDS)
    assert watch.is_exceeded()


def test_what_is_swapped_out_counts(tmp_path: Path) -> None:
    """On files such as the kernel's: a machine may have no swap."""
    (tmp_path / "7").mkdir()
    status = "RssAnon:\t  1000 kB\nRssFile:\t 5 kB\nRssShmem:\t 20 kB\nVmSwap:\t 300 kB\n"
    (tmp_path / "7/status").write_text(status)
    assert (own_memory(7, tmp_path), proportional_memory(7, tmp_path)) == (1320 << 10, 1320 << 10)
    shares = "Pss:  900 kB\nPss_Anon: 500 kB\nPss_File: 2 kB\nPss_Shmem: 10 kB\nSwapPss: 90 kB\n"
    (tmp_path / "7/smaps_rollup").write_text(shares)
    assert proportional_memory(7, tmp_path) == 600 << 10


def test_a_process_that_does_not_let_itself_be_looked_at_counts_for_all_it_may_have() -> None:
    """The first process of the machine, looked at by somebody else."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        if os.getuid() == 0:
            os.setresuid(65534, 65534, 65534)
        os.write(tell, f"{is_unreadable(1)} {socket_memory([1])} {map_memory([1], MIB)}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    refused, sockets, maps = os.read(told, 100).decode().split()
    os.close(told)
    os.close(tell)
    assert refused == "True"
    assert int(sockets) >= 64 * socket_bytes()
    assert int(maps) > 25 * MIB


class WatchedBox(Box):
    """A box whose memory is watched, also where it could have a cgroup."""

    def watch_memory(self) -> None:
        self._memory = MemoryWatch(self._process.pid, self._limits.memory_together, forked=True)


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["A", "B"])
@pytest.mark.parametrize(
    "case", ["memory in sockets of several processes", "memory of several processes whose first threads have ended"]
)
def test_without_a_cgroup_the_watch_sees_what_is_in_no_page_table(
    box_modules: Path, warm: WarmProcess, tier: str, case: str
) -> None:
    if reason := missing_for_tier(tier, warm=True):
        pytest.skip(reason)
    given = CASES[case]
    last = run_notebook(
        WatchedBox(box_modules, tier, given.limits, warm), list(given.cells), [], given.limits, fork=True
    )[-1].head
    most = given.limits.memory_together // MIB
    assert (last["how"], last["message"]) == ("over-limit", f"memory: its processes together took more than {most} MiB")


def test_looks_come_more_often_once_much_is_held(parent: subprocess.Popen[bytes]) -> None:
    roomy, narrow = MemoryWatch(parent.pid, 1 << 40), MemoryWatch(parent.pid, 30 * MIB)
    for watch in (roomy, narrow):
        assert watch.is_exceeded() is False
    assert narrow.pause < SECONDS <= roomy.pause  # 64 descriptors could be as many sockets
