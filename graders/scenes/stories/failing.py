"""Exceptions that a caller's functions raise on purpose."""

from typing import Any

from graders.scenes.story import Draw, Value, told

FAILURES: dict[str, tuple[Value, ...]] = {"failure": ("KeyError", "KeyboardInterrupt", "ValueError")}
"""Kinds of `an_error`. "KeyboardInterrupt" and "KeyError" are just that; other names stand for one of many kinds."""


@told
def an_error(draw: Draw, case: Any) -> Any:
    """An interrupt, a plain error, or one of many kinds, so that any `except` that names one of them catches it."""
    if case.failure == "KeyboardInterrupt":
        error: Any = KeyboardInterrupt("on purpose")
    elif case.failure == "KeyError":
        error = KeyError("on purpose")
    else:

        class Odd(ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, ZeroDivisionError):
            pass

        error = Odd("on purpose")
    return error


@told
def a_failing_call(draw: Draw, case: Any) -> Any:
    """An error, and a function that raises it; where `case.failing_run` is 2, only from its second call on."""
    error = an_error(draw, case)
    if case.failing_run == 1:

        def fails(*args: Any) -> None:
            raise error

    else:
        calls: list[Any] = []

        def fails(*args: Any) -> None:
            calls.append(1)
            if len(calls) > 1:
                raise error

    return error, fails
