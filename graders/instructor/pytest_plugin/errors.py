"""Shows errors that a person can fix the way pytest does: one line after `ERROR:`, and no traceback."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from graders.core.errors import HookworkError

T = TypeVar("T")


@contextmanager
def shown_by_pytest() -> Iterator[None]:
    """Turn a `HookworkError` in the block into a `pytest.UsageError`, which ends the run with its message."""
    try:
        yield
    except HookworkError as error:
        raise pytest.UsageError(error.message_line()) from None


def option_type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Make `parse` the type of an option: pytest shows the message of its error along with the option's name."""

    def typed(text: str) -> T:
        try:
            return parse(text)
        except HookworkError as error:
            raise argparse.ArgumentTypeError(error.message_line()) from None

    return typed
