"""Finds the modules and names that a notebook lacked, in the frames of its run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from graders.core.text import clean_text
from graders.wire.frames import Frame


def missing_modules(frames: Iterable[Frame]) -> tuple[str, ...]:
    """The names of modules that the notebook tried to import but that are not installed, sorted."""
    return tuple(sorted({name for frame in frames for name in _names_in_head(frame.head, "modules")}))


def undefined_name(head: Mapping[str, Any]) -> str:
    """The undefined name that made a cell or an answer fail; empty if it did not fail for that reason."""
    return " ".join(_names_in_head(head, "undefined")[:1])


def _names_in_head(head: Mapping[str, Any], what: str) -> list[str]:
    """The names under the key `what` in a head, separated by spaces there. Invalid names are left out."""
    words = clean_text(head.get(what, "")).split()
    return [word for word in words if all(part.isidentifier() for part in word.split("."))]
