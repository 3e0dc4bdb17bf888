from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graders.report.similar import (
    MIN_SHARE,
    Answers,
    SimilarPair,
    comparable_tokens,
    jaccard_similarity,
    make_shingles,
    pairs_above_share,
    similar_pairs,
)

LONG = '''
def watch(model, names):
    """What it does."""
    seen = {}
    def keep(name):
        def hook(module, args, output):
            seen.setdefault(name, []).append(output.detach().clone())
        return hook
    handles = [module.register_forward_hook(keep(name)) for name, module in model.named_modules() if name in names]
    return seen, handles
'''
RENAMED = LONG.replace("seen", "found").replace("What it does.", "Mine!").replace("    ", "  ") + "# done\n"
OTHER = """
def watch(model, names):
    class Watcher:
        def __init__(self):
            self.handles, self.data = [], {name: [] for name in names}
    watcher = Watcher()
    for name in names:
        module = model.get_submodule(name)
        watcher.handles += [module.register_forward_hook(lambda m, a, o, name=name: watcher.data[name].append(o.clone()))]
    return watcher.data, watcher.handles
"""  # noqa: E501


def pairs(texts: dict[str, str], *given: str) -> list[SimilarPair]:
    return similar_pairs([Answers("01-a", texts, given)])


def test_names_comments_docstrings_and_layout_do_not_count() -> None:
    assert comparable_tokens(LONG) == comparable_tokens(RENAMED)
    assert pairs({"ann": LONG, "bob": RENAMED}) == [SimilarPair("ann", "bob", ("01-a",), 1.0)]


def test_another_way_to_write_it_is_not_alike() -> None:
    assert jaccard_similarity(make_shingles(LONG), make_shingles(OTHER)) < 0.5
    assert pairs({"ann": LONG, "bob": OTHER}) == []


def test_what_everyone_was_given_tells_nothing() -> None:
    assert pairs({"ann": LONG, "bob": RENAMED}, "raise NotImplementedError", LONG) == []


def test_what_many_wrote_or_what_is_short_tells_nothing() -> None:
    assert pairs(dict.fromkeys(("ann", "bob", "cy", "di"), LONG)) == []
    assert len(pairs(dict.fromkeys(("ann", "bob", "cy"), LONG))) == 3
    assert pairs(dict.fromkeys(("ann", "bob"), "def f(x):\n    return x.register_hook(lambda grad: 2 * grad)")) == []


def test_those_with_the_most_in_common_come_first() -> None:
    texts = {"ann": LONG, "bob": LONG, "cy": OTHER, "di": OTHER}
    found = similar_pairs([Answers("01-a", texts), Answers("01-b", {"cy": LONG, "di": LONG})])
    assert [(pair.first, pair.second, pair.keys) for pair in found] == [
        ("cy", "di", ("01-a", "01-b")),
        ("ann", "bob", ("01-a",)),
    ]


def test_equal_and_nearly_equal_answers_are_all_paired() -> None:
    more = LONG + "    # more\n    return len(handles)\n"
    found = pairs({"a": LONG, "b": more, "c": more, "d": RENAMED})
    assert [(pair.first, pair.second, round(pair.share, 3)) for pair in found] == [
        ("a", "d", 1.0), ("b", "c", 1.0), ("a", "b", 0.938), ("a", "c", 0.938), ("b", "d", 0.938), ("c", "d", 0.938),
    ]  # fmt: skip


@st.composite
def some_sets(draw: st.DrawFn) -> list[list[int]]:
    """Sets of which many are nearly equal: each is an earlier one with few elements less and more."""
    numbers = st.integers(-99, 99)
    found = [draw(st.frozensets(numbers, min_size=10, max_size=60))]
    for _ in range(draw(st.integers(1, 12))):
        earlier = draw(st.sampled_from(found))
        away = draw(st.frozensets(st.sampled_from(sorted(earlier)), max_size=3)) if earlier else earlier
        found.append((earlier - away) | draw(st.frozensets(numbers, max_size=3)))
    return [sorted(one) for one in found]


@given(some_sets())
def test_the_index_finds_the_pairs_that_comparing_each_with_each_finds(sets: list[list[int]]) -> None:
    every = [
        (one, two, jaccard_similarity(frozenset(sets[one]), sets[two]))
        for one, two in itertools.combinations(range(len(sets)), 2)
    ]
    assert sorted(pairs_above_share(sets)) == [pair for pair in every if pair[2] >= MIN_SHARE]


@pytest.mark.parametrize("text", ["def f(:", '"""', "\x00", "  x\n y", "(" * 3000, "1__2 $ ?", "é" * 500, "\ud800"])
def test_text_that_is_no_python_is_compared_with_nothing(text: str) -> None:
    assert pairs({"ann": text, "bob": text}) == []


def test_a_cell_of_unusual_length_is_not_taken_apart() -> None:
    line = "def f(x):\n return (" + '"a" ' * 2000 + ")"
    assert comparable_tokens(line)
    started = time.process_time()
    assert comparable_tokens(line + '"a" ' * 500_000) == []
    assert time.process_time() - started < 1
