"""A call of the learner's function in the middle of another one."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def calling_inside(register: Callable[..., Any], ask: Callable[[], Any]) -> Iterator[list[Any]]:
    """In the block, the first call of a hook makes the call `ask()`. Yields a list that holds its result afterwards.

    `register` is the method of a module that registers the hook. The list stays empty if the hook is never called.
    """
    begun, found = list[bool](), list[Any]()

    def call_inside(*args: Any) -> None:
        if not begun:  # what `ask` runs may call the hook, too
            begun.append(True)
            found.append(ask())

    with register(call_inside):
        yield found
