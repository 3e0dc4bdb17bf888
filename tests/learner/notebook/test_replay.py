"""`replay` in a notebook: what it says before and after a check, and how it stops in a running kernel."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

import graders
from graders import check, replay
from graders.learner.notebook.commands import LATER
from graders.sandbox.inside import stub_package

PLAIN = re.compile(r"\x1b\[[0-9;]*m")
KEY = "03-scale-grad"
IN_PLACE = """
def scale_grad(t, s):
    factor = s
    return t.register_hook(lambda grad: grad.mul_(factor))
"""
RIGHT = IN_PLACE.replace("grad.mul_(factor)", "grad * factor")


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the text of a cell in a main program of its own; what it defines there is what `check` finds."""
    monkeypatch.chdir(tmp_path)
    program = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", program)
    return lambda source: exec(compile(source, "<cell>", "exec"), vars(program))


def test_the_last_refused_program_runs_with_the_function_as_it_is_now(
    cell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def said() -> list[str]:
        replay(KEY)
        return capsys.readouterr().out.splitlines()

    assert said() == ["There is no `scale_grad` yet. Run the cell that defines it."]
    cell("def scale_grad(t, s):\n    raise NotImplementedError")
    check(KEY)
    assert "Run this below" not in capsys.readouterr().out
    assert said() == [
        f'There is nothing to replay yet. Run `check("{KEY}")`: if it refuses your answer, it may show a program.'
    ]
    cell(IN_PLACE)
    check(KEY)
    lines = capsys.readouterr().out.splitlines()
    start = lines.index(f'Run this below your answer to see it, or call `replay("{KEY}")`:')
    program = lines[start + 2 : lines.index("", start + 2)]
    expected, seen = program[-1].partition("# expected ")[2].split("; yours: ")
    printed, title, label, wanted, again = said()
    assert again == f'To stop in your function: `replay("{KEY}", stop=True)`'
    assert (title, label) == ("Not as expected yet", "Expected:")
    assert [eval(text.replace("tensor", "")) for text in (wanted, printed)] == [
        pytest.approx(eval(text.replace("tensor", "")), rel=1e-3) for text in (expected, seen)
    ]
    cell(RIGHT)
    passed = f'As expected. Now run `check("{KEY}")` again, which tries more.'
    assert said() == [wanted, passed]
    check(KEY)
    capsys.readouterr()
    assert said() == [wanted, passed]


def test_a_model_in_which_something_is_to_be_found_is_shown_from_the_second_refused_check_on(
    cell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown() -> tuple[bool, bool]:
        check("13-diagnose")
        said = capsys.readouterr().out
        return LATER in said, "def make():" in said

    cell("def diagnose(make, x, y, loss_fn, lr):\n    return 'healthy', None")
    assert shown() == (True, False)
    replay("13-diagnose")
    assert capsys.readouterr().out.startswith("Your last refused check showed no program: ")
    assert [shown(), shown()] == [(False, True), (False, True)]


def test_a_key_that_does_not_exist_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    replay("03-nothing")
    assert "03-nothing" in capsys.readouterr().out


def test_while_a_notebook_is_marked_all_names_exist_and_do_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for name in graders.__all__:
        ours, stub = inspect.signature(getattr(graders, name)), inspect.signature(getattr(stub_package, name))
        assert list(stub.parameters) == list(ours.parameters) or name in ("guess", "compare")
    assert stub_package.replay(KEY, stop=True) is None  # type: ignore[func-returns-value]
    assert capsys.readouterr().out == ""


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[BlockingKernelClient]:
    """A kernel as a notebook has it."""
    manager, client = start_new_kernel(cwd=str(tmp_path))
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def typed(client: BlockingKernelClient, source: str, *commands: str, stdin: bool = True) -> str:
    """What a cell shows as text, if a person types these commands at the prompts."""
    left, shown = list(commands), list[str]()

    def show(message: Any) -> None:
        content = message["content"]
        shown.append(content.get("text") or content.get("data", {}).get("text/plain") or content.get("evalue") or "")

    reply = client.execute_interactive(
        source, timeout=120, allow_stdin=stdin, output_hook=show, stdin_hook=lambda _: client.input(left.pop(0))
    )
    assert (reply["content"]["status"], left) == ("ok", []), shown
    return PLAIN.sub("", "\n".join(shown))


def test_in_a_kernel_it_stops_in_the_learners_function_and_in_their_hook(kernel: BlockingKernelClient) -> None:
    typed(kernel, IN_PLACE + f"from graders import check, replay\ncheck('{KEY}')")
    call, stopped = f"before = dict(globals())\nreplay('{KEY}', stop=True)", "--> 2     factor = s\n"
    commands = ["p ('the number', s)", "n", "p factor == s", "c", "p ('in the hook', grad.shape)", "c"]
    seen = typed(kernel, call, *commands)
    assert seen.index("It stops where") < seen.index(stopped) < seen.index("('the number', ")
    assert seen.count(stopped) == 1
    assert "True" in seen
    assert "('in the hook', torch.Size(" in seen
    assert "Not as expected yet" in seen
    ended = typed(kernel, call, "left = 7", "n", "n", "n", "q")  # out of the function, into the program
    assert f"<replay {KEY}>" in ended
    assert "expected yet" not in ended
    # IPython adds names of its own, such as `_i3`, for each cell.
    new = "[name for name in globals() if name not in before and not name.startswith('_i')]"
    assert typed(kernel, f"print({new})").strip() == "[]"
    assert "Nothing can be typed here." in typed(kernel, call, stdin=False)
    assert "tensor(" in typed(kernel, f"replay('{KEY}')")
