"""The covering design: every value in every marking, few cases, always the same ones."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from graders.core.circumstances import ALL, AXES, Circumstances, every_pair

THINGS = {axis.of for axis in AXES}


def named(**covers: Any) -> Circumstances:
    return Circumstances(covers=covers, excludes=dict.fromkeys(THINGS, "not here"))


def test_every_value_of_every_axis_is_in_some_case() -> None:
    everything = named(**{axis.name: ALL for axis in AXES})
    for axis in AXES:
        assert {case[axis.name] for case in everything.cases} == set(axis.values)


def test_the_cases_are_as_few_as_the_longest_axis_has_values() -> None:
    assert [case["rank"] for case in named(rank=ALL, dtype=ALL, hooks=ALL).cases] == [0, 1, 2, 3, 4]


def test_there_are_three_cases_at_least() -> None:
    cases = named(dtype=ALL).cases
    assert [case["dtype"] for case in cases] == ["float32", "float64", "float32"]


def test_all_pairs_of_the_axes_that_are_named() -> None:
    some = Circumstances(covers={"dtype": ALL, "grad": ALL, "hooks": ALL}, pairs=every_pair("dtype", "grad", "hooks"))
    for first, second in every_pair("dtype", "grad", "hooks"):
        seen = {(case[first], case[second]) for case in some.cases}
        assert seen == set(product(some.values(first), some.values(second)))


def test_axes_of_equal_length_do_not_go_in_step() -> None:
    cases = named(rank=ALL, hooks=ALL, call=ALL).cases
    assert any(case["hooks"] == "none" and case["call"] != "once" for case in cases)


def test_what_cannot_be_together_never_is() -> None:
    cases = Circumstances(covers={"rank": ALL, "layout": ALL}, pairs=[("rank", "layout")]).cases
    assert not [case for case in cases if case["rank"] in (0, 1) and case["layout"] == "transposed"]
    assert {"rank": 0, "layout": "slice"} in cases


def test_own_axes_constants_and_own_constraints() -> None:
    mixed = Circumstances(
        covers={"dtype": ("float64",)},
        own={"steps": (1, 3), "mixing": (True, False)},
        impossible=[lambda steps, mixing: steps == 1 and mixing],
        constants={"width": 4},
        at_least=2,
    )
    assert mixed.cases == (
        {"width": 4, "dtype": "float64", "steps": 1, "mixing": False},
        {"width": 4, "dtype": "float64", "steps": 3, "mixing": True},
    )


def test_a_value_that_no_case_can_have_is_named() -> None:
    with pytest.raises(TypeError, match=r"no case can have {'layout': 'transposed'}"):
        Circumstances(covers={"rank": (0, 1), "layout": ALL}).cases  # noqa: B018 - computed when asked for


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"covers": {"shade": ALL}}, "there is no axis 'shade'"),
        ({"covers": {"rank": (7,)}}, "the axis rank has no value 7"),
        ({"covers": {"rank": ()}}, "the axis rank is covered with no value"),
        ({"covers": {}, "excludes": {"rnak": "-"}}, "'rnak' is excluded, and there is no such axis"),
        ({"covers": {"rank": ALL}, "pairs": [("rank", "dtype")]}, "dtype is paired or impossible"),
    ],
)
def test_slips_of_an_author(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Circumstances(**arguments)


def test_axes_that_nobody_spoke_of_are_named() -> None:
    things = dict.fromkeys(THINGS - {"number"}, "not here")
    assert Circumstances(covers={"rank": ALL}, excludes=things).unnamed == ["number"]
    assert Circumstances(covers={"rank": ALL}, excludes={**things, "number": "it gets none"}).unnamed == []
    assert Circumstances(covers={"number": ALL}, excludes={**things, "number": "it gets none"}).unnamed == ["number"]


def test_all_axes_together_take_few_cases() -> None:
    assert len(named(**{axis.name: ALL for axis in AXES}).cases) <= 7
