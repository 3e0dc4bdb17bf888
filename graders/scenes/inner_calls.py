"""A call of the learner's function in the middle of another one."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def calling_inside(register: Callable[..., Any], ask: Callable[[], Any]) -> Iterator[list[Any]]:
    """In the block, the first call of a hook makes the call `ask()`. Yields a list that holds its result afterwards.

    `register` is the method of a module that registers the hook.
    """
    found: list[Any] = []

    def call_inside(*args: Any) -> None:
        if not found:
            found.append("it has begun")
            found[:] = [ask()]

    with register(call_inside):
        yield found
