from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from graders.probing.asking import Answer, answer_probe
from graders.wire.data import MAX_TREE, decode
from graders.wire.frames import MAX_HEAD, Frame, pack_frame


def notebook(source: str) -> dict[str, Any]:
    """The namespace after a cell with this text was run."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), namespace)
    return namespace


def probed(source: str, probe: Callable[..., Any] | None = None, **draw: Any) -> Answer:
    """The answer of a probe that calls `f(x)`, or of another one, in a notebook with this cell."""
    names = ", ".join(draw)
    return answer_probe(probe or eval(f"lambda student, {names}: student.f({names})"), notebook(source), draw, 1)


def test_what_a_probe_saw_is_data() -> None:
    found = probed("def f(x):\n    return {'y': 2 * x}", x=torch.tensor([1.0, 2.0]))
    assert found.head["type"] == "seen"
    assert decode(found.head["tree"], found.body)["y"].tensor.tolist() == [2.0, 4.0]


def test_what_was_printed_comes_with_the_answer_and_with_an_exception() -> None:
    assert probed("def f(x):\n    print('here', x)\n    return x", x=1).head["printed"] == "here 1\n"
    assert probed("def f(x):\n    print('here', x)\n    1 / 0", x=1).head["printed"] == "here 1\n"
    assert "printed" not in probed("def f(x):\n    return x", x=1).head


@pytest.mark.parametrize("character", ["x", "\n", "\u00e9", "\U0001f600", "\ud800", "\0"])
def test_what_was_printed_has_room_beside_the_largest_tree(character: str) -> None:
    source = f"def f(x):\n    print({character!r} * 5000)\n    return ['a' * 3900] * {MAX_TREE // 3910}"
    head = probed(source, x=1).head
    assert head["printed"]
    assert len(pack_frame(Frame({**head, "nonce": "n" * 32}))) <= MAX_HEAD + 8


def test_a_missing_name_is_not_attempted() -> None:
    assert probed("g = 1", x=1).head == {
        "type": "raised",
        "status": "not-attempted",
        "message": "the notebook defines no `f`",
        "defined": False,
    }


def test_an_exception_comes_with_the_learners_line_and_the_call() -> None:
    source = "def f(x, k):\n    y = helper(x)\n    return y\n\ndef helper(x):\n    return x.no_such_thing"
    found = probed(source, x=torch.tensor([1.0, -0.5]), k=3)
    assert found.head == {
        "type": "raised",
        "status": "raised",
        "error": "AttributeError",
        "message": "'Tensor' object has no attribute 'no_such_thing'",
        "line": "line 6 of its cell",
        "call": "f(tensor([1.0, -0.5], float32), 3)",
    }


@pytest.mark.parametrize(
    "source", ["def size(x): return x.no", "class size:\n    def __init__(self, x): self.a = x.no"]
)
def test_a_line_of_another_cell_says_which(source: str) -> None:
    names = notebook("def f(x): return size(x)")
    exec(compile(source, "<another cell>", "exec"), names)
    found = answer_probe(lambda student, x: student.f(x), names, {"x": 3}, 1)
    assert found.head["line"].partition(" of ")[2] == "the cell of size"


def test_the_line_is_the_learners_own_when_torch_raises() -> None:
    found = probed("import torch\n\ndef f(x):\n    return torch.cat(x)", x=3)
    assert (found.head["error"], found.head["line"]) == ("TypeError", "line 4 of its cell")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("raise NotImplementedError", "not-attempted"),
        ("raise ValueError('no')", "raised"),
        ("raise KeyboardInterrupt", "raised"),
        ("raise SystemExit(0)", "raised"),
        ("raise GeneratorExit", "raised"),
        ("raise StopIteration", "raised"),
        ("return input()", "raised"),
        ("raise MemoryError", "over-limit"),
        ('raise RuntimeError("DefaultCPUAllocator: can\'t allocate memory")', "over-limit"),
        ("return [0] * 5000", "over-limit"),
    ],
)
def test_every_end_has_its_status(body: str, status: str) -> None:
    found = probed(f"def f():\n    {body}")
    assert (found.head["type"], found.head["status"]) == ("raised", status)


def test_not_implemented_by_torch_is_no_untouched_stub() -> None:
    found = probed("import torch\n\ndef f():\n    return torch.nn.Module()(1)")
    assert (found.head["status"], found.head["error"]) == ("raised", "NotImplementedError")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def __str__(self):\n        raise ValueError", "(its message cannot be read)"),
        ("def __str__(self):\n        return 'x' * 10_000", "x" * 300),
        ("def __str__(self):\n        return 'a\\udc80'", "a?"),
    ],
)
def test_the_message_of_an_exception_is_read_with_care(body: str, message: str) -> None:
    found = probed(f"class E(Exception):\n    {body}\n\ndef f():\n    raise E")
    assert (found.head["error"], found.head["message"]) == ("E", message)


def test_a_name_that_is_no_function_raises() -> None:
    found = probed("f = 3", x=1)
    assert (found.head["status"], found.head["message"]) == ("raised", "'int' object is not callable")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (torch.tensor(1.25), "tensor([1.25], float32)"),
        (torch.zeros(2, 3, dtype=torch.float64), "tensor of shape (2, 3), float64"),
        (torch.tensor([1, 2]), "tensor of shape (2,), int64"),
        (nn.Parameter(torch.tensor([0.1])), "Parameter([0.1], float32)"),
        ([1, "a", None, True, 5], "[1, 'a', None, True, …]"),
        ((1.5,), "(1.5)"),
        ({"a": [1]}, "{'a': [1]}"),
        (nn.ReLU(), "a ReLU"),
        (len, "a function"),
        (object(), "a object"),
    ],
)
def test_the_call_shows_its_arguments_in_few_words(value: Any, shown: str) -> None:
    found = probed("def f(x):\n    raise ValueError", x=value)
    assert found.head["call"] == f"f({shown})"


def test_the_call_that_is_shown_is_the_last_one() -> None:
    def probe(student: Any) -> None:
        student.f(1)
        student.f(x=2)

    found = probed("def f(x):\n    return 1 / (x - 2)", probe)
    assert found.head["call"] == "f(x=2)"
