"""Answers that are alike: a hint to look, never a verdict.

Two answers are compared as sets of five tokens in a row, without comments, docstrings and layout, and with every name
of the author's own replaced by one sign. Many short tasks have one natural answer. So what equals the stub or the
worked answer says nothing, neither does what is short, or what many in the class wrote.
"""

from __future__ import annotations

import builtins
import io
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

Answers = Mapping[str, Mapping[str, str]]
"""Exercise key to student to the text of the cell with the answer."""

Shingles = frozenset[tuple[str, ...]]

_LENGTH = 5
MAX_COMPARED = 10_000
"""Characters of an answer that is compared. To take tokens apart can cost the square of a line's length."""
MIN_TOKENS = 40
MIN_SHARE = 0.9
COMMON = 4
"""An answer that this many have in common is the natural one."""

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
           tokenize.ENDMARKER}  # fmt: skip
_KNOWN = {*keyword.kwlist, *dir(builtins), "torch", "nn", "F", "self"}


@dataclass(frozen=True)
class Pair:
    """Two students, the exercises whose answers are alike, and how alike they are on average: 0 to 1."""

    first: str
    second: str
    keys: tuple[str, ...]
    share: float


def tokens(source: str) -> list[str]:
    """The tokens of Python code by which answers are compared; none for text that is no Python, or too long.

    Names that follow a dot, keywords and builtins stay; other names become one sign, as do texts and docstrings.
    """
    found: list[str] = []
    if len(source) > MAX_COMPARED:
        return found
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in _LAYOUT:
                continue
            if token.type == tokenize.NAME:
                found.append(token.string if token.string in _KNOWN or found[-1:] == ["."] else "name")
            elif token.type == tokenize.STRING:
                # A text that is a statement by itself is a docstring: its line begins with it.
                if token.line.lstrip().startswith(token.string[:3]) and found[-1:] in ([], [":"]):
                    continue
                found.append("text")
            else:
                found.append(token.string)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return []
    return found


def shingles(source: str) -> Shingles:
    """All runs of five tokens."""
    found = tokens(source)
    return frozenset(tuple(found[start : start + _LENGTH]) for start in range(len(found) - _LENGTH + 1))


def likeness(first: Shingles, second: Shingles) -> float:
    """How many of all runs both have: 0 to 1."""
    union = len(first | second)
    return len(first & second) / union if union else 0.0


def similar(answers: Answers, given_to_all: Mapping[str, Iterable[str]]) -> list[Pair]:
    """Pairs of students with similar answers, those with the most first.

    `given_to_all` has for each key the texts that everyone was given: the stub and the worked answer.
    """
    found: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for key, texts in answers.items():
        for (first, mine), (other, theirs) in combinations(_telling(texts, given_to_all.get(key, ())).items(), 2):
            # The sizes alone bound the likeness, and cost nothing.
            if min(len(mine), len(theirs)) < MIN_SHARE * max(len(mine), len(theirs)):
                continue
            share = likeness(mine, theirs)
            if share >= MIN_SHARE:
                found[first, other][key] = share
    pairs = [
        Pair(first=first, second=second, keys=tuple(keys), share=sum(keys.values()) / len(keys))
        for (first, second), keys in found.items()
    ]
    return sorted(pairs, key=lambda pair: (-len(pair.keys), -pair.share, pair.first, pair.second))


def _telling(texts: Mapping[str, str], given: Iterable[str]) -> dict[str, Shingles]:
    """The answers that could tell something, by student."""
    ours = [shingles(text) for text in given]
    by_student = {student: shingles(texts[student]) for student in sorted(texts)}
    sets = [parts for parts in by_student.values() if len(parts) >= MIN_TOKENS - _LENGTH + 1]
    groups: defaultdict[Shingles, int] = defaultdict(int)
    for parts in sets:
        groups[parts] += 1
    return {
        student: parts
        for student, parts in by_student.items()
        if 0 < groups.get(parts, 0) < COMMON and all(likeness(parts, other) < MIN_SHARE for other in ours)
    }
