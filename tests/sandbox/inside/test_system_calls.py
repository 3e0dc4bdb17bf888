"""What a kernel may ask of the system: nothing that holds up other programs of the same user."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from graders.sandbox.inside.system_calls import seccomp_possible

pytestmark = pytest.mark.skipif(not seccomp_possible(), reason="there is no filter of system calls here")

TRY = """
import ctypes, errno, fcntl, json, os, sys
from graders.sandbox.inside import system_calls
libc = ctypes.CDLL(None, use_errno=True)
system_calls.filter_system_calls(metadata=False)
system_calls.keep_to_itself()
column = os.uname().machine != "x86_64"
numbers = system_calls._ABSENT | system_calls._OF_A_PROCESS | system_calls._OF_A_THREAD
numbers |= {name: call for name, (call, _) in system_calls._OF_A_KIND.items()}
found = []
for name, *given in json.loads(sys.argv[1]):
    given = [{"own": os.getpid(), "other": os.getppid()}.get(one, one) for one in given]
    ctypes.set_errno(0)
    libc.syscall(numbers[name][column], *map(ctypes.c_long, given))
    found.append(ctypes.get_errno())
print(json.dumps(found))
"""


def errors(calls: list[list[object]]) -> list[int]:
    """The errors of calls in a process behind both filters: a name each, and numbers or "own" or "other" for a pid."""
    command = [sys.executable, "-c", TRY, json.dumps(calls)]
    return list(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))


def test_limits_of_another_process_cannot_be_changed() -> None:
    assert errors([["prlimit64", "other", 0, 0, 0], ["prlimit64", -1, 0, 0, 0]]) == [errno.EPERM] * 2
    assert errno.EPERM not in errors([["prlimit64", "own", 0, 0, 0], ["prlimit64", 0, 0, 0, 0]])


@pytest.mark.parametrize("name", ["sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"])
def test_how_another_process_is_scheduled_only_seems_to_change(name: str) -> None:
    """The kernel would refuse these arguments."""
    assert errors([[name, "other", 0, 0, 0], [name, -1, 0, 0, 0]]) == [0, 0]
    assert 0 not in errors([[name, "own", 0, 0, 0], [name, 0, 0, 0, 0]])


THREADS = """
import zmq
from graders.sandbox.inside import system_calls
system_calls.filter_system_calls(metadata=False)
system_calls.keep_to_itself()
zmq.Context().socket(zmq.PUSH).close()
"""


def test_a_library_may_say_how_its_threads_are_scheduled() -> None:
    assert subprocess.run([sys.executable, "-c", THREADS], check=False).returncode == 0


@pytest.mark.parametrize(("name", "one"), [("setpriority", 0), ("ioprio_set", 1)])
def test_no_priority_but_its_own_can_be_changed(name: str, one: int) -> None:
    others = [[name, one, "other", 19]] + [[name, kind, 0, 19] for kind in range(-1, 5) if kind != one]
    assert errors(others) == [errno.EPERM] * len(others)
    assert errno.EPERM not in errors([[name, one, "own", 19], [name, one, 0, 19]])


@pytest.mark.parametrize("name", ["io_setup", "inotify_init1"])
def test_what_the_whole_machine_shares_seems_not_to_exist(name: str) -> None:
    assert errors([[name, 0, 0]]) == [errno.ENOSYS]


OF_FILES = """
import fcntl, os, shutil, sys
from graders.sandbox.inside import system_calls
system_calls.filter_system_calls(metadata=False)
os.chdir(sys.argv[1])
file = os.open("a", os.O_RDONLY)
refused = 0
leases = [(fcntl.F_SETLEASE, kind) for kind in (fcntl.F_WRLCK, fcntl.F_RDLCK)]
for command, given in (*leases, (fcntl.F_NOTIFY, 2), (1040, 0)):
    try:
        fcntl.fcntl(file, command, given)
    except PermissionError:
        refused += 1
before = os.stat("a").st_mode, os.stat("a").st_mtime_ns
for way in (shutil.copy, shutil.copy2):
    way("a", "b")
os.chmod("a", 0)
os.utime("a", (0, 0))
print(refused, (os.stat("a").st_mode, os.stat("a").st_mtime_ns) == before, open("b").read())
"""


def test_no_lease_is_taken_and_copying_works_where_permissions_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    done = subprocess.run([sys.executable, "-c", OF_FILES, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4", "True", "text"]
