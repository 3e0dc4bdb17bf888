"""A program that shows a refusal runs again with the learner's function, and leaves everything as it was."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

from graders.marking.replaying import Replayed, replay_program

KEY = "03-scale-grad"
PROGRAM = """\
w = torch.tensor([1.0, 2.0]).requires_grad_()
handle = scale_grad(w, 3.0)
w.sum().backward()
print(w.grad)  # expected tensor([3., 3.])
"""
REMOVED = PROGRAM.replace("w.sum()", "handle.remove()\nw.sum()")
RIGHT = "def scale_grad(t, s):\n    return t.register_hook(lambda grad: grad * s)"


def cells(source: str) -> dict[str, Any]:
    """The names of a notebook with these cells."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), names)
    return names


def replayed(source: str, program: str = PROGRAM) -> Replayed:
    return replay_program(program, KEY, cells(source))


@pytest.mark.parametrize(
    ("source", "found", "printed"),
    [
        (RIGHT, Replayed("tensor([3., 3.])", True), "tensor([3., 3.])\n"),
        (RIGHT.replace("* s", "* s * (1 + 2e-7)"), Replayed("tensor([3., 3.])", True), "tensor([3.0000, 3.0000])\n"),
        (RIGHT.replace("* s", "* s * (1 + 2e-5)"), Replayed("tensor([3., 3.])"), "tensor([3.0001, 3.0001])\n"),
        (RIGHT.replace("grad * s", "None"), Replayed("tensor([3., 3.])"), "tensor([1., 1.])\n"),
    ],
)
def test_what_is_printed_is_shown_and_compared(
    source: str, found: Replayed, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replayed(source) == found
    assert capsys.readouterr().out == printed


def test_an_exception_shows_the_lines_of_the_program_and_of_the_learner() -> None:
    error = replayed(RIGHT.replace("grad * s", "grad * missing")).error.splitlines()
    assert [line.split(", in")[0] for line in error if line.startswith("  File")] == [
        f'  File "<replay {KEY}>", line 3',
        '  File "<cell>", line 2',
    ]
    assert "    w.sum().backward()" in error
    assert error[-1] == "NameError: name 'missing' is not defined"
    assert replayed(RIGHT.replace("return ", ""), REMOVED).error.endswith("no attribute 'remove'")
    assert replayed(RIGHT, REMOVED) == Replayed("tensor([1., 1.])", True)
    assert replayed("def scale_grad(t, s):\n    exit()").error.endswith("SystemExit: None")


@pytest.mark.parametrize("shown", ["scale_grad", "w.register_hook(print)", "w * 1", "None", "[w, {'a': 1}]"])
def test_a_right_answer_is_as_expected_whatever_the_program_prints(shown: str) -> None:
    other = RIGHT.replace("lambda grad: grad * s", "lambda g: s * g")
    as_expected = replayed(other, PROGRAM.replace("print(w.grad)", f"print({shown})")).as_expected
    assert as_expected is (shown != "scale_grad")  # of what is no data the text is compared, without its address


def test_nothing_of_the_learner_changes() -> None:
    source = """
import torch
calls, w = 0, "mine"
def scale_grad(t, s):
    global calls, w, made
    calls, w, made = calls + 1, None, True
    torch.set_default_dtype(torch.float64), torch.set_grad_enabled(False), torch.manual_seed(5)
    return t.register_hook(lambda grad: grad * s)
"""
    names = cells(source)
    before, state = dict(names), torch.get_rng_state()
    replay_program(PROGRAM, KEY, names)
    assert names == before
    assert (torch.get_default_dtype(), torch.is_grad_enabled()) == (torch.float32, True)
    assert torch.equal(torch.get_rng_state(), state)
    with contextlib.suppress(KeyboardInterrupt):
        replay_program(PROGRAM, KEY, cells("def scale_grad(t, s):\n    raise KeyboardInterrupt"))
    assert names == before


def test_an_interruption_ends_it() -> None:
    with pytest.raises(KeyboardInterrupt):
        replayed("def scale_grad(t, s):\n    raise KeyboardInterrupt")
