"""Parse numbers and sizes as people write them on a command line."""

from __future__ import annotations

import re

from graders.core.errors import HookworkError


class BadOption(HookworkError):
    """The value of an option cannot be read; the message says how to write one."""


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?)i?B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """The number of bytes in a size such as `512M` or `2GiB`; K, M and G are powers of 1024. Raises `BadOption`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise BadOption(f"{text!r} is not a size; write it like 512M or 2G")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def parse_seconds(text: str) -> float:
    """A number of seconds above 0 and below a million. Raises `BadOption`."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise BadOption(f"{text!r} is not a number of seconds above 0")
    return value


def parse_whole_number(text: str) -> int:
    """A whole number from 0 to below 2**53, which every JSON reader keeps exactly. Raises `BadOption`."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**53:
        raise BadOption(f"{text!r} is not a whole number from 0 to below 2**53")
    return int(text)


def parse_jobs(text: str) -> int:
    """How many notebooks to run at once: 1 or more. Raises `BadOption`."""
    value = parse_whole_number(text)
    if value < 1:
        raise BadOption("at least 1 notebook has to run at a time")
    return value
