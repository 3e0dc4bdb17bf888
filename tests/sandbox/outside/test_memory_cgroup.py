"""The cgroup of a box: on files that look like the kernel's, and on the kernel's own where it lets us."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from graders.sandbox.outside.box_process import Box
from graders.sandbox.outside.conversation import run_notebook
from graders.sandbox.outside.leftovers import take_lock
from graders.sandbox.outside.memory_cgroup import MemoryCgroup, bound_memory, own_cgroup, prepare_cgroup
from graders.wire.limits import MIB, Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has cgroups")

MOUNTS = """\
22 1 0:21 / /proc rw - proc proc rw
31 30 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
"""


MOUNTS_1 = """\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
"""
EVENTS = "low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\noom_group_kill 0\n"
FILES = {"cgroup_procs": "", "memory_oom.group": "", "memory_swap.max": "", "memory_max": "", "memory_events": EVENTS}


LIMIT_FILES = ("memory.max", "memory.limit_in_bytes")
FILL = {
    "maps that are shared": "import mmap, time\nkept = mmap.mmap(-1, 200 << 20)\n"
    "for at in range(0, 200 << 20, 1 << 20):\n    kept[at : at + (1 << 20)] = bytes(1 << 20)\n"
    "    kept.madvise(mmap.MADV_DONTNEED)\ntime.sleep(60)",
    "sockets": "import resource, socket, time\nresource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))\nkept = []\n"
    "for _ in range(480):\n    kept += socket.socketpair()\n    kept[-1].setblocking(False)\n    try:\n"
    "        while True:\n            kept[-1].send(bytes(30_000))\n    except OSError:\n        pass\ntime.sleep(60)",
}
"""Programs that take 200 MB, or 90, and let none of it show."""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs what is written to it."""
    code = "import sys; exec(sys.stdin.read())"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def fake(folder: Path, **files: str) -> Path:
    """A cgroup as the kernel shows it; names have _ for the dot."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return folder


def test_our_cgroup_is_found_where_it_is_mounted(tmp_path: Path) -> None:
    def found(cgroup: str, mounts: str = MOUNTS, controller: str = "") -> Path | None:
        (tmp_path / "cgroup").write_text(cgroup)
        (tmp_path / "mountinfo").write_text(mounts)
        return own_cgroup(tmp_path, controller)

    assert found("0::/user.slice/one.scope\n") == Path("/sys/fs/cgroup/user.slice/one.scope")
    assert found("4:memory:/x\n0::/\n") == Path("/sys/fs/cgroup")
    below = MOUNTS.replace("0:27 /", "0:27 /docker/c1")
    assert found("0::/docker/c1/x\n", below) == Path("/sys/fs/cgroup/x")
    assert found("0::/docker\n", below) is None  # above what is mounted
    assert found("0::/../other\n") is None  # outside of our namespace
    assert found("4:memory:/x\n") is None
    assert found("0::/\n", MOUNTS.splitlines()[0]) is None
    assert own_cgroup(tmp_path / "none") is None
    # Of version 1, the one that counts memory.
    mounts = MOUNTS_1 + MOUNTS
    assert found("9:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n", mounts, "memory") == Path("/sys/fs/cgroup/memory/a/b")
    assert found("4:hugetlb,memory:/\n", mounts, "memory") == Path("/sys/fs/cgroup/memory")
    assert found("9:cpu,cpuacct:/x\n0::/\n", mounts, "memory") is None
    assert found("4:memory:/a\n", MOUNTS, "memory") is None
    assert found("4:memory:/a\n", mounts.replace("0:32 /", "0:32 /docker/c1"), "memory") is None


def test_what_a_box_holds_and_its_limit_are_its_bound(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    folder = fake(tmp_path / "box", **FILES, memory_current=f"{300 * MIB}\n")
    box = MemoryCgroup(folder, tmp_path, process.pid, 200 * MIB)
    written = {name: (folder / name).read_text() for name in ("cgroup.procs", "memory.max", "memory.swap.max")}
    assert written == {"cgroup.procs": f"{process.pid}\n", "memory.max": f"{500 * MIB}\n", "memory.swap.max": "0\n"}
    assert (folder / "memory.oom.group").read_text() == "1\n"
    assert not box.is_exceeded()
    (folder / "memory.events").write_text(EVENTS.replace("oom_kill 0", "oom_kill 4"))
    assert box.is_exceeded()
    fake(folder, cgroup_kill="")
    box.close()
    assert (folder / "cgroup.kill").read_text() == "1\n"


def test_a_box_of_version_1_has_its_bound(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    folder = fake(tmp_path / "box", cgroup_procs="", memory_limit_in_bytes="", memory_memsw_limit_in_bytes="",
                  memory_usage_in_bytes=f"{3 * MIB}\n", memory_oom_control="under_oom 0\noom_kill 0\n")  # fmt: skip
    (folder / "memory.memsw_limit_in_bytes").rename(folder / "memory.memsw.limit_in_bytes")
    box = MemoryCgroup(folder, tmp_path, process.pid, 200 * MIB)
    for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
        assert (folder / name).read_text() == f"{203 * MIB}\n"
    assert (box.is_exceeded(), box.held_bytes()) == (False, 0)
    (folder / "memory.usage_in_bytes").write_text(f"{10 * MIB}\n")
    (folder / "memory.oom_control").write_text("under_oom 0\noom_kill 1\n")
    assert (box.is_exceeded(), box.held_bytes()) == (True, 7 * MIB)
    box.close()
    assert process.wait(5) == -9  # there is no file for it


def test_a_kernel_that_counts_no_swap_will_do(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    files = {name: text for name, text in FILES.items() if name != "memory_swap.max"}
    folder = fake(tmp_path / "box", **files, memory_current="0\n")
    MemoryCgroup(folder, tmp_path, process.pid, MIB).close()
    assert (folder / "memory.max").read_text() == f"{MIB}\n"


def test_processes_go_back_where_memory_is_not_counted(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    home = fake(tmp_path / "home", cgroup_procs="")
    with pytest.raises(FileNotFoundError, match=r"memory\.current"):
        MemoryCgroup(fake(tmp_path / "box", **FILES), home, process.pid, MIB)
    assert (home / "cgroup.procs").read_text() == f"{process.pid}\n"
    with pytest.raises(FileNotFoundError, match=r"memory\.oom\.group"):
        MemoryCgroup(fake(tmp_path / "bare"), home, process.pid, MIB)
    assert not (tmp_path / "bare").exists()


class CountedBox(Box):
    """A box with a cgroup of which only the files are there."""

    cgroup: Path

    def watch_memory(self) -> None:
        self._memory = MemoryCgroup(self.cgroup, self.cgroup, self._process.pid, MIB)


OUT_OF_MEMORY = """\
import os
from pathlib import Path
cgroup = Path({cgroup!r})
others = {{int(pid) for pid in (cgroup / "cgroup.procs").read_text().split()}} - {{os.getpid()}}
(cgroup / "memory.events").write_text("oom_kill {kills}\\n")
for pid in (*others, os.getpid()):
    os.kill(pid, 9)
"""


@pytest.mark.parametrize(("kills", "ended"), [(1, "over-limit"), (0, "died")])
def test_a_box_that_the_kernel_ended_for_its_memory_went_over_the_limit(
    box_modules: Path, tmp_path: Path, kills: int, ended: str
) -> None:
    """What the kernel does is done by the notebook here."""
    box = CountedBox(box_modules, "D")
    box.cgroup = fake(tmp_path / "box", **FILES, memory_current="0\n")
    cell = OUT_OF_MEMORY.format(cgroup=str(box.cgroup), kills=kills)
    last = run_notebook(box, [cell], [], Limits(), fork=True)[-1].head
    assert last["how"] == ended
    assert last["message"].startswith(
        "memory: its processes together" if kills else "the process that ran the notebook"
    )


def test_memory_is_shared_with_cgroups_below_where_it_is_ours_to_share(tmp_path: Path) -> None:
    own = fake(tmp_path / "own", cgroup_controllers="cpu memory pids\n", cgroup_subtree_control="")
    assert prepare_cgroup(own, os.getpid())
    assert (own / "cgroup.subtree_control").read_text() == "+memory\n"
    fake(own, cgroup_subtree_control="cpu memory\n")
    assert prepare_cgroup(own, os.getpid())
    assert (own / "cgroup.subtree_control").read_text() == "cpu memory\n"
    fake(own, cgroup_controllers="cpu hugetlb\n")
    assert not prepare_cgroup(own, os.getpid())
    assert not prepare_cgroup(tmp_path / "none", os.getpid())


def test_what_killed_runs_left_is_removed(tmp_path: Path) -> None:
    own = fake(tmp_path / "own", cgroup_controllers="memory\n", cgroup_subtree_control="memory\n")
    old, new, other, used = (
        fake(own / name) for name in ("hookwork-box-1", "hookwork-box-2", "other", "hookwork-main-1")
    )
    for folder in (old, other, used):
        os.utime(folder, (0, 0))
    held_bytes = take_lock(used)
    assert held_bytes is not None
    assert prepare_cgroup(own, os.getpid())
    assert [group.exists() for group in (old, new, other, used)] == [False, True, True, True]
    os.close(held_bytes)


@pytest.fixture
def own_bound(process: subprocess.Popen[bytes]) -> MemoryCgroup:
    """A cgroup of the kernel's own with 64 MiB for a process. Where none can be made, the sum is watched."""
    bound = bound_memory(process.pid, 64 * MIB)
    if not isinstance(bound, MemoryCgroup):
        pytest.skip("no cgroup with a memory limit can be made here: the sum is watched")
    return bound


def test_a_box_of_the_kernels_own(process: subprocess.Popen[bytes], own_bound: MemoryCgroup) -> None:
    assert str(process.pid) in (own_bound.folder / "cgroup.procs").read_text().split()
    (limit,) = (own_bound.folder / name for name in LIMIT_FILES if (own_bound.folder / name).exists())
    assert 64 * MIB <= int(limit.read_text()) < 80 * MIB
    assert not own_bound.is_exceeded()
    assert own_bound.held_bytes() < 64 * MIB
    own_bound.close()
    assert not own_bound.folder.exists()
    assert process.wait(5) == -9


def test_processes_that_fork_while_they_are_ended_are_ended_too(
    process: subprocess.Popen[bytes], own_bound: MemoryCgroup
) -> None:
    assert process.stdin is not None
    process.stdin.write(b"import os, time\nfor _ in range(10):\n    os.fork()\ntime.sleep(60)\n")
    process.stdin.close()
    until = time.monotonic() + 20
    while len((own_bound.folder / "cgroup.procs").read_text().split()) < 40 and time.monotonic() < until:
        pass
    own_bound.close()
    assert not own_bound.folder.exists()


@pytest.mark.parametrize("what", FILL)
def test_the_kernel_counts_what_is_in_no_page_table(
    process: subprocess.Popen[bytes], own_bound: MemoryCgroup, what: str
) -> None:
    assert process.stdin is not None
    process.stdin.write(FILL[what].encode())
    process.stdin.close()
    until = time.monotonic() + 20
    while not own_bound.is_exceeded() and time.monotonic() < until and process.poll() is None:
        time.sleep(0.05)
    is_exceeded = own_bound.is_exceeded()
    usage = own_bound.held_bytes()
    own_bound.close()
    assert is_exceeded or (what == "sockets" and usage > 60 * MIB)  # a send may fail instead
    assert usage <= 80 * MIB
