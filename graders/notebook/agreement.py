"""Whether a guess is what PyTorch showed, and how both look in a line. Nothing that a learner writes raises here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from numbers import Real
from typing import Any

from graders.core.shown import show
from graders.core.text import clean

CLOSE = 0.015
"""How far a guess may be off, as a part of the value: 0.33 stands for a third."""
EXACT = 1e-5
"""The same where the guess or the value is a whole number: there, only rounding is forgiven."""
ZERO = 1e-7
"""What rounding leaves of a zero."""
LIMIT = 160
"""Characters of a value that is shown."""

_QUOTED = re.compile(r"'(?!(?:None|True|False|nan|inf)')([^\W\d][\w.]*(?: [\w.]+)*)'")
"""A text in a list or dict that nobody takes for anything else without its quotes: words."""

_SAYINGS = {"none": None, "true": True, "yes": True, "false": False, "no": False}
_RAISES = {"raises", "itraises", "raise", "raised", "error", "anerror", "exception", "anexception"}


def agrees(guess: Any, value: Any) -> bool:
    """Whether `guess` is right. What cannot be compared with `value` is not.

    Numbers may be a little off (`CLOSE`), a tensor may be given as lists or, where all entries are the same, as one
    number; a list or tensor of one entry stands for this entry. Strings are compared without regard to case and blanks,
    exceptions with "raises", with their class or its name, and lists in order.
    """
    try:
        return _agrees(guess, value)
    except Exception:  # a comparison that only a learner's own object could break
        return False


def parting(guess: Any, value: Any) -> tuple[int, str, str] | None:
    """Where two lists part: the place, counted from 1, and what stands there in each. None where they are no lists."""
    try:
        yours, theirs = _listed(_plain(guess)), _plain(value)
        if not isinstance(yours, list) or not isinstance(theirs, list):
            return None
        for place in range(max(len(yours), len(theirs))):
            pair = [side[place : place + 1] for side in (yours, theirs)]
            if not all(pair) or not _agrees(*pair):
                left, right = (shown(entry[0]) if entry else "nothing more" for entry in pair)
                return place + 1, left, right
    except Exception:
        return None
    return None


def shown(value: Any) -> str:
    """A guess or a value in one short line."""
    try:
        return clean(_shown(value), LIMIT)
    except Exception:  # a learner's own object may have no text
        return f"a {type(value).__name__}"


def _agrees(guess: Any, value: Any) -> bool:
    if _is_number(guess) and hasattr(value, "tolist"):
        entries = list(_entries(value.tolist()))
        return bool(entries) and all(_is_number(entry) and _close(guess, entry) for entry in entries)
    guess, value = _plain(guess), _plain(value)
    if isinstance(value, list):
        guess = _listed(guess)
        same = isinstance(guess, list) and len(guess) == len(value)
        return same and all(_agrees(*pair) for pair in zip(guess, value))
    if isinstance(guess, str):
        return _says(_word(guess), value)
    if _is_exception(value):
        return _is_exception(guess) and issubclass(_class(value), _class(guess))
    if _is_number(value):
        return _is_number(guess) and _close(guess, value)
    if isinstance(value, Mapping):
        return (
            isinstance(guess, Mapping)
            and guess.keys() == value.keys()
            and all(_agrees(guess[key], value[key]) for key in value)
        )
    if isinstance(value, Set):
        return isinstance(guess, (Set, list)) and set(guess) == set(value)
    return type(guess) is type(value) and bool(guess == value)


def _plain(value: Any) -> Any:
    """Tensors, arrays and sequences as lists; one of a single entry as this entry."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        value = list(value)
    return _plain(value[0]) if isinstance(value, list) and len(value) == 1 else value


def _listed(guess: Any) -> Any:
    """What was written as one string, "a, b", "a -> b" or "a b", where a list is asked for."""
    if not isinstance(guess, str):
        return guess
    plain = guess.strip().strip("()[]")
    return re.split(r"\s*(?:,|->|→)\s*", plain) if re.search(r",|->|→", plain) else plain.split()


def _entries(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for entry in value:
            yield from _entries(entry)
    else:
        yield value


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _close(one: Any, other: Any) -> bool:
    guess, value = float(one), float(other)
    if math.isnan(guess) or math.isnan(value):
        return math.isnan(guess) and math.isnan(value)
    if guess == 0 or math.isinf(guess) or math.isinf(value):
        return guess == value or (guess == 0 and abs(value) < ZERO)
    whole = any(abs(number - round(number)) <= EXACT * abs(number) for number in (guess, value))
    return math.isclose(guess, value, rel_tol=EXACT if whole else CLOSE)


def _is_exception(value: Any) -> bool:
    return isinstance(value, BaseException) or (isinstance(value, type) and issubclass(value, BaseException))


def _class(value: Any) -> type:
    return value if isinstance(value, type) else type(value)


def _word(text: str) -> str:
    return "".join(text.casefold().split())


def _says(word: str, value: Any) -> bool:
    """Whether a word names `value`."""
    if isinstance(value, str):
        return word == _word(value)
    if value is None or isinstance(value, bool):
        return word in _SAYINGS and _SAYINGS[word] is value
    if _is_exception(value):
        return word in _RAISES or word in [_word(kind.__name__) for kind in _class(value).__mro__[:-1]]
    if _is_number(value):
        return _close(float(word), value)
    name = str(getattr(value, "__name__", value))
    return word in (_word(name), _word(name).rpartition(".")[2])


def _shown(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, str):
        return plain
    if _is_exception(plain):
        return f"raises {_class(plain).__name__}"
    if isinstance(plain, type):
        return plain.__name__
    if isinstance(plain, list) and plain and all(map(_is_plain_text, plain)):
        return ", ".join(plain)
    text = show(plain if not isinstance(plain, list) else value)
    words = _QUOTED.sub(r"\1", text)
    return text if set(words) & set("'\"") else words


def _is_plain_text(entry: Any) -> bool:
    """Whether one sees where a text ends when it stands in a list without quotes."""
    return isinstance(entry, str) and entry.strip() == entry != "" and "," not in entry
