from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from graders.scenes.scene import stories
from graders.scenes.story import Call, Draw, Seen
from graders.verdict.comparison import Comparison
from graders.verdict.implementations import Implementation
from graders.verdict.telling import Until
from graders.verdict.telling_in_child import Wanted, tell_shortest

SEED = 5
X = Draw(SEED, SimpleNamespace()).number(2, 9)


def doubled(call: Call, draw: Draw, case: Any) -> Seen:
    """The number is doubled."""
    found: dict[str, float] = {}
    x = draw.number(2, 9)
    found.update(double=call(x))
    found.update(idle=1)
    yield "the double", found["double"]


def told(wrong: Callable[[float], float], seen: float) -> tuple[str, ...]:
    """The lines of the program of an answer that showed this, where a wrong program is known."""
    scene = stories(promises=[doubled], axes={})
    comparison = Comparison(
        "01-double", "double", scene, [Implementation("", lambda x: 2 * x)], [Implementation("wrong", wrong)], {}, {}
    )
    draw = {"seed": SEED, "case": {}}
    wanted = Wanted("the number is doubled", draw, 0, Until("the double"), seen=seen)
    found = tell_shortest(comparison, [wanted], ["wrong"])
    assert found is not None
    program = found.program
    assert program.expected == pytest.approx(2 * X)
    return program.lines


WHOLE = ("found = {}", f"x = {X}", "found.update(double=double(x))", "found.update(idle=1)", "print(found['double'])")


def test_where_a_wrong_program_shows_the_same_what_makes_no_difference_goes() -> None:
    assert told(lambda x: 3 * x, 3 * X) == (*WHOLE[:3], WHOLE[4])


def test_where_none_does_all_lines_stay() -> None:
    assert told(lambda x: 4 * x, 3 * X) == WHOLE


def test_a_wrong_program_that_ends_its_process_costs_no_more_than_that() -> None:
    assert told(lambda x: os._exit(3), 3 * X) == WHOLE
