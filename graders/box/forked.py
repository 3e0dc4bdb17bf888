"""One probe in a child process that starts from the executed notebook.

The child is a fork of the kernel: it has every name the notebook defined and nothing that an earlier
probe did. It may loop, crash or exit; that costs this probe and no other. Background threads of the
notebook do not exist in it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
import warnings
from collections.abc import Callable

import torch

from graders.box import frames
from graders.box.confine import die_with_parent
from graders.box.limits import room_for_a_process, use_probe_memory
from graders.box.probing import Answer

# Bound before any learner's code runs in this process.
_fork, _exit, _kill, _killpg, _waitpid = os.fork, os._exit, os.kill, os.killpg, os.waitpid
_pipe, _read, _write, _close, _setsid = os.pipe, os.read, os.write, os.close, os.setsid
_monotonic, _set_num_threads, _select = time.monotonic, torch.set_num_threads, select.select

_NO_MEMORY = frames.pack(
    frames.Frame({"type": "raised", "status": "over-limit", "message": "memory: there was none left for the result"})
)

available = hasattr(os, "fork") and os.uname().sysname == "Linux" if hasattr(os, "uname") else False


def in_fork(work: Callable[[], Answer], seconds: float, pace: float = 1.0) -> Answer:
    """The answer of `work()` run in a forked child, or how the child ended instead.

    `pace` is what the seconds were stretched by; the message leaves it out.
    """
    try:
        reader, writer = _pipe()
    except OSError as error:
        return Answer({"type": "raised", "status": "over-limit", "message": f"descriptors: none is left ({error})"})
    try:
        with warnings.catch_warnings(), room_for_a_process():
            # Python 3.12 warns of forks in a process with threads; a notebook may have made warnings errors.
            warnings.simplefilter("ignore")
            child = _fork()
    except OSError as error:
        _close(reader)
        _close(writer)
        message = f"processes: the notebook left no room for another one ({error})"
        return Answer({"type": "raised", "status": "over-limit", "message": message})
    if child == 0:
        _child(work, reader, writer)
    _close(writer)
    try:
        raw, in_time = _collect(reader, _monotonic() + seconds)
    finally:
        _close(reader)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            _killpg(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            _kill(child, signal.SIGKILL)
        _, status = _waitpid(child, 0)
    if not in_time:
        return Answer(
            {"type": "raised", "status": "timed-out", "message": f"no result after {seconds / pace:g} seconds"}
        )
    try:
        frame = frames.read(_reader(raw))
    except frames.FrameError:
        frame = None
    if frame is None:
        return Answer({"type": "raised", "status": "crashed", "message": _how_it_ended(status)})
    return Answer(frame.head, frame.body)


def _child(work: Callable[[], Answer], reader: int, writer: int) -> None:
    """Never returns: learner's code must not go on in a copy of the kernel."""
    try:
        with contextlib.suppress(OSError):
            _setsid()
        die_with_parent()  # a fork does not inherit it, and a box may be ended while this probe hangs
        _close(reader)
        # A parent that ever computed with several threads leaves a pool that is dead here.
        _set_num_threads(1)
        use_probe_memory()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        done = work()
        raw = frames.pack(frames.Frame(done.head, done.body))
        while raw:
            raw = raw[_write(writer, raw) :]
    except MemoryError:
        _write(writer, _NO_MEMORY)
    finally:
        _exit(0)


def _collect(reader: int, deadline: float) -> tuple[bytes, bool]:
    """All bytes up to the end of the pipe, and whether the end came in time."""
    raw = bytearray()
    while len(raw) <= frames.MAX_HEAD + frames.MAX_BODY + 8:
        left = deadline - _monotonic()
        if left <= 0 or not _select([reader], [], [], left)[0]:
            return bytes(raw), False
        part = _read(reader, 1 << 16)
        if not part:
            break
        raw += part
        if _complete(raw):  # a grandchild may hold the pipe open for ever
            break
    return bytes(raw), True


def _complete(raw: bytearray) -> bool:
    if len(raw) < 8:
        return False
    head, body = int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:8], "little")
    return len(raw) >= 8 + head + body


def _reader(raw: bytes) -> Callable[[int], bytes]:
    position = 0

    def read_exactly(count: int) -> bytes:
        nonlocal position
        part = raw[position : position + count]
        position += count
        return part

    return read_exactly


def _how_it_ended(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return f"the process was ended by the signal {name}"
    return f"the process exited (with code {os.WEXITSTATUS(status)}) before there was a result"
