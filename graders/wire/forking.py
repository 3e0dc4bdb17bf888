"""Processes that another one forked for us: what they look like from the process that asks.

The asking goes on twice: outside, where a warm process forks boxes, and in each box, where a process forks kernels
(`graders.box.forker`).

A request is one datagram with JSON and descriptors. The first descriptor is a stream on which the answers come, a line
each: `pid N`, whatever the child has to say, `exit N`. Whoever closes the other end of that stream ends the child.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time
from typing import Any

MAX_REQUEST = 1 << 17
MAX_DESCRIPTORS = 8

can_fork = hasattr(os, "fork") and os.uname().sysname == "Linux" if hasattr(os, "uname") else False
"""Whether a process that has used torch can be forked here."""


class ForkerDied(Exception):
    """The process that forks is no longer there."""


class ForkedProcess:
    """The part of `subprocess.Popen` that is needed of a process that somebody else forked for us."""

    stdin = stdout = stderr = None

    def __init__(self, control: socket.socket, request: dict[str, Any], descriptors: list[int]) -> None:
        """Have a process forked; returns when it is there. Raises `ForkerDied`."""
        self._stream, theirs = socket.socketpair()
        self._pending = b""
        self.pid = 0
        self.ready = False
        self.returncode: int | None = None
        try:
            socket.send_fds(control, [json.dumps(request).encode()], [theirs.fileno(), *descriptors])
        except OSError as error:
            self._stream.close()
            raise ForkerDied(str(error)) from None
        finally:
            theirs.close()
        while not self.pid and self.returncode is None:
            self._read_news()
        if not self.pid:
            raise ForkerDied("it ended before it forked")

    def fileno(self) -> int:
        """A descriptor that can be read when there is news."""
        return self._stream.fileno()

    def _read_news(self) -> None:
        """Take in what has been said; blocks until there is something."""
        part = self._stream.recv(100)
        self._pending += part
        *lines, self._pending = self._pending.split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            if word == b"pid":
                self.pid = int(number)
            elif word == b"ready":
                self.ready = True
            elif word == b"exit":
                self.returncode = int(number)
        if not part and self.returncode is None:  # the forking process is gone, and its children with it
            self.returncode = -signal.SIGKILL
        if self.returncode is not None:
            self._stream.close()

    def poll(self) -> int | None:
        """The exit code, or None while the process lives."""
        while self.returncode is None and select.select([self._stream], [], [], 0)[0]:
            self._read_news()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises `subprocess.TimeoutExpired`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0.0)
            select.select([self._stream], [], [], left)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            # Whoever forked it reaps it first and says so afterwards: between the two there is nobody to signal.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)
