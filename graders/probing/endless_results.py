"""Bounds iterators: no signal interrupts `list` or `sum` while they read `itertools.count()`; all are written in C."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graders.wire.data import MAX_ITEMS


class EndlessResult(BaseException):
    """Raised when a result does not end; the message says after how much. No `Exception`: probes catch those."""


def bounded_iterator(result: Any) -> Any:
    """Return `result`, or a bounded iterator over it, of a class of the same name, if it is one of Python's own."""
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
