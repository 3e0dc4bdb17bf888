"""A process that forks on request. `graders.wire.forking` is the side that asks, and describes the messages.

This is used twice: outside, where a warm process forks boxes, and in each box, where a process forks kernels. The
forking process must have a single thread, and does nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from graders.wire.forking import MAX_DESCRIPTORS, MAX_REQUEST

END_SECONDS = 7.0
"""Seconds that all forked processes have to end: more than `start.SWEEP_SECONDS`, which a supervised box may take."""

ChildFunction = Callable[[dict[str, Any], list[int], int], None]
"""What a forked child runs, given the request, its descriptors, and the descriptor for its answers."""


def serve_fork_requests(
    control: socket.socket,
    child: ChildFunction,
    until: int | None = None,
    background_steps: Iterator[None] | None = None,
    before: Callable[[dict[str, Any]], None] | None = None,
) -> int:
    """Fork for every request until the other end of `control` is closed, or the child with the pid `until` has ended.

    `before` is called with each request before its fork. After the fork, `background_steps` take one step, if any are
    left. Requests that arrive meanwhile wait.

    Returns the exit code of `until`, or 0 if it has not ended. Everything forked here is ended and reaped first.
    """
    answers: dict[int, tuple[int, bool]] = {}  # by descriptor: the pid, and whether it cleans up on SIGTERM
    code = 0
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    waiting = select.poll()
    for descriptor in (woken, control.fileno()):
        waiting.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _ in waiting.poll():
            if descriptor == woken:
                os.read(woken, 1 << 12)
                ended = dict(_reap_children())
                for answer, (process, _) in list(answers.items()):
                    if process in ended:
                        with contextlib.suppress(OSError):
                            os.write(answer, b"exit %d\n" % ended[process])
                        _forget_child(answer, answers, waiting)
                if until in ended:
                    _end_all_children(answers)
                    return ended[until]
            elif descriptor == control.fileno():
                raw, received, _, _ = socket.recv_fds(control, MAX_REQUEST, MAX_DESCRIPTORS)
                if not raw:
                    _end_all_children(answers)
                    return code
                request, answer = json.loads(raw), received[0]
                if before is not None:
                    before(request)
                process = os.fork()
                if process == 0:
                    _run_child(child, request, received)
                for descriptor in received[1:]:
                    os.close(descriptor)
                answers[answer] = process, bool(request.get("supervised"))
                waiting.register(answer, select.POLLIN)
                with contextlib.suppress(OSError):
                    os.write(answer, b"pid %d\n" % process)
                if background_steps is not None:
                    next(background_steps, None)
            elif descriptor in answers:  # only the end of the stream is expected here
                _end_child(*answers[descriptor])
                _forget_child(descriptor, answers, waiting)


def _run_child(child: ChildFunction, request: dict[str, Any], received: list[int]) -> None:
    """In the forked process: close the parent's descriptors, reset its signal handlers, run `child`, and exit."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        close_all_but({0, 1, 2, *received})
        child(request, received[1:], received[0])
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0
    except BaseException as error:
        with contextlib.suppress(Exception):
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)  # an ordinary exit takes 0.4 s with torch


def close_all_but(left_open: set[int]) -> None:
    """Close every descriptor of this process except `left_open`."""
    first = 0
    for descriptor in sorted(left_open):
        if first < descriptor:  # `os.closerange(0, 0)` would close everything
            os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, 1 << 20)


def _reap_children() -> list[tuple[int, int]]:
    """Return pids and exit codes of the children that have ended; negative codes are signals."""
    ended = []
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append((found[0], os.waitstatus_to_exitcode(found[1])))
    return ended


def _forget_child(answer: int, answers: dict[int, tuple[int, bool]], waiting: select.poll) -> None:
    waiting.unregister(answer)
    os.close(answer)
    del answers[answer]


def _end_child(process: int, supervised: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if supervised:
            os.kill(process, signal.SIGTERM)
        else:
            os.killpg(process, signal.SIGKILL)


def _end_all_children(answers: dict[int, tuple[int, bool]]) -> None:
    """End and reap whatever was forked here, because the first process of a container may not reap it."""
    for process, supervised in answers.values():
        _end_child(process, supervised)
    deadline = time.monotonic() + END_SECONDS
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.005)
