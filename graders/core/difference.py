"""Why a check failed, as data: what was expected, what was seen, and where they differ.

A `Difference` is made once, by the comparison that failed. Plain text, HTML and the terminal each render it in their
own way, so nothing has to parse a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from graders.core.text import MESSAGE_LIMIT, clean_fields

EVENT_LIMIT = 100
"""The most characters of one event that are shown."""


class Kind(str, Enum):
    """What is different: a number, a shape, a type, the order of events, or a condition in words."""

    VALUE = "value"
    PRECISION = "precision"
    FINITE = "finite"
    FACTOR = "factor"
    TYPE = "type"
    DTYPE = "dtype"
    SHAPE = "shape"
    GRAPH = "graph"
    MISSING = "missing"
    ORDER = "order"
    HOOK_LEFT = "hook-left"
    HOOK_GONE = "hook-gone"
    CHANGED = "changed"
    CONDITION = "condition"
    # Nothing is of these kinds any more, but they stand in files of results that were written before.
    ALIASED = "aliased"
    SWALLOWED = "swallowed"
    EXCEPTION = "exception"


@dataclass(frozen=True)
class Row:
    """One line of two timelines side by side. `first` marks the first difference."""

    expected: str
    seen: str
    first: bool


@dataclass(frozen=True)
class Timelines:
    """An excerpt of two timelines around the first event that differs.

    It leaves out `equal_before` events at the start, equal in both, and `more_after` events at the end.
    """

    expected: tuple[str, ...]
    seen: tuple[str, ...]
    equal_before: int = 0
    more_after: int = 0

    def __post_init__(self) -> None:
        """Clean the events, which may come from a learner's code."""
        clean_fields(self, expected=EVENT_LIMIT, seen=EVENT_LIMIT)

    @property
    def first_difference_number(self) -> int:
        """The number of the first event that differs, counted from 1 from the start of the full timelines."""
        split = first_divergence(self.expected, self.seen)
        return self.equal_before + 1 + (len(self.expected) if split is None else split)

    @property
    def differing_events(self) -> tuple[str, str]:
        """The expected and the seen event at the first difference; "(end)" for a timeline that has ended."""
        return self._events_at(self.first_difference_number - 1 - self.equal_before)

    def _events_at(self, index: int) -> tuple[str, str]:
        left, right = (side[index] if index < len(side) else "(end)" for side in (self.expected, self.seen))
        return left, right

    @property
    def rows(self) -> Iterator[Row]:
        """The events side by side, with "(end)" where one timeline has ended."""
        if self.equal_before:
            yield Row(expected=f"({self.equal_before} equal)", seen="", first=False)
        split = first_divergence(self.expected, self.seen)
        for index in range(max(len(self.expected), len(self.seen))):
            left, right = self._events_at(index)
            yield Row(expected=left, seen=right, first=index == split)
        if self.more_after:
            yield Row(expected=f"({self.more_after} more)", seen="", first=False)

    def side_by_side(self) -> str:
        """Both timelines in aligned columns of text, with an arrow at the first difference."""
        rows = [("", "expected", "seen"), *(("→" if row.first else "", row.expected, row.seen) for row in self.rows)]
        width = max(len(expected) for _, expected, _ in rows)
        return "\n".join(f"{mark:1} {expected:<{width}}  {seen}".rstrip() for mark, expected, seen in rows)


def first_divergence(expected: Sequence[str], seen: Sequence[str]) -> int | None:
    """The index of the first event that differs, or None when the two lists are equal."""
    for index, (left, right) in enumerate(zip(expected, seen)):
        if left != right:
            return index
    return None if len(expected) == len(seen) else min(len(expected), len(seen))


def around_the_difference(expected: Sequence[str], seen: Sequence[str], context: int = 4) -> Timelines:
    """The first event that differs, with up to `context` events before and after it; everything if none differs."""
    split = first_divergence(expected, seen)
    longest = max(len(expected), len(seen))
    start, stop = (0, longest) if split is None else (max(0, split - context), min(longest, split + context + 1))
    return Timelines(
        expected=tuple(expected[start:stop]),
        seen=tuple(seen[start:stop]),
        equal_before=start,
        more_after=longest - stop,
    )


@dataclass(frozen=True)
class Difference:
    """One difference between what was expected and what was seen. All its texts are cleaned and short.

    `where` is the path to the value, and `entry` a place in it, such as "[0][1]". A comparison of values has `expected`
    and `seen`, one of events has `timelines`. `note` adds a remark; a condition in words has nothing else.
    """

    kind: Kind
    where: str = ""
    entry: str = ""
    expected: str = ""
    seen: str = ""
    note: str = ""
    timelines: Timelines | None = None

    def __post_init__(self) -> None:
        """Clean the texts, any of which may come from a learner's code."""
        clean_fields(self, **dict.fromkeys(("where", "entry", "expected", "seen", "note"), MESSAGE_LIMIT))

    @property
    def place(self) -> str:
        """The path and the entry in words, for the first column of a table."""
        return f"{self.where}, entry {self.entry}" if self.entry else self.where

    @property
    def sentence(self) -> str:
        """The difference in one line; of timelines, only the first event that differs."""
        if self.expected:
            entry = f" at {self.entry}" if self.entry else ""
            said = f"expected {self.expected}, saw {self.seen}{entry}" + (f"; {self.note}" if self.note else "")
        elif self.timelines:
            expected, seen = self.timelines.differing_events
            said = (
                f"the lists differ from entry {self.timelines.first_difference_number} on: "
                f"expected {expected}, saw {seen}"
            )
        else:
            said = self.note
        return f"{self.where}: {said}" if self.where else said

    @property
    def text(self) -> str:
        """The difference as plain text, with timelines in two columns."""
        return f"{self.sentence}\n{self.timelines.side_by_side()}" if self.timelines else self.sentence
