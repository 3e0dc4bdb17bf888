"""Iterators of Python's own are read so far and no further."""

from __future__ import annotations

from typing import Any

import pytest

from tests.probing.test_asking import probed


def endless(message: str) -> dict[str, Any]:
    return {"type": "raised", "status": "over-limit", "message": message}


@pytest.mark.parametrize(
    "expression",
    ["itertools.count()", "(0 for _ in itertools.repeat(0))", "map(abs, itertools.cycle([1]))", "iter(int, 1)",
     "enumerate(itertools.count())"],
)  # fmt: skip
def test_an_iterator_of_python_s_own_is_read_so_far(expression: str) -> None:
    found = probed(f"import itertools\ndef f(x):\n    return {expression}", lambda student, x: list(student.f(x)), x=1)
    assert found.head == endless("its result does not end within 4000 values; return a list")


def test_an_iterator_with_an_end_can_be_read_and_keeps_its_name() -> None:
    cell = "def f(x):\n    return map(abs, [-x, x])"
    assert probed(cell, lambda student, x: list(student.f(x)), x=1).head["tree"] == {"l": [1, 1]}
    assert probed(cell, x=1).head["tree"]["x"][0] == "map"
