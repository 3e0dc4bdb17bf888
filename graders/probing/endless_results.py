"""Tell results that never end from functions that never return.

A probe reads what the learner's function returned. That may run the learner's code again, as a generator does, or go on
forever, as `itertools.count()` does.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from graders.wire.data import MAX_ITEMS

READING_METHODS = {"__iter__", "__next__", "__getitem__", "__len__", "__contains__", "__bool__", "__eq__", "__hash__",
           "__reversed__", "__missing__", "keys", "values", "items"}  # fmt: skip
"""Methods that run when somebody reads an object. (A generator runs under the name of its function.)"""
READING_SHARE = 0.8
"""The share of a probe's time after which a result that is still being read counts as endless."""


class EndlessResult(BaseException):
    """Raised when a result does not end; the message says after how much. No `Exception`: probes catch those."""


@dataclass(frozen=True)
class Clock:
    """How many seconds a probe may take, and the factor by which they were stretched for a slow machine."""

    seconds: float
    pace: float = 1.0


def bounded_iterator(result: Any) -> Any:
    """Return `result`, or a bounded iterator over it, of a class of the same name, if it is one of Python's own.

    No signal interrupts such an iterator while `list` or `sum` reads it: both are written in C.
    """
    kind = type(result)
    if kind.__module__ not in ("builtins", "itertools") or not hasattr(kind, "__next__"):
        return result
    return type(kind.__name__, (_Bounded,), {})(result)


class _Bounded:
    """An iterator that raises `EndlessResult` after `MAX_ITEMS` values."""

    def __init__(self, values: Iterator[Any]) -> None:
        self._values, self._left = values, MAX_ITEMS

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self._left:
            raise EndlessResult(f"{MAX_ITEMS} values")
        self._left -= 1
        return next(self._values)


@contextlib.contextmanager
def alarm_for_endless_results(clock: Clock | None, namespace: Mapping[str, Any]) -> Iterator[None]:
    """Raise `EndlessResult` inside if the time is nearly over and what was returned is still being read.

    A function that is still running is not interrupted. Without a `clock`, and where a platform or a thread gets no
    signals, nothing happens.
    """
    alarms = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if clock is None or not alarms:
        yield
        return

    def raise_if_reading(_: int, frame: FrameType | None) -> None:
        if reads_result(_stack_frames(frame), namespace):
            raise EndlessResult(f"{round(READING_SHARE * clock.seconds / clock.pace, 1):g} seconds")

    before = signal.signal(signal.SIGALRM, raise_if_reading)
    # Repeatedly, because between two values none of the learner's code is on the stack.
    signal.setitimer(signal.ITIMER_REAL, READING_SHARE * clock.seconds, clock.seconds / 200)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def reads_result(frames: Sequence[FrameType], namespace: Mapping[str, Any]) -> bool:
    """Whether these frames, outermost first, show a probe that is reading an object of the learner's.

    The learner's code is recognised by its globals. If torch calls it, it is a hook and not a result.
    """
    for outer, inner in itertools.pairwise(frames):
        code = inner.f_code
        if code is _Bounded.__next__.__code__:
            return True
        if inner.f_globals is namespace:
            reading = code.co_name in READING_METHODS or bool(code.co_flags & inspect.CO_GENERATOR)
            return reading and outer.f_globals.get("__name__", "").partition(".")[0] != "torch"
    return False


def _stack_frames(innermost: FrameType | None) -> list[FrameType]:
    found = []
    while innermost is not None:
        found.append(innermost)
        innermost = innermost.f_back
    return found[::-1]


def traceback_frames(trace: TracebackType | None) -> list[FrameType]:
    """Return the frames of a traceback, outermost first."""
    found = []
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found
