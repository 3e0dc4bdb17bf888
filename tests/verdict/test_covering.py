"""The covering design: every value occurs, in few cases, always the same ones."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from graders.verdict.covering import covering_cases

AXES = {
    "rank": (0, 1, 2, 3, 4),
    "layout": ("contiguous", "transposed", "slice"),
    "dtype": ("float32", "float64"),
    "hooks": ("none", "watching", "replacing"),
    "call": ("once", "again", "in turn"),
}
FLAT = (("rank", "layout"), lambda rank, layout: layout == "transposed" and rank < 2)


def test_every_value_of_every_axis_is_in_some_of_few_cases() -> None:
    cases = covering_cases(AXES, [], [])
    assert [case["rank"] for case in cases] == [0, 1, 2, 3, 4]
    for name, values in AXES.items():
        assert {case[name] for case in cases} == set(values)


def test_all_pairs_of_the_axes_that_are_named() -> None:
    pairs = list(combinations(("dtype", "layout", "hooks"), 2))
    cases = covering_cases(AXES, pairs, [])
    for first, second in pairs:
        assert {(case[first], case[second]) for case in cases} == set(product(AXES[first], AXES[second]))


def test_axes_of_equal_length_do_not_go_in_step() -> None:
    assert any(case["hooks"] == "none" and case["call"] != "once" for case in covering_cases(AXES, [], []))


def test_what_cannot_be_together_never_is() -> None:
    cases = covering_cases({name: AXES[name] for name in ("rank", "layout")}, [("rank", "layout")], [FLAT])
    assert not [case for case in cases if case["rank"] in (0, 1) and case["layout"] == "transposed"]
    assert {"rank": 0, "layout": "slice"} in cases


def test_a_value_that_no_case_can_have_is_named() -> None:
    with pytest.raises(TypeError, match=r"no case can have {'layout': 'transposed'}"):
        covering_cases({"rank": (0, 1), "layout": AXES["layout"]}, [], [FLAT])


def test_without_axes_there_is_one_case() -> None:
    assert covering_cases({}, [], []) == [{}]
