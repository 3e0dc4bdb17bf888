"""Clean text from notebooks, names and files before a person sees it: no hidden characters, and a limited length.

All text from outside passes through here before it is shown.
"""

from __future__ import annotations

import re
import unicodedata

MESSAGE_LIMIT = 300
"""The most characters of one message; longer text is cut and ends in an ellipsis."""

# Cc: control, Cf: format (including the bidirectional overrides), Cs: lone surrogates,
# Co/Cn: private use and unassigned, Zl/Zp: separators that some programs treat as a new line.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def clean_text(text: object, limit: int = MESSAGE_LIMIT, *, lines: bool = False) -> str:
    """`text` as valid, visible Unicode of at most `limit` characters.

    Control, bidirectional and other invisible characters become U+FFFD, so that no text can move the cursor, colour the
    terminal or reorder the words around it. Tabs become spaces, and so do newlines unless `lines` keeps them.
    """
    raw = text if type(text) is str else str(text)
    raw = raw[: 4 * limit]
    characters = []
    for character in raw.replace("\r\n", "\n").replace("\t", "    "):
        if character == "\n":
            characters.append("\n" if lines else " ")
        elif unicodedata.category(character) in _HIDDEN:
            characters.append("\N{REPLACEMENT CHARACTER}")
        else:
            characters.append(character)
    shown = "".join(characters)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def without_surrogates(text: str) -> str:
    """`text` with U+FFFD for lone surrogates, which UTF-8 cannot encode."""
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


def format_count(count: int, noun: str) -> str:
    """A count with its noun, as in "1 point" and "2 points"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_points(value: float) -> str:
    """A number of points with at most two decimals: 2, 0.5, 1.33."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
