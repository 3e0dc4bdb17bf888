"""Says what a program prints, in one line, as a comment beside it."""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor

from graders.core.shown import MISSING, describe_pair, describe_type, with_article
from graders.wire.data import Array, Refused

NUMBERS = 12
"""The most entries of a tensor that a comment shows."""
EVENTS = 6
"""The most entries of a list of events that a comment shows whole."""
LONGEST = 200


def printed(value: Any, digits: int = 4, *, inside: bool = False) -> str:
    """A value as `print` shows it, in one line; of floats that stand alone, `digits` significant digits.

    `inside` says whether it is part of a list, tuple or dict.
    """
    if isinstance(value, Array | Tensor):
        return _printed_tensor(value, inside)
    if type(value) in (list, tuple):
        inner = ", ".join(printed(part, digits, inside=True) for part in value[:8]) + (", …" if len(value) > 8 else "")
        return f"[{inner}]" if type(value) is list else f"({inner}{',' * (len(value) == 1)})"
    if type(value) is dict:
        pairs = (f"{key!r}: {printed(part, digits, inside=True)}" for key, part in list(value.items())[:8])
        return "{" + ", ".join(pairs) + "}"
    if type(value) is float:
        return str(float(f"{value:.{digits}g}") + 0.0)
    if type(value) in (bool, int, str, type(None)):
        return repr(value)
    return with_article(value.type) if isinstance(value, Refused) else describe_type(value)


def _printed_tensor(value: Array | Tensor, inside: bool) -> str:
    tensor = value.tensor if isinstance(value, Array) else value
    if tensor.numel() > NUMBERS:
        return describe_pair(value, MISSING)[0]
    if isinstance(value, Array) and value.kind == "array":
        text = repr(tensor.numpy()) if inside else str(tensor.numpy())
    else:
        text = repr(tensor.detach())
    text = re.sub(r"(?<=\[) | (?=\])", "", " ".join(text.split()))
    return f"{text[:-1]}, requires_grad=True)" if value.requires_grad else text


def short_texts(wanted: Any, seen: Any) -> tuple[str, str] | None:
    """Both as Python prints them, with digits that tell them apart; None if they look alike or take too much room."""
    pairs = ((printed(wanted, digits), printed(seen, digits)) for digits in (4, 6, 9, 12))
    return next((texts for texts in pairs if texts[0] != texts[1] and max(map(len, texts)) < LONGEST), None)


def are_long_timelines(wanted: Any, seen: Any) -> bool:
    """Whether both are lists of events, of which the first difference is shown: the rest is for the learner to find."""
    are_events = type(wanted) is type(seen) is list and all(type(part) is str for part in (*wanted, *seen))
    return are_events and max(len(wanted), len(seen)) > EVENTS


def where_they_part(wanted: list[str], seen: list[str]) -> tuple[int, str, str]:
    """The first entry in which two lists of events differ, counted from 1, and some entries from there on of each."""
    pairs = enumerate(zip(wanted, seen))
    at = next((index for index, pair in pairs if pair[0] != pair[1]), min(len(wanted), len(seen)))
    return at + 1, _some_from(wanted, at), _some_from(seen, at)


def _some_from(events: list[str], at: int) -> str:
    some = ", ".join(map(repr, events[at : at + 3])) or "no more"
    return f"{some}, …" if at + 3 < len(events) else some
