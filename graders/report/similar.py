"""Answers that are alike: a hint to look, never a verdict.

Two answers are compared as sets of five tokens in a row, without comments, docstrings and layout, and with every name
of the author's own replaced by one sign. Many short tasks have one natural answer. So what equals the stub or the
worked answer says nothing, neither does what is short, or what many in the class wrote.

Few pairs are compared, by an index that misses none: thirty lines do that, where a library's MinHash would guess.
"""

from __future__ import annotations

import builtins
import io
import keyword
import tokenize
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

_LENGTH = 5
MAX_COMPARED = 10_000
"""Characters of an answer that is compared. To take tokens apart can cost the square of a line's length."""
MIN_TOKENS = 40
MIN_SHARE = 0.9
NATURAL_ANSWER_COUNT = 4
"""An answer that this many have in common is the natural one."""
_COUNTERS = 1 << 16

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
           tokenize.ENDMARKER}  # fmt: skip
_KNOWN = {*keyword.kwlist, *dir(builtins), "torch", "nn", "F", "self"}


@dataclass(frozen=True)
class Answers:
    """The answers to an exercise: the text of the cell by student; and the stub and the worked answer, given to all."""

    key: str
    texts: Mapping[str, str]
    given: Iterable[str] = ()


@dataclass(frozen=True)
class SimilarPair:
    """Two students, the exercises whose answers are alike, and how alike they are on average: 0 to 1."""

    first: str
    second: str
    keys: tuple[str, ...]
    share: float


def comparable_tokens(source: str) -> list[str]:
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


def make_shingles(source: str) -> frozenset[int]:
    """All runs of five tokens, each as its hash."""
    found = comparable_tokens(source)
    return frozenset(map(hash, zip(*(found[start:] for start in range(_LENGTH)))))


def jaccard_similarity(first: frozenset[int], second: Collection[int]) -> float:
    """How many of all runs both have: 0 to 1."""
    both = len(first.intersection(second))
    union = len(first) + len(second) - both
    return both / union if union else 0.0


def similar_pairs(exercises: Iterable[Answers]) -> list[SimilarPair]:
    """Pairs of students with similar answers, those with the most first."""
    found: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for exercise in exercises:
        groups = informative_answers(exercise)
        students = list(groups.values())
        for equal in students:
            for first, other in combinations(equal, 2):
                found[first, other][exercise.key] = 1.0
        for one, two, share in pairs_above_share([array("q", runs) for runs in groups]):
            for first, other in product(students[one], students[two]):
                found[min(first, other), max(first, other)][exercise.key] = share
    pairs = [
        SimilarPair(first=first, second=second, keys=tuple(keys), share=sum(keys.values()) / len(keys))
        for (first, second), keys in found.items()
    ]
    return sorted(pairs, key=lambda pair: (-len(pair.keys), -pair.share, pair.first, pair.second))


def pairs_above_share(sets: Sequence[Collection[int]]) -> Iterator[tuple[int, int, float]]:
    """The places of any two sets of hashes that are alike, and how alike they are.

    At most a tenth of the larger is not in the smaller, and a nineteenth of the smaller not in the larger. So with all
    hashes in one order, the first so many of each, and one more, have one in common. The rarest come first, because few
    have them (Bayardo, Ma, Srikant, "Scaling Up All Pairs Similarity Search", 2007). Any order finds the same pairs, so
    hashes may share a counter.
    """
    often = [0] * _COUNTERS
    for runs in sets:
        for run in runs:
            often[run % _COUNTERS] += 1
    having: defaultdict[int, list[int]] = defaultdict(list)
    for two in sorted(range(len(sets)), key=lambda place: len(sets[place])):
        mine, size = frozenset(sets[two]), len(sets[two])
        rarest = sorted(mine, key=lambda run: (often[run % _COUNTERS], run))
        for one in {one for run in rarest[: size - int(MIN_SHARE * size) + 1] for one in having[run]}:
            # The sizes alone bound the likeness, and cost nothing.
            if len(sets[one]) >= MIN_SHARE * size:
                share = jaccard_similarity(mine, sets[one])
                if share >= MIN_SHARE:
                    yield min(one, two), max(one, two), share
        for run in rarest[: size - int(2 * MIN_SHARE / (1 + MIN_SHARE) * size) + 1]:
            having[run].append(two)


def informative_answers(exercise: Answers) -> dict[bytes, list[str]]:
    """The students by the hashes of their answer, where it could tell something. As bytes, a large class is small."""
    ours = [make_shingles(text) for text in exercise.given]
    groups: defaultdict[bytes, list[str]] = defaultdict(list)
    for student in sorted(exercise.texts):
        runs = make_shingles(exercise.texts[student])
        if len(runs) >= MIN_TOKENS - _LENGTH + 1 and all(jaccard_similarity(runs, other) < MIN_SHARE for other in ours):
            groups[array("q", sorted(runs)).tobytes()].append(student)
    return {runs: students for runs, students in groups.items() if len(students) < NATURAL_ANSWER_COUNT}
