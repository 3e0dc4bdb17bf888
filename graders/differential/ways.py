"""Wrong programs that are a right one, used in a wrong way: what goes wrong alike in several exercises."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

Program = Callable[..., Any]


def wrong_ways(program: Program, ways: Iterable[Program]) -> type:
    """The base of a class `Mistakes`: a right `program` of an exercise in each of these `ways`.

    A way is a function `way(program, *args, **kwargs)`. Its name and its docstring are those of the mistake.
    """

    def of(way: Program) -> Program:
        @functools.wraps(way)
        def wrong(*args: Any, **kwargs: Any) -> Any:
            return way(program, *args, **kwargs)

        return wrong

    return type("WrongWays", (), {way.__name__: of(way) for way in ways})
