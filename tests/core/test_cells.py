from __future__ import annotations

import time
import warnings

import pytest

from graders.core.cells import MAX_PARSED, _parse_bound_names, bound_names, defining_cell_by_name


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    pass",
        "async def f():\n    pass",
        "class f:\n    pass",
        "f = lambda x: x",
        "g = f = 1",
        "f: int = 3",
        "a, (f, b) = 1, (2, 3)",
        "if True:\n    def f():\n        pass",
        "for f in []:\n    pass",
        "with open('x') as f:\n    pass",
        "from x import f",
        "from x import (a,\n    f)",
        "from x import a as f, b",
        "import f.g",
        "import x as f",
        "print(f := 3)",
        "try:\n    pass\nexcept ValueError as f:\n    pass",
        "match x:\n    case [1, *f]:\n        pass",
        "match x:\n    case {'a': 1, **f}:\n        pass",
        "match x:\n    case str() as f:\n        pass",
        "def g():\n    global f\n    f = 3\ng()",
        "f = 3\n" + "# a very long cell\n" * 2000,
        "x = 1\ndef f(:\n    pass",
        "f = 1\n!pip install torch",
        "!pip install x\nimport x as f, y",
        "%matplotlib inline\nfrom x import a, f",
        "%%time\ndef f():\n    pass",
    ],
)
def test_a_cell_that_would_bind_the_name_defines_it(source: str) -> None:
    assert "f" in bound_names(source)


@pytest.mark.parametrize(
    "source",
    ["", "f(1)", "x = f", "def ff():\n    pass", "# def f(): pass", "self.f = 1", "def g(:\n    f(1)", "f == 1 1",
     "x" * 10 + " =" * 5, "!ls\nimport ff  # f",
     "!ls\nfrom f import g", "(" * 500, "from f import g", "from x import f as g", "import x.f", "def g():\n    f = 3",
     "class A:\n    def f(self):\n        pass", "[f for f in x]", "g(f=3)", "from x import *"],
)  # fmt: skip
def test_a_cell_that_only_mentions_the_name_does_not(source: str) -> None:
    assert "f" not in bound_names(source)


@pytest.mark.parametrize(
    "source",
    ["+".join("1" * 9000), "-" * 19_000 + "1", "a" + ".b" * 9000, "x=" * 9000 + "1", "(" * 19_000,
     "def (\n" + "\n" * 500_000, "def" + " " * 500_000, "f " * 500_000],
)  # fmt: skip
def test_no_source_takes_long_or_ends_the_process(source: str) -> None:
    started = time.monotonic()
    assert "f" not in bound_names(source)
    assert time.monotonic() - started < 5


def test_a_warning_of_the_parser_is_not_shown() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        assert bound_names("f = '\\\x1b[2J'") == {"f"}
    assert shown == []


def test_the_last_cell_that_binds_a_name_is_its_home() -> None:
    assert defining_cell_by_name(["f = g = 1", "def f():\n    h = 1", "f(", "%magic\ng = 2", ""]) == {"f": 1, "g": 3}


CELLS = {
    "of names": "f," * 9990 + "=x",
    "of statements": "f;" * 9990,
    "of classes": "class f:\n pass\n" * 1300,
    "that end in an error": "f=[" + "a," * 9900 + "b c]",
    "that are too long": "f=1;" * MAX_PARSED,
    "without any name": "x" * 19_900,
}  # fmt: skip


@pytest.mark.parametrize("source", CELLS.values(), ids=CELLS.keys())
def test_no_notebook_takes_long_and_each_cell_is_parsed_once(source: str) -> None:
    cells = [f"#{number}\n{source}" for number in range(50)]
    started = time.process_time()
    first = defining_cell_by_name(cells)
    assert time.process_time() - started < 30  # a fuse: what grows with the square of a cell takes minutes
    parsed = _parse_bound_names.cache_info().misses
    assert [defining_cell_by_name(cells) for _ in range(3)] == [first] * 3
    assert _parse_bound_names.cache_info().misses == parsed
