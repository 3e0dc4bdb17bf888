"""Cleaning text that came from a notebook, before a person sees it: no hidden characters, and only so many.

No such text is shown without having been here.
"""

from __future__ import annotations

import re
import unicodedata

MESSAGE_LIMIT = 300
"""Characters of one message; longer text is cut and marked with an ellipsis."""

# Cc: control, Cf: format (among them the bidirectional overrides), Cs: lone surrogates,
# Co/Cn: private and unassigned, Zl/Zp: separators that some programs treat as a new line.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def clean_text(text: object, limit: int = MESSAGE_LIMIT, *, lines: bool = False) -> str:
    """`text` as valid, visible Unicode of at most `limit` characters.

    Control, bidirectional and other invisible characters become U+FFFD, so that no text can move a
    cursor, colour a terminal or reorder the words around it. A new line becomes a space, unless
    `lines` keeps new lines (tabs become spaces in both cases).
    """
    raw = text if type(text) is str else str(text)
    shown = raw[: 4 * limit].replace("\r\n", "\n").replace("\t", "    ")
    shown = shown if lines else shown.replace("\n", " ")
    if not (shown.isascii() and shown.replace("\n", "").isprintable()):  # as most texts are
        hidden = {character for character in {*shown} - {"\n"} if unicodedata.category(character) in _HIDDEN}
        shown = "".join("\N{REPLACEMENT CHARACTER}" if character in hidden else character for character in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def without_surrogates(text: str) -> str:
    """`text` with U+FFFD in place of lone surrogates, which UTF-8 cannot hold."""
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


def format_count(count: int, noun: str) -> str:
    """Count and noun, as in 1 point, 2 points."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_points(value: float) -> str:
    """A number of points without needless digits: 2, 0.5, 1.33."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
