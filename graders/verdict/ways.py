"""Wrong programs that use a right one in a wrong way, for mistakes that several exercises have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from torch.utils.hooks import RemovableHandle

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


def no_handle(program: Program, *args: Any, **kwargs: Any) -> Any:
    """The way of somebody who returns all but the handles."""
    found = program(*args, **kwargs)
    if not isinstance(found, tuple):
        return None if _are_handles(found) else found
    rest = tuple(part for part in found if not _are_handles(part))
    return rest[0] if len(rest) == 1 else rest


def _are_handles(part: Any) -> bool:
    return isinstance(part, RemovableHandle) or (isinstance(part, list) and bool(part) and all(map(_are_handles, part)))
