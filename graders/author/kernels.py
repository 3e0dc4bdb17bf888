"""Forks the kernels in which lessons are run from a process that has imported torch: a third of their time."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from graders.box import forker
from graders.wire.forking import can_fork


@contextlib.contextmanager
def forked_kernels() -> Iterator[socket.socket | None]:
    """Yields the socket of a process that forks kernels, or None where a process cannot be forked."""
    if not can_fork:
        yield None
        return
    control, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far_end:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(far_end.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[far_end.fileno()],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
    try:
        yield control
    finally:
        control.close()  # it ends then, with its kernels
        process.wait()


def _serve_kernels() -> None:
    import ipykernel.kernelapp  # noqa: F401
    import torch  # noqa: F401 - no others: they would hide that a lesson fails to import them

    forker.serve_fork_requests(socket.socket(fileno=int(sys.argv[1])), _become_kernel)


def _become_kernel(request: dict[str, Any], descriptors: list[int], answer: int) -> None:
    """In the forked process: become the kernel that the command in the request would start."""
    import numpy
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    del sys.path[0]  # the folder where the command was given
    sys.argv[1:] = request["argv"][request["argv"].index("-f") :]
    numpy.random.seed()  # it has the state of the forking process, unlike `random`
    app = IPKernelApp.instance()
    app.initialize()
    os.write(answer, b"ready\n")
    os.close(answer)
    app.start()


if __name__ == "__main__":
    _serve_kernels()
