"""Compare a learner's guess with what PyTorch showed, and describe both in a line. No guess makes this raise."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from numbers import Real
from typing import Any

from graders.core.shown import describe_value
from graders.core.text import clean_text

RELATIVE_TOLERANCE = 0.015
"""The largest relative error of a right guess, so that 0.33 will do for a third."""
ROUNDING_TOLERANCE = 1e-5
"""The same if the guess or the value is a whole number: then only rounding errors are forgiven."""
ZERO_TOLERANCE = 1e-7
"""A value below this is a zero with rounding errors, so that a guess of 0 is right."""
LIMIT = 160
"""The most characters of a value that are shown."""

_QUOTED = re.compile(r"'(?!(?:None|True|False|nan|inf)')([^\W\d][\w.]*(?: [\w.]+)*)'")
"""A quoted string of words in a list or dict, which can be shown without quotes and still not be misread."""

_SAYINGS = {"none": None, "true": True, "yes": True, "false": False, "no": False}
_RAISES = {"raises", "itraises", "raise", "raised", "error", "anerror", "exception", "anexception"}


def guess_agrees(guess: Any, value: Any) -> bool:
    """Whether `guess` is right. A guess that cannot be compared with `value` is wrong.

    Numbers may be a little off (`RELATIVE_TOLERANCE`). A tensor may be given as lists or, if all its entries are the
    same, as one number; a list or tensor with a single entry stands for that entry. Strings are compared without case
    and spaces. An exception may be given as "raises", as its class or as the class's name.
    """
    try:
        return _values_agree(guess, value)
    except Exception:  # only an object of the learner's own class can get here
        return False


def first_list_difference(guess: Any, value: Any) -> tuple[int, str, str] | None:
    """Where two lists first differ: the place, counted from 1, and what each has there; None if one is not a list."""
    try:
        guessed, shown = _split_guess(_as_plain_value(guess)), _as_plain_value(value)
        if not isinstance(guessed, list) or not isinstance(shown, list):
            return None
        for place in range(max(len(guessed), len(shown))):
            pair = [side[place : place + 1] for side in (guessed, shown)]
            if not all(pair) or not _values_agree(*pair):
                left, right = (describe_briefly(entry[0]) if entry else "nothing more" for entry in pair)
                return place + 1, left, right
    except Exception:
        return None
    return None


def describe_briefly(value: Any) -> str:
    """A guess or a value in one short line."""
    try:
        return clean_text(_brief_text(value), LIMIT)
    except Exception:  # an object of the learner's own class may have a broken `repr`
        return f"a {type(value).__name__}"


def _values_agree(guess: Any, value: Any) -> bool:
    if _is_number(guess) and hasattr(value, "tolist"):
        entries = list(_flat_entries(value.tolist()))
        return bool(entries) and all(_is_number(entry) and _numbers_close(guess, entry) for entry in entries)
    guess, value = _as_plain_value(guess), _as_plain_value(value)
    if isinstance(value, list):
        guess = _split_guess(guess)
        same = isinstance(guess, list) and len(guess) == len(value)
        return same and all(_values_agree(*pair) for pair in zip(guess, value))
    if isinstance(guess, str):
        return _word_names_value(_normalised_word(guess), value)
    if _is_exception(value):
        return _is_exception(guess) and issubclass(_class_of(value), _class_of(guess))
    if _is_number(value):
        return _is_number(guess) and _numbers_close(guess, value)
    if isinstance(value, Mapping):
        return (
            isinstance(guess, Mapping)
            and guess.keys() == value.keys()
            and all(_values_agree(guess[key], value[key]) for key in value)
        )
    if isinstance(value, Set):
        return isinstance(guess, (Set, list)) and set(guess) == set(value)
    return type(guess) is type(value) and bool(guess == value)


def _as_plain_value(value: Any) -> Any:
    """Tensors, arrays and sequences as lists, or if they have a single entry, as that entry."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        value = list(value)
    return _as_plain_value(value[0]) if isinstance(value, list) and len(value) == 1 else value


def _split_guess(guess: Any) -> Any:
    """Split a guess that was written as one string, "a, b", "a -> b" or "a b", where the value is a list."""
    if not isinstance(guess, str):
        return guess
    plain = guess.strip().strip("()[]")
    return re.split(r"\s*(?:,|->|→)\s*", plain) if re.search(r",|->|→", plain) else plain.split()


def _flat_entries(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for entry in value:
            yield from _flat_entries(entry)
    else:
        yield value


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _numbers_close(one: Any, other: Any) -> bool:
    guess, value = float(one), float(other)
    if math.isnan(guess) or math.isnan(value):
        return math.isnan(guess) and math.isnan(value)
    if guess == 0 or math.isinf(guess) or math.isinf(value):
        return guess == value or (guess == 0 and abs(value) < ZERO_TOLERANCE)
    whole = any(abs(number - round(number)) <= ROUNDING_TOLERANCE * abs(number) for number in (guess, value))
    return math.isclose(guess, value, rel_tol=ROUNDING_TOLERANCE if whole else RELATIVE_TOLERANCE)


def _is_exception(value: Any) -> bool:
    return isinstance(value, BaseException) or (isinstance(value, type) and issubclass(value, BaseException))


def _class_of(value: Any) -> type:
    return value if isinstance(value, type) else type(value)


def _normalised_word(text: str) -> str:
    return "".join(text.casefold().split())


def _word_names_value(word: str, value: Any) -> bool:
    """Whether a normalised word stands for `value`: a string, None, a bool, an exception, a number or a name."""
    if isinstance(value, str):
        return word == _normalised_word(value)
    if value is None or isinstance(value, bool):
        return word in _SAYINGS and _SAYINGS[word] is value
    if _is_exception(value):
        return word in _RAISES or word in [_normalised_word(kind.__name__) for kind in _class_of(value).__mro__[:-1]]
    if _is_number(value):
        return _numbers_close(float(word), value)
    name = str(getattr(value, "__name__", value))
    return word in (_normalised_word(name), _normalised_word(name).rpartition(".")[2])


def _brief_text(value: Any) -> str:
    plain = _as_plain_value(value)
    if isinstance(plain, str):
        return plain
    if _is_exception(plain):
        return f"raises {_class_of(plain).__name__}"
    if isinstance(plain, type):
        return plain.__name__
    if isinstance(plain, list) and plain and all(map(_is_plain_text, plain)):
        return ", ".join(plain)
    text = describe_value(plain if not isinstance(plain, list) else value)
    words = _QUOTED.sub(r"\1", text)
    return text if set(words) & set("'\"") else words


def _is_plain_text(entry: Any) -> bool:
    """Whether a text can stand in a list without quotes, so that a reader still sees where it ends."""
    return isinstance(entry, str) and entry.strip() == entry != "" and "," not in entry
