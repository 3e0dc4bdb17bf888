"""Clean text from strangers before a person sees it: no hidden characters, and a limited length.

Names of students and files, and whatever a box says: all of it comes in as one of a few dataclasses, which clean their
texts when they are made. That is the border. Inside it texts are trusted, and at most shortened. Text that never
crosses it is cleaned where it is shown: by `HookworkError.message_line`, by `FileNotes`, and by
`graders.core.terminal`, which cleans everything it prints.

`graders.submissions.finding`   `Submission`, `Account` and `FoundSubmissions`: what was handed in
`graders.submissions.roster`       `Person` and `Roster`; names of groups in `graders.submissions.groups`
`graders.submissions.hand_rows`   `HandRow`: what a teacher writes beside the marks
`graders.core.transcript`    `read_transcript`: what came out of a box
`graders.core.difference`   what comparing it says
`graders.core.results`      everything that reports show, also when a `results.json` is read again
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from fractions import Fraction

MESSAGE_LIMIT = 300
"""The most characters of one message; longer text is cut and ends in an ellipsis."""
NAME_LIMIT = 200
"""The most characters of the name of a student or a group."""
FILE_LIMIT = 1000
"""The most characters of the name of a file with its folders."""
WORD_LIMIT = 60
"""The most characters of a number given by a platform, a time, or the name of a module."""

# Cc: control, Cf: format (including the bidirectional overrides), Cs: lone surrogates,
# Co/Cn: private use and unassigned, Zl/Zp: separators that some programs treat as a new line.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
"""Letters and marks without a glyph."""
_JOINERS = "\u200c\u200d"
"""They are part of the spelling of Persian, Sinhala, Malayalam and other languages, and show between their letters."""
_JOINED = re.compile("[\u0600-\u0dff\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc]")
"""Arabic, Syriac, Indic, Khmer, Mongolian and related scripts. Between other letters a joiner only hides."""
_VIRAMA = 9
"""The combining class of the signs that mute a vowel; after one, a joiner decides which form is written."""


def clean_text(text: object, limit: int = MESSAGE_LIMIT, *, lines: bool = False) -> str:
    """`text` as valid, visible Unicode of at most `limit` characters.

    Control, bidirectional and other invisible characters become U+FFFD, so that no text can move the cursor, colour the
    terminal or reorder the words around it. A joiner stays where a script needs it. Tabs become spaces, and so do
    newlines unless `lines` keeps them.
    """
    raw = text if type(text) is str else str(text)
    shown = raw[: 4 * limit].replace("\r\n", "\n").replace("\t", "    ")
    shown = shown if lines else shown.replace("\n", " ")
    if not (shown.isascii() and shown.replace("\n", "").isprintable()):  # as most texts are
        hidden = {
            character
            for character in {*shown} - {"\n"}
            if unicodedata.category(character) in _HIDDEN or character in _FILLERS
        }
        shown = "".join(
            "\N{REPLACEMENT CHARACTER}"
            if character in hidden and not (character in _JOINERS and _joins(shown, index))
            else character
            for index, character in enumerate(shown)
        )
    return shorten_text(shown, limit)


def _joins(text: str, index: int) -> bool:
    """Whether the joiner at `index` belongs to the spelling of a word."""
    beside = [text[index - 1 : index], text[index + 1 : index + 2]]
    if beside[0] and unicodedata.combining(beside[0]) == _VIRAMA:
        return True
    return all(_JOINED.match(letter) and unicodedata.category(letter)[0] in "LM" for letter in beside)


def shorten_text(text: object, limit: int) -> str:
    """`text` with at most `limit` characters, to fit where it is shown."""
    text = str(text)
    return text if len(text) <= limit else text[: limit - 1].rstrip(_JOINERS) + "…"


def clean_fields(made: object, lines: Collection[str] = (), /, **limits: int) -> None:
    """Clean these fields of a frozen dataclass: strings, or tuples of strings. Only those in `lines` keep newlines."""
    for field, limit in limits.items():
        value = getattr(made, field)
        if isinstance(value, tuple):
            clean: object = tuple(clean_text(part, limit) for part in value)
        else:
            clean = clean_text(value, limit, lines=field in lines)
        object.__setattr__(made, field, clean)


def without_surrogates(text: str) -> str:
    """`text` with U+FFFD for lone surrogates, which UTF-8 cannot encode."""
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


def format_count(count: int, noun: str) -> str:
    """A count with its noun, as in "1 point" and "2 points"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_points(value: float) -> str:
    """A number of points with at most two decimals: 2, 0.5, 1.33."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def format_share(value: float) -> str:
    """A share of points, which two decimals may not hold, so that shares add up: 0.5, 1/3, 2/7, 1 1/3."""
    near = Fraction(value).limit_denominator(60)
    if abs(value - round(value, 2)) < 1e-6 or abs(near - value) > 1e-4:
        return format_points(value)
    whole, rest = divmod(near, 1)
    return f"{whole} {rest}" if whole else str(rest)
