"""Cleaning text of strangers, before a person sees it: no hidden characters, and only so many.

Names, names of files, what a box says: all of it comes in as one of a few dataclasses, and these clean their texts when
they are made. That is the border. Inside it texts are trusted, and at most made shorter. What never came in is cleaned
where it is shown: by `HookworkError.message_line`, by `FileNotes`, and by `graders.core.terminal`, whatever it prints.

`graders.run.submissions`   `Submission`, `Account` and `FoundSubmissions`: what was handed in
`graders.core.roster`       `Person` and `Roster`; names of groups in `graders.core.groups`
`graders.run.transcript`    `read_transcript`: what came out of a box
`graders.core.difference`   what is made of that when it is compared
`graders.core.results`      all that reports show, also where a `results.json` is read again
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

MESSAGE_LIMIT = 300
"""Characters of one message; longer text is cut and marked with an ellipsis."""
NAME_LIMIT = 200
"""Of the name of a student or a group."""
FILE_LIMIT = 1000
"""Of the name of a file, with the folders in which it lies."""
WORD_LIMIT = 60
"""Of a number that a platform gave, a time, the name of a module."""

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
    if len(raw) <= limit and (raw.replace("\n", "") if lines else raw).isprintable():
        return raw
    raw = raw[: 4 * limit]
    characters = []
    for character in raw.replace("\r\n", "\n").replace("\t", "    "):
        if character == "\n":
            characters.append("\n" if lines else " ")
        elif unicodedata.category(character) in _HIDDEN:
            characters.append("\N{REPLACEMENT CHARACTER}")
        else:
            characters.append(character)
    return shorten_text("".join(characters), limit)


def shorten_text(text: object, limit: int) -> str:
    """`text` with at most `limit` characters, for the room that there is."""
    text = str(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clean_fields(made: object, lines: Collection[str] = (), /, **limits: int) -> None:
    """Clean these fields of a frozen dataclass, texts or tuples of texts. Those in `lines` may have several lines."""
    for field, limit in limits.items():
        value = getattr(made, field)
        if isinstance(value, tuple):
            clean: object = tuple(clean_text(part, limit) for part in value)
        else:
            clean = clean_text(value, limit, lines=field in lines)
        object.__setattr__(made, field, clean)


def without_surrogates(text: str) -> str:
    """`text` with U+FFFD in place of lone surrogates, which UTF-8 cannot hold."""
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


def format_count(count: int, noun: str) -> str:
    """Count and noun, as in 1 point, 2 points."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_points(value: float) -> str:
    """A number of points without needless digits: 2, 0.5, 1.33."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
