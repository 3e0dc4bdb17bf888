"""Wrong programs that use a right one in a wrong way, for mistakes that several exercises have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

Program = Callable[..., Any]


def wrong_ways(program: Program, ways: Iterable[Program]) -> type:
    """A base for a class `Mistakes`, with one wrong program for each of `ways` to misuse the right `program`.

    A way is a function `way(program, *args, **kwargs)`; the mistake takes its name and docstring.
    """

    def of(way: Program) -> Program:
        @functools.wraps(way)
        def wrong(*args: Any, **kwargs: Any) -> Any:
            return way(program, *args, **kwargs)

        return wrong

    return type("WrongWays", (), {way.__name__: of(way) for way in ways})
