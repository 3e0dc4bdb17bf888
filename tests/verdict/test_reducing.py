from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graders.verdict.reducing import reduced


def right(x: Any) -> Any:
    return x + 1


def wrong(x: Any) -> Any:
    return x + 2


def kept(program: str, *functions: Callable[[Any], Any]) -> str:
    return reduced(program, "f", [lambda one=one: one for one in functions or (right, wrong)])


@pytest.mark.parametrize(
    ("program", "short"),
    [
        ("a = 1\nb = 2\nprint(f(a))", "a = 1\nprint(f(a))"),
        ("a = [1]\na.append(2)\nprint(f(a[0]))", "a = [1]\nprint(f(a[0]))"),
        ("a = [1]\na.append(2)\nprint(f(a[1]))", "a = [1]\na.append(2)\nprint(f(a[1]))"),
        ("f(1)\nb = f(1)\nprint(f(2))", "print(f(2))"),
        ("class A:\n    x = 1\n    y = 2\nprint(f(A.y))", "class A:\n    y = 2\nprint(f(A.y))"),
        ("def g():\n    a = 1\n    return a\nprint(f(1))", "print(f(1))"),
    ],
    ids=["not used", "without effect", "with effect", "a call of the function", "a part of a class", "a function"],
)
def test_what_makes_no_difference_goes(program: str, short: str) -> None:
    assert kept(program) == short


def test_an_earlier_call_stays_where_it_leaves_something_behind() -> None:
    def counting() -> Callable[[Any], Any]:
        calls: list[Any] = []
        return lambda x: calls.append(x) or len(calls)

    program = "f(1)\nprint(f(2))"
    assert reduced(program, "f", [lambda: right, counting]) == program


def test_what_makes_a_difference_to_one_of_the_functions_stays() -> None:
    def reads(x: Any) -> Any:
        return x[-1]

    program = "a = [1]\na.append(2)\nprint(f(a))"
    assert kept(program, lambda x: x[0]) == "a = [1]\nprint(f(a))"
    assert kept(program, lambda x: x[0], reads) == program


def test_what_others_use_stays_even_where_a_handler_would_hide_that_it_is_missing() -> None:
    program = (
        "e = KeyError()\ndef fails():\n    raise e\ntry:\n    fails(f(1))\nexcept BaseException:\n    pass\nprint(2)"
    )
    assert kept(program) == program


def test_what_raises_on_purpose_stays() -> None:
    program = "def fails():\n    raise KeyError\ntry:\n    a = f(1)\n    fails()\nexcept KeyError:\n    pass\nprint(a)"
    assert kept(program) == program


def test_a_line_stays_without_which_another_exception_would_be_passed_over() -> None:
    program = "a = {}\nb = a\nb[1] = 2\ntry:\n    a[1].go(f(1))\nexcept BaseException:\n    pass\nprint(2)"
    assert kept(program) == program  # an AttributeError; without it a KeyError
    assert "b[1]" not in kept(program.replace("a[1]", "a"))


def test_a_program_that_ends_with_an_exception_still_does() -> None:
    def fails(x: Any) -> Any:
        return 1 / (x - 3)

    assert kept("a = 3\nb = 4\nf(a)", right, fails) == "a = 3\nf(a)"
