"""The self-test of a box: try what must not succeed, and report which walls held."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import warnings
from typing import Any

from graders.wire.limits import Limits

SELF_TEST = [
    "import torch\nw = torch.ones(64, 64, requires_grad=True)",
    "(w @ w).sum().backward()\nassert w.grad[0, 0] == 128",
]
"""The cells of a notebook that any kernel can run, with all limits set."""


def connection_attempt_cell(sockets: list[str]) -> str:
    """Return a cell that tries to connect and send to sockets of other programs, given by their paths."""
    return f"""import socket
for place in {sockets!r}:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        for how in ("connect", "sendto"):
            try:
                client = socket.socket(socket.AF_UNIX, kind)
                client.connect(place) if how == "connect" else client.sendto(b"x", place)
                client.send(b"x")
            except OSError:
                pass
"""


WALLS = (
    "writing outside",
    "reaching a server on this machine",
    "starting processes without limit",
    "changing kernel settings",
)
"""What every box must prevent, besides reading closed files."""
STACK_BYTES = 1 << 18
"""Bytes of the stack of a thread that only waits."""


def check_walls(request: dict[str, Any], limits: Limits) -> dict[str, bool]:
    """Return which walls held, by what they prevent: `WALLS`, and reaching the files of each name in `closed`.

    If a container has to bound the memory, to `memory` bytes, the walls include that, too.
    """
    walls = {"taking memory without limit": _memory_is_bounded(request["memory"])} if request["memory"] else {}
    walls |= {name: not any(map(_is_reachable, files)) for name, files in request["closed"].items()}
    return walls | dict(
        zip(
            WALLS,
            (
                _is_refused(lambda: open(request["write"], "w")),
                _is_refused(lambda: _connect_locally(request["port"])),
                forks_are_bounded(limits.processes),
                _is_refused(lambda: open("/proc/sys/kernel/core_pattern", "w")),
            ),
        )
    )


def _is_reachable(file: str) -> bool:
    """Whether a file can be read or written to."""
    return not (_is_refused(lambda: open(file, "rb")) and _is_refused(lambda: open(file, "r+b")))


def _is_refused(attempt: Any) -> bool:
    try:
        attempt().close()
    except OSError:
        return True
    return False


def _memory_is_bounded(most: int) -> bool:
    """Whether the container's cgroup, version 2 or 1, bounds memory to `most` bytes, as it may not without root."""
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError), open(file) as limit:  # "max" is no number
            return int(limit.read()) <= most
    return False


def _connect_locally(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=2)


def forks_are_bounded(limit: int) -> bool:
    """Whether a fork is refused when this process has started as many threads as there may be processes, and some more.

    The system counts both alike. To fork 30 times would take more than a second, because torch is imported here.
    """
    done, threads, size = threading.Event(), list[threading.Thread](), threading.stack_size(STACK_BYTES)
    try:
        with contextlib.suppress(RuntimeError):  # no further thread can be started
            for _ in range(limit + 8):
                thread = threading.Thread(target=done.wait)
                thread.start()
                threads.append(thread)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns when a process with threads forks
            child = os.fork()
        if child == 0:
            os._exit(0)
    except OSError:
        return True
    finally:
        threading.stack_size(size)
        done.set()
        for thread in threads:
            thread.join()
    os.waitpid(child, 0)
    return False
