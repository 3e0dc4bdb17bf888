"""Find answers that are alike: a hint to take a look, never a verdict.

Two answers are compared as sets of shingles, runs of five tokens, without comments, docstrings and layout, and with the
student's own names all replaced by one word. Many short tasks have one natural answer. So an answer says nothing if it
is like the stub or the worked answer, if it is short, or if many in the class wrote the same.

An index picks the few pairs worth comparing and misses none. It takes thirty lines; a library's MinHash would only
estimate.
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
"""Tokens in a shingle."""
MAX_COMPARED = 10_000
"""The longest answer, in characters, that is compared: tokenizing can be quadratic in the length of a line."""
MIN_TOKENS = 40
"""A shorter answer says nothing."""
MIN_SHARE = 0.9
"""The Jaccard similarity from which two answers are alike."""
NATURAL_ANSWER_COUNT = 4
"""An answer that this many students share is the natural one, and says nothing."""
_COUNTERS = 1 << 16

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
           tokenize.ENDMARKER}  # fmt: skip
_KNOWN = {*keyword.kwlist, *dir(builtins), "torch", "nn", "F", "self"}


@dataclass(frozen=True)
class Answers:
    """The answers to an exercise: each student's cell; `given` are the stub and the worked answer, which all have."""

    key: str
    texts: Mapping[str, str]
    given: Iterable[str] = ()


@dataclass(frozen=True)
class SimilarPair:
    """Two students, the exercises in which their answers are alike, and the mean similarity of these, 0 to 1."""

    first: str
    second: str
    keys: tuple[str, ...]
    share: float


def comparable_tokens(source: str) -> list[str]:
    """The tokens of Python code by which answers are compared; empty if it is not Python or is too long.

    Names after a dot, keywords, builtins and a few others stay; any other name becomes "name", and any string "text".
    Docstrings are left out.
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
                # A string that starts its line, at the beginning or after a colon, is a docstring.
                if token.line.lstrip().startswith(token.string[:3]) and found[-1:] in ([], [":"]):
                    continue
                found.append("text")
            else:
                found.append(token.string)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return []
    return found


def make_shingles(source: str) -> frozenset[int]:
    """The hashes of all runs of five tokens in an answer."""
    found = comparable_tokens(source)
    return frozenset(map(hash, zip(*(found[start:] for start in range(_LENGTH)))))


def jaccard_similarity(first: frozenset[int], second: Collection[int]) -> float:
    """The share of all shingles of two answers that both have, from 0 to 1; 0 if both are empty."""
    both = len(first.intersection(second))
    union = len(first) + len(second) - both
    return both / union if union else 0.0


def similar_pairs(exercises: Iterable[Answers]) -> list[SimilarPair]:
    """Pairs of students whose answers are alike, those with the most such exercises first."""
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
    """The indices of every two sets of hashes with a similarity of at least `MIN_SHARE`, and that similarity.

    If two sets are alike, at most a tenth of the larger is missing from the smaller, and at most a nineteenth of the
    smaller from the larger. So if all hashes are sorted in one order, the prefixes of the two sets that are one hash
    longer than that have a hash in common. Rare hashes come first, because few sets share them (Bayardo, Ma and
    Srikant, "Scaling Up All Pairs Similarity Search", 2007). Any order finds the same pairs, so counts may be rough:
    hashes share counters.
    """
    counts = [0] * _COUNTERS
    for runs in sets:
        for run in runs:
            counts[run % _COUNTERS] += 1
    sets_with: defaultdict[int, list[int]] = defaultdict(list)
    for two in sorted(range(len(sets)), key=lambda place: len(sets[place])):
        larger, size = frozenset(sets[two]), len(sets[two])
        rarest = sorted(larger, key=lambda run: (counts[run % _COUNTERS], run))
        for one in {one for run in rarest[: size - int(MIN_SHARE * size) + 1] for one in sets_with[run]}:
            # The sizes alone bound the similarity from above, and are quick to compare.
            if len(sets[one]) >= MIN_SHARE * size:
                share = jaccard_similarity(larger, sets[one])
                if share >= MIN_SHARE:
                    yield min(one, two), max(one, two), share
        for run in rarest[: size - int(2 * MIN_SHARE / (1 + MIN_SHARE) * size) + 1]:
            sets_with[run].append(two)


def informative_answers(exercise: Answers) -> dict[bytes, list[str]]:
    """The students who gave each answer that could say something, by its sorted hashes, as bytes to save memory."""
    given = [make_shingles(text) for text in exercise.given]
    groups: defaultdict[bytes, list[str]] = defaultdict(list)
    for student in sorted(exercise.texts):
        runs = make_shingles(exercise.texts[student])
        if len(runs) >= MIN_TOKENS - _LENGTH + 1 and all(
            jaccard_similarity(runs, other) < MIN_SHARE for other in given
        ):
            groups[array("q", sorted(runs)).tobytes()].append(student)
    return {runs: students for runs, students in groups.items() if len(students) < NATURAL_ANSWER_COUNT}
