"""Show students' names so that people can tell them apart, and find names that look alike.

A name is what a folder or a platform gives, letter by letter. Anything that could not be seen is made visible: a space
at either end or after another space becomes ␣, and a character without a glyph becomes U+FFFD.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable

from graders.core.text import clean_text

VISIBLE_BLANK = "\N{OPEN BOX}"
_UNSEEN = re.compile(rf"^ +|[ {VISIBLE_BLANK}]+$|(?<= ) ")
"""Spaces at either end, and all but the first of several in between."""
MAX_NAME_LENGTH = 60
"""Characters of a name that are shown; enough for nearly everybody."""

# Letters of other scripts, and two digits, that look like Latin letters in most fonts. They are used only for warnings.
_LOOKS_LIKE = str.maketrans(
    "\u0430\u0432\u0441\u0501\u0435\u0261\u04bb\u0456\u0458\u043a\u04cf\u043c\u043d\u043e"
    "\u0440\u051b\u0455\u0442\u0443\u0445\u0475\u051d\u03b1\u03b2\u03b3\u03b5\u03b9\u03ba"
    "\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c901",
    "abcdeghijklmhopqstyxvwabyeiknoptuxwol",
)  # fmt: skip

_SORTED_LIKE = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "\u0131": "i"})
"""Letters that Unicode does not take apart."""


def visible_name(name: str) -> str:
    """A name in which every character can be seen, cut to `MAX_NAME_LENGTH`. Most names stay as they are."""
    text = "".join(
        " " if unicodedata.category(character) == "Zs" else character for character in clean_text(name, MAX_NAME_LENGTH)
    )
    return _UNSEEN.sub(lambda blanks: VISIBLE_BLANK * len(blanks[0]), text)


def is_plain_name(name: str) -> bool:
    """Whether `visible_name`, which returned this name, had nothing to make visible."""
    return VISIBLE_BLANK not in name and "\N{REPLACEMENT CHARACTER}" not in name


def name_sort_key(name: str) -> tuple[str, str]:
    """A key that sorts names as people read them: Ç beside C, É beside E, and small letters beside capital ones."""
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    return plain.translate(_SORTED_LIKE), name


def lookalike_names(names: Iterable[str]) -> list[list[str]]:
    """Groups of names that differ only in case, accents, punctuation, or letters of other scripts that look alike."""
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        groups[_lookalike_key(name)].add(name)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


def _lookalike_key(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).casefold().translate(_LOOKS_LIKE)
    return "".join(character for character in plain if character.isalnum()) or name
