"""Exceptions that a caller's functions raise on purpose."""

from typing import Any

from graders.scenes.scene import Value
from graders.scenes.story import Draw, told

FAILURES: dict[str, tuple[Value, ...]] = {"failure": ("an error", "an interrupt")}


@told
def an_error(draw: Draw, case: Any) -> Any:
    """An exception: one of many kinds, so that whoever swallows errors of one kind swallows it, or an interrupt."""
    if case.failure == "an interrupt":
        error: Any = KeyboardInterrupt("on purpose")
    else:

        class Odd(ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, ZeroDivisionError):
            pass

        error = Odd("on purpose")
    return error
