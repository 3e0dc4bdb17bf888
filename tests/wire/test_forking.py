from __future__ import annotations

import os
import socket
import subprocess
import sys
from threading import Event, Thread

import pytest

from graders.wire import forking
from graders.wire.forking import MAX_DESCRIPTORS, MAX_REQUEST, ForkedProcess

pytestmark = pytest.mark.skipif(not forking.can_fork, reason="processes fork on Linux alone")


def test_a_process_that_was_reaped_a_moment_ago_takes_a_signal() -> None:
    """Whoever forks reaps a process before it can say so; until then the process seems to live."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    say_so = Event()

    def answer() -> None:
        _, (stream, *_), _, _ = socket.recv_fds(theirs, MAX_REQUEST, MAX_DESCRIPTORS)
        os.write(stream, b"pid %d\n" % process.pid)
        say_so.wait(30)
        os.write(stream, b"exit 7\n")
        os.close(stream)

    with ours, theirs:
        Thread(target=answer, daemon=True).start()
        forked = ForkedProcess(ours, {}, [])
        assert forked.poll() is None
        forked.terminate()
        forked.kill()
        say_so.set()
        assert forked.wait(30) == 7
