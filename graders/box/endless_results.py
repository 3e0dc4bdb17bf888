"""Results that do not come to an end: told from functions that do not.

A probe reads what the learner's function returned, and that may run code of the learner's again, or count for ever.
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
"""Methods that run when somebody looks at an object. A generator has the name of its function."""
READING_SHARE = 0.8
"""Of the time for a probe: what is read longer than that is not read to its end."""


class EndlessResult(BaseException):
    """What was returned goes on and on; the message says how far. No `Exception`: probes note those and go on."""


@dataclass(frozen=True)
class Clock:
    """How many seconds a probe may take, and by what they were stretched for a slow machine."""

    seconds: float
    pace: float = 1.0


def bounded_iterator(result: Any) -> Any:
    """`result`; one of Python's own iterators with a bound, under the same name. No signal interrupts these."""
    kind = type(result)
    if kind.__module__ not in ("builtins", "itertools") or not hasattr(kind, "__next__"):
        return result
    return type(kind.__name__, (_Bounded,), {})(result)


class _Bounded:
    """An iterator that raises `EndlessResult` instead of a value too many."""

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
    """Raise `EndlessResult` in here when the time is nearly over and what was returned is still being read.

    Nothing happens to a function that is still running, nor where a platform or a thread gets no signals.
    """
    alarms = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if clock is None or not alarms:
        yield
        return

    def raise_if_reading(_: int, frame: FrameType | None) -> None:
        if reads_result(_stack_frames(frame), namespace):
            raise EndlessResult(f"{round(READING_SHARE * clock.seconds / clock.pace, 1):g} seconds")

    before = signal.signal(signal.SIGALRM, raise_if_reading)
    # Again and again: between two values, there is nothing to be seen.
    signal.setitimer(signal.ITIMER_REAL, READING_SHARE * clock.seconds, clock.seconds / 200)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def reads_result(frames: Sequence[FrameType], namespace: Mapping[str, Any]) -> bool:
    """Whether a probe looks at an object of the learner's. `frames` come from the outermost inwards.

    The learner's code is recognised by its globals. What torch calls is a hook, and no look at a result.
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
    """The frames of a traceback, from the outermost inwards."""
    found = []
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found
