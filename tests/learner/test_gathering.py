"""Functions taken out of a notebook: with what they need, and not when that would not make a module."""

from __future__ import annotations

import textwrap

import pytest

from graders.learner.gathering import Module, NotSelfContained, gather


def gathered(*cells: str, names: tuple[str, ...] = ("f",)) -> str:
    module = Module()
    for name in names:
        module = gather([textwrap.dedent(cell).strip("\n") for cell in cells], name, f"From {name}.", module)
    return module.text()


def refusal(*cells: str, names: tuple[str, ...] = ("f",)) -> str:
    with pytest.raises(NotSelfContained) as caught:
        gathered(*cells, names=names)
    return str(caught.value)


def test_imports_helpers_and_constants_come_first_and_nothing_else_comes() -> None:
    cells = (
        "import os, torch as t\nfrom a import (b, c)\nunused = 1",
        "EPS = 1e-6\ndef helper(x):\n    return b(x) + EPS",
        "@t.no_grad()\ndef f(x, *, g=abs):\n    # a remark\n    return [helper(y) for y in x]",
        "f([1])",
    )
    assert gathered(*cells) == (
        "import torch as t\nfrom a import b\n\n\nEPS = 1e-6\n\n\ndef helper(x):\n    return b(x) + EPS\n\n\n"
        "# From f.\n@t.no_grad()\ndef f(x, *, g=abs):\n    # a remark\n    return [helper(y) for y in x]\n"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('def f():\n    """Do."""\n    return 1', 'def f():\n    """Do.\n\n    From f.\n    """\n    return 1'),
        ('class f:\n    """Do\n    more.\n    """', 'class f:\n    """Do\n    more.\n\n    From f.\n    """'),
        ("def f():\n    'Do.'", "# From f.\ndef f():\n    'Do.'"),
        ("def f(): return 1", "# From f.\ndef f(): return 1"),
    ],
)
def test_the_docstring_says_where_it_is_from_or_else_a_comment(source: str, expected: str) -> None:
    assert gathered(source).strip() == expected


def test_of_several_helpers_with_a_name_the_last_one_above_the_answer_is_taken() -> None:
    helper = "def g():\n    return {}"
    assert "return 2" in gathered(helper.format(1), helper.format(2), "def f(): return g()", helper.format(3))
    assert "return 3" in gathered("def f(): return g()", helper.format(3), helper.format(4))


def test_two_answers_share_a_helper_and_functions_may_call_each_other() -> None:
    text = gathered("def g(): return f", "def f(): return g", "def h(): return g", names=("f", "h"))
    assert [text.count(f"def {name}(") for name in "fgh"] == [1, 1, 1]


def test_a_method_and_a_local_name_are_not_looked_for() -> None:
    assert "class f" in gathered(
        "class f:\n    size = 1\n    def go(self, n=size):\n        k = n\n        return k.real"
    )


def test_magics_are_skipped() -> None:
    assert "return 1" in gathered("%matplotlib inline\n!ls\ndef f():\n    return 1")


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (("def f(): return g()",), "it uses `g`, and no cell of the notebook defines it"),
        (("def f(:",), "no cell of the notebook defines `f`"),
        (
            ("net = make()", "def f(): return net"),
            "it uses `net`, a value of the notebook, which should be an argument",
        ),
        (
            ("for k in [1]: pass", "def f(): return k"),
            "it uses `k`, a value of the notebook, which should be an argument",
        ),
    ],
)
def test_what_cannot_stand_alone_is_refused(cells: tuple[str, ...], why: str) -> None:
    assert refusal(*cells) == why


def test_helpers_with_one_name_and_two_bodies_are_refused() -> None:
    assert refusal(
        "def g(): return 1", "def f(): return g()", "def g(): return 2", "def h(): return g()", names=("f", "h")
    ) == ("its `g` is not the `g` that another answer needs. Rename one of them")
