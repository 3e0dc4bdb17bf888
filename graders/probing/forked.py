"""Run probes in child processes that start from the executed notebook.

A child is a fork of the kernel: it has every name that the notebook defined, but none of its background threads. It
answers the probes of one exercise, one after the other, and cannot affect those of another. It may loop, crash or exit;
that costs only this probe.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from typing import NoReturn

import torch

from graders.probing.asking import Answer
from graders.probing.process_limits import die_with_parent, room_for_a_process, use_probe_memory
from graders.wire import frames
from graders.wire.frames import Frame

# Bound before any learner's code runs in this process, which may replace them.
_fork, _exit, _kill, _killpg, _waitpid = os.fork, os._exit, os.kill, os.killpg, os.waitpid
_pipe, _read, _write, _close, _set_blocking = os.pipe, os.read, os.write, os.close, os.set_blocking
_setsid, _monotonic, _set_num_threads, _select = os.setsid, time.monotonic, torch.set_num_threads, select.select

_NO_MEMORY = frames.pack_frame(
    Frame({"type": "raised", "status": "over-limit", "message": "memory: there was none left for the result"})
)


class _TooLate(Exception):
    """Raised at the deadline of a request."""


class ForkedProbes:
    """Asks children of this process. A fork takes longer than most probes, so a child stays for the whole exercise."""

    def __init__(self, work: Callable[[Frame], Answer]) -> None:
        """`work` turns a request into an answer; it is called in a child."""
        self._work = work
        self._exercise = ""
        self._child: _Child | None = None

    def answer(self, exercise: str, request: Frame, seconds: float, pace: float = 1.0) -> Answer:
        """Return what `work` answers in the child of an exercise, or how the child ended instead.

        A child that answers anything but "seen", or nothing within `seconds`, is ended. If it had answered other
        requests before, and did not time out, a new child gets the request: what those left behind must not decide
        this one. `pace` is the factor by which the seconds were stretched; the message leaves it out.
        """
        used = self._child is not None and self._exercise == exercise
        if not used:
            self.end()
            try:
                self._exercise, self._child = exercise, _Child(self._work)
            except OSError as error:
                return _no_room_answer(error)
        assert self._child is not None
        try:
            found = self._child.ask(request, _monotonic() + seconds)
        except _TooLate:
            self.end()
            message = f"no result after {round(seconds / pace, 1):g} seconds"
            return Answer({"type": "raised", "status": "timed-out", "message": message})
        if found is not None and found.head.get("type") == "seen":
            return found
        status = self.end()
        if used:
            return self.answer(exercise, request, seconds, pace)
        return found or Answer({"type": "raised", "status": "crashed", "message": _exit_text(status)})

    def dismiss(self) -> None:
        """Kill the child, if any, but do not wait: it takes 5 ms to give back its memory. `end` waits."""
        if self._child is not None:
            self._child.kill()

    def end(self) -> int:
        """End the child, if any, with everything in its session; return its status as from `os.wait`."""
        child, self._child = self._child, None
        return 0 if child is None else child.end()


class _Child:
    """One forked process, and a pipe in each direction."""

    def __init__(self, work: Callable[[Frame], Answer]) -> None:
        """Fork a child. Raises `OSError` when there is no room for a process or its pipes."""
        pipes: list[int] = []
        try:
            pipes += _pipe()
            pipes += _pipe()
            with warnings.catch_warnings(), room_for_a_process():
                # Python 3.12 warns when a process with threads forks; a notebook may have made warnings errors.
                warnings.simplefilter("ignore")
                self._pid = _fork()
        except OSError:
            for pipe in pipes:
                _close(pipe)
            raise
        requests, self._requests, self._answers, answers = pipes
        if self._pid == 0:
            _close(self._requests)
            _close(self._answers)
            _serve_probes(work, requests, answers)
        _close(requests)
        _close(answers)
        _set_blocking(self._requests, False)

    def ask(self, request: Frame, deadline: float) -> Answer | None:
        """Return the child's answer; None if it ended without one. Raises `_TooLate` at the deadline."""
        raw = frames.pack_frame(request)
        while raw:
            left = deadline - _monotonic()
            if left <= 0 or not _select([], [self._requests], [], left)[1]:
                raise _TooLate
            try:
                raw = raw[_write(self._requests, raw) :]
            except OSError:
                return None
        try:
            frame = frames.read_frame(_exact_reader(self._answers, deadline))
        except frames.FrameError:
            return None
        return None if frame is None else Answer(frame.head, frame.body)

    def kill(self) -> None:
        """Kill the child and everything in its session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            _killpg(self._pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            _kill(self._pid, signal.SIGKILL)

    def end(self) -> int:
        """Kill the child and everything in its session, and wait for its end; return its status."""
        _close(self._requests)
        _close(self._answers)
        self.kill()
        with contextlib.suppress(ChildProcessError):  # a notebook may have chosen to ignore SIGCHLD
            return _waitpid(self._pid, 0)[1]
        return 0


def _no_room_answer(error: OSError) -> Answer:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        message = f"descriptors: none are left ({error})"
    else:
        message = f"processes: the notebook left no room for another ({error})"
    return Answer({"type": "raised", "status": "over-limit", "message": message})


def _serve_probes(work: Callable[[Frame], Answer], requests: int, answers: int) -> NoReturn:
    """In the child: answer requests until the pipe closes. Never returns, or a copy of the kernel would go on."""
    try:
        with contextlib.suppress(OSError):
            _setsid()
        die_with_parent()  # not inherited by a fork; the box may be ended while this probe hangs
        # If the parent ever computed with several threads, its thread pool is dead here.
        _set_num_threads(1)
        use_probe_memory()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.freeze()  # a probe that asks what is still alive collects garbage, but not that of all modules
        while (request := frames.read_frame(_exact_reader(requests), max_body=frames.MAX_REQUEST)) is not None:
            done = work(request)
            raw = frames.pack_frame(Frame(done.head, done.body))
            while raw:
                raw = raw[_write(answers, raw) :]
    except MemoryError:
        _write(answers, _NO_MEMORY)
    finally:
        _exit(0)


def _exact_reader(descriptor: int, deadline: float | None = None) -> Callable[[int], bytes]:
    """Return a function that reads exactly `count` bytes from a pipe, fewer only at its end.

    It raises `_TooLate` at the deadline. No more than `count` is waited for: a grandchild may hold the pipe open.
    """

    def read_exactly(count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            left = None if deadline is None else deadline - _monotonic()
            if (left is not None and left <= 0) or not _select([descriptor], [], [], left)[0]:
                raise _TooLate
            if not (part := _read(descriptor, count - len(found))):
                break
            found += part
        return bytes(found)

    return read_exactly


def _exit_text(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return f"the process that ran it was ended by signal {name}"
    return f"the process that ran it exited with code {os.WEXITSTATUS(status)}"
