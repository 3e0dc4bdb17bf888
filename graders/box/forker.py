"""A process that forks on request. The side that asks, and what is said between them, is `graders.wire.forking`.

Used twice: outside, where a warm process forks boxes, and in each box, where a process forks kernels. The forking
process has to have one thread alone, and it computes nothing.
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
"""How long all that was forked may take to end: longer than the first process of a supervised box sweeps."""

ChildFunction = Callable[[dict[str, Any], list[int], int], None]
"""What a forked child does with the request, its descriptors, and the stream for its answers."""


def serve_fork_requests(
    control: socket.socket,
    child: ChildFunction,
    until: int | None = None,
    background_steps: Iterator[None] | None = None,
    before: Callable[[dict[str, Any]], None] | None = None,
) -> int:
    """Fork for every request until the other end of `control` is closed, or the child `until` has ended.

    `before` is called with a request before its fork. After the fork, `background_steps` take a step, as long as there
    are any. What comes meanwhile waits.

    Returns the exit code of `until`, 0 when it did not end. All that was forked here is ended and reaped before.
    """
    answers: dict[int, tuple[int, bool]] = {}  # by descriptor: the process, and whether it cleans up when terminated
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
            elif descriptor in answers:  # nothing but the end of the stream is expected
                _end_child(*answers[descriptor])
                _forget_child(descriptor, answers, waiting)


def _run_child(child: ChildFunction, request: dict[str, Any], received: list[int]) -> None:
    """In the forked process: no descriptor of the parent stays open, no handler of its signals set."""
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
        os._exit(code)  # torch takes 0.4 s to leave the ordinary way


def close_all_but(left_open: set[int]) -> None:
    """Close every descriptor of this process except `left_open`."""
    first = 0
    for descriptor in sorted(left_open):
        if first < descriptor:  # an empty range would count as one without end
            os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, 1 << 20)


def _reap_children() -> list[tuple[int, int]]:
    """Pids and exit codes of the children that have ended; negative codes are signals."""
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
    """End and reap whatever was forked here. Nobody else would reap it where the machine's first process does not."""
    for process, supervised in answers.values():
        _end_child(process, supervised)
    deadline = time.monotonic() + END_SECONDS
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.005)
