"""Describe values in a few words, for messages to people."""

from __future__ import annotations

from typing import Any

import torch

from graders.core.text import shorten_text
from graders.wire.data import Array, Refused


class _Missing:
    """The type of `MISSING`: there is no value in this place, not even None."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
"""Stands for a value that is not there."""


def describe_value(value: Any, digits: int = 6) -> str:
    """A value in a few words: floats with `digits` significant digits, only the first entries of lists and tensors."""
    kind = "a numpy array" if isinstance(value, Array) and value.kind == "array" else "a tensor"
    if isinstance(value, Array):
        value = value.tensor
    if isinstance(value, torch.Tensor):
        shape = tuple(value.shape)
        if not value.numel():
            return f"{kind} of shape {shape}, without entries"
        if value.numel() <= 6:
            return describe_value(value.tolist(), digits)
        return f"{kind} of shape {shape} that starts {describe_value(value.reshape(-1)[:4].tolist(), digits)[:-1]}, …"
    if type(value) is float:
        return f"{value:.{digits}g}"
    if type(value) in (list, tuple):
        inner = ", ".join(describe_value(item, digits) for item in value[:8]) + (", …" if len(value) > 8 else "")
        return f"[{inner}]" if type(value) is list else f"({inner})"
    if type(value) is dict:
        return (
            "{"
            + ", ".join(
                f"{describe_value(key)}: {describe_value(item, digits)}" for key, item in list(value.items())[:8]
            )
            + "}"
        )
    if isinstance(value, Refused):
        return f"{with_article(value.type)} ({value.why})"
    return shorten_text(repr(value), 100)


def describe_pair(expected: Any, seen: Any) -> tuple[str, str]:
    """Both values as `describe_value` gives them, with as many digits as it takes to tell them apart.

    Values that still look the same, such as 1 and 1.0, are shown as Python writes them.
    """
    for digits in (6, 9, 12, 17):
        texts = describe_value(expected, digits), describe_value(seen, digits)
        if texts[0] != texts[1]:
            return texts
    return shorten_text(repr(expected), 100), shorten_text(repr(seen), 100)


def describe_type(value: Any) -> str:
    """The type of a value in words, such as "a tensor" or "an int"."""
    if value is MISSING:
        return "nothing"
    if value is None:
        return "None"
    if isinstance(value, Array):
        return "a numpy array" if value.kind == "array" else "a tensor"
    if isinstance(value, Refused):
        return f"{with_article(value.type)} ({value.why})"
    return with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """The name of a type behind "a" or "an", and "class Linear", which is a class itself, behind "the"."""
    return f"{'the' if noun.startswith('class ') else 'an' if noun[:1] in 'aeiou' else 'a'} {noun}"
