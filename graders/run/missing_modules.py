"""What a notebook asked for and did not find, as the frames of its run tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from graders.core.text import clean_text
from graders.wire.frames import Frame


def missing_modules(frames: Iterable[Frame]) -> tuple[str, ...]:
    """The modules that it tried to import and that are not installed, by name."""
    return tuple(sorted({name for frame in frames for name in _names_in_head(frame.head, "modules")}))


def undefined_name(head: Mapping[str, Any]) -> str:
    """The name for want of which a cell or an answer failed; empty when there was none."""
    return " ".join(_names_in_head(head, "undefined")[:1])


def _names_in_head(head: Mapping[str, Any], what: str) -> list[str]:
    """The names that stand in a head, one after the other. What is no name of Python's is left out."""
    words = clean_text(head.get(what, "")).split()
    return [word for word in words if all(part.isidentifier() for part in word.split("."))]
