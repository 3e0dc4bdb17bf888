"""The asserts of a source are run, and no reader sees them."""

from __future__ import annotations

import pytest

from graders.author.asserts import without_asserts
from graders.core.source import SourceError


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("x = 1\nassert x == 1\n\ny = 2", "x = 1\n\ny = 2"),
        ("x = 1\n\nassert x == 1, (\n    'why'\n)\n\ny = 2", "x = 1\n\ny = 2"),
        ("assert True", ""),
        ("print(x)\n# x is\n# a number\nassert x == 1\n# here\ny = 2", "print(x)\n# here\ny = 2"),
        ("print('assert nothing')", "print('assert nothing')"),
        ("with f():\n    x = 1\n    assert x\n    print(x)", "with f():\n    x = 1\n    print(x)"),
        (
            "try:\n    f()\nexcept E as error:\n    print(error)\n    assert str(error)",
            "try:\n    f()\nexcept E as error:\n    print(error)",
        ),
        ("def hook(grad):\n    assert grad > 0\n    return grad", "def hook(grad):\n    return grad"),
        ("for x in y:\n    print(x)\n    assert x  # why", "for x in y:\n    print(x)"),
        ("if new:\n    assert a\nelif old:\n    assert b\nprint(a)", "print(a)"),
        ("for x in y:\n    assert x\nprint(y)", "print(y)"),
        ("x = 'é'; y = 1\nassert x\nz = x", "x = 'é'; y = 1\nz = x"),
        ("def f():\n    pass\n\n\nassert f\n\n\ndef g():\n    pass", "def f():\n    pass\n\n\ndef g():\n    pass"),
    ],
)
def test_asserts_go_and_nothing_else(source: str, shown: str) -> None:
    assert without_asserts(source) == shown


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("with f():\n    assert x", "without .assert x. nothing is left of the With in line 1 of its cell: print"),
        ("try:\n    f()\nexcept E:\n    assert x", "nothing is left of the ExceptHandler in line 3"),
        ("def f():\n    assert x", "nothing is left of the FunctionDef in line 1"),
        ("if a:\n    print(a)\nelse:\n    assert x", "nothing is left of the If in line 1"),
        ("x = 1; assert x", "give the assert a line of its own"),
        ("assert x; y = 1", "give the assert a line of its own"),
        ("assert (", "line 1 of a cell is not Python"),
    ],
)
def test_what_cannot_go_is_an_error_that_says_what_to_do(source: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        without_asserts(source)
