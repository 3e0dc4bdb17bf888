"""The message of a check, taken apart again: what was expected beside what was seen.

Messages are stored and sent as text (see `expect` and `timeline`, which write them). Whoever draws them in columns
reads them here; a message in other words stays a sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SENTENCE = re.compile(
    r"(?P<path>.+?): expected (?P<expected>.+), saw (?P<seen>.+?)(?: at (?P<place>(?:\[\d+\])+))?(?:; (?P<rest>.+))?"
)
_HEADER = re.compile(r"  expected +seen")


@dataclass(frozen=True)
class Comparison:
    """Two values side by side; `what` is where they are found, `rest` is what else the message says."""

    what: str
    expected: str
    seen: str
    rest: str = ""


@dataclass(frozen=True)
class Event:
    """A row of two timelines. `parts` marks the first divergence."""

    expected: str
    seen: str
    parts: bool


@dataclass(frozen=True)
class Timelines:
    """Two timelines side by side, under a sentence that says where they part."""

    sentence: str
    events: tuple[Event, ...]


def read(message: str) -> Comparison | Timelines | None:
    """The comparison that a message holds; None for any other sentence."""
    first, _, rest = message.partition("\n")
    header, _, rows = rest.partition("\n")
    if _HEADER.fullmatch(header):
        column = header.rindex("seen")
        return Timelines(first, tuple(_event(row, column) for row in rows.split("\n")))
    match = None if rest else _SENTENCE.fullmatch(first)
    if match is None:
        return None
    what = match["path"] + (f", entry {match['place']}" if match["place"] else "")
    return Comparison(what, match["expected"], match["seen"], match["rest"] or "")


def _event(row: str, column: int) -> Event:
    return Event(row[2:column].rstrip(), row[column:], row.startswith("→"))
