"""Ask another process to fork one for us, and handle what it forked much as `subprocess` handles its children.

This happens twice: outside, where a warm process forks boxes, and in each box, where a process forks kernels.
`graders.sandbox.inside.forker` is the process that is asked.

A request is one datagram with JSON and descriptors. The first descriptor is a stream for the answers, one per line:
`pid N`, then perhaps `ready` from the child, then `exit N`. Closing our end of that stream ends the child.
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
"""Bytes of a request."""
MAX_DESCRIPTORS = 8

can_fork = hasattr(os, "fork") and os.uname().sysname == "Linux" if hasattr(os, "uname") else False
"""Whether a process that has used torch can be forked on this platform: only on Linux."""


class ForkerDied(Exception):
    """Raised when the process that forks has ended."""


class ForkedProcess:
    """A process that another one forked for us, with those methods of `subprocess.Popen` that callers need."""

    stdin = stdout = stderr = None

    def __init__(self, control: socket.socket, request: dict[str, Any], descriptors: list[int]) -> None:
        """Send a request over `control`, and wait until the process is forked. Raises `ForkerDied`.

        `descriptors` go with the request; the child gets copies of them.
        """
        self._stream, far_end = socket.socketpair()
        self._pending = b""
        self.pid = 0
        self.ready = False
        self.returncode: int | None = None
        try:
            socket.send_fds(control, [json.dumps(request).encode()], [far_end.fileno(), *descriptors])
        except OSError as error:
            self._stream.close()
            raise ForkerDied(str(error)) from None
        finally:
            far_end.close()
        while not self.pid and self.returncode is None:
            self._read_news()
        if not self.pid:
            raise ForkerDied("it ended before it could fork")

    def fileno(self) -> int:
        """A descriptor that becomes readable when there is news of the process."""
        return self._stream.fileno()

    def _read_news(self) -> None:
        """Read what has been reported, and note it; blocks until there is something."""
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
        """The exit code, which is negative for a signal, or None while the process is alive."""
        while self.returncode is None and select.select([self._stream], [], [], 0)[0]:
            self._read_news()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end, and return its exit code.

        Raises `subprocess.TimeoutExpired` after `timeout` seconds; None waits forever.
        """
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
            # The process that forked it reaps it first and reports afterwards; in between there is nothing to signal.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)
