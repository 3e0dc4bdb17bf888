"""Real trouble, for tests: a full disk, a user who may not read everything, Ctrl+C, processes that end, a network."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

_FROM_BOUNDING_SET = 24
"""PR_CAPBSET_DROP of prctl: what is dropped there is gone in the next program."""
_READS_EVERYTHING = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: with these, root may read what nobody may."""


@contextlib.contextmanager
def nothing_can_be_written() -> Iterator[None]:
    """No file of this process may hold a byte, as on a full disk; the system says "File too large"."""
    resource = pytest.importorskip("resource", reason="this platform bounds no files")
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def ordinary_user() -> None:
    """Before a program is started: root, who runs tests in containers, may read there what its owner may."""
    if sys.platform == "linux" and os.getuid() == 0:
        for capability in _READS_EVERYTHING:
            ctypes.CDLL(None).prctl(_FROM_BOUNDING_SET, capability, 0, 0, 0)


def as_ordinary_user(program: str) -> Any:
    """What this Python program, run as an ordinary user, prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, preexec_fn=ordinary_user
    )
    return json.loads(done.stdout)


def full_disk(pid: int) -> str:
    """From now on no file of a running process may hold a byte; what it starts inherits that. What was done."""
    resource = pytest.importorskip("resource", reason="this platform bounds no files")
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    return "no file may hold a byte"


def nest(folder: Path, depth: int) -> None:
    """Folders in each other, made one by one: their path is longer than the system allows."""
    folder.mkdir(exist_ok=True)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        here, above = os.open("d", os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)


@contextlib.contextmanager
def ctrl_c_interrupts() -> Iterator[None]:
    """Ctrl+C does what it does in a terminal, whatever other tests left in this process."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def are_gone(pids: Collection[int], seconds: float = 20.0) -> bool:
    """Whether these processes end within this time."""
    deadline = time.monotonic() + seconds
    while not (gone := all(map(is_gone, pids))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return gone


_ADOPT = 36
"""PR_SET_CHILD_SUBREAPER of prctl."""


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Orphans among the descendants of this process become its children meanwhile."""
    ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)
    try:
        yield
    finally:
        ctypes.CDLL(None).prctl(_ADOPT, 0, 0, 0, 0)


_SWITCH = """
import fcntl, socket, struct, sys
flags = 0x41 if sys.argv[1] == "up" else 0  # IFF_UP and IFF_RUNNING
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", flags))  # SIOCSIFFLAGS
"""


class Network:
    """A network of its own, of this machine alone: `inside` is put before a command that is to be in it."""

    def __init__(self) -> None:
        """It takes root."""
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "1000"], start_new_session=True)
        self.inside = ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]
        while os.readlink(f"/proc/{self._holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            assert self._holder.poll() is None
        self.switch("up")

    def switch(self, to: str) -> None:
        """Turn it "up" or "down"."""
        subprocess.run([*self.inside, sys.executable, "-c", _SWITCH, to], check=True)

    def close(self) -> None:
        """Whoever is in it stays in it."""
        self._holder.kill()
        self._holder.wait()


def no_network() -> str:
    """Why no network can be made here; empty when it can."""
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip()
