"""What a person can mend, as pytest shows it: one line after `ERROR:`, and no traceback."""

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
    """End the run, before its first test, with the message."""
    try:
        yield
    except HookworkError as error:
        raise pytest.UsageError(error.message_line()) from None


def option_type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """`parse` as the type of an option: pytest then shows the message with the name of the option."""

    def typed(text: str) -> T:
        try:
            return parse(text)
        except HookworkError as error:
            raise argparse.ArgumentTypeError(error.message_line()) from None

    return typed
