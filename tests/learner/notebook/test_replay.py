"""`replay` in a notebook: what it says before and after a check, and how it stops in a running kernel."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

import graders
from graders import check, replay
from graders.learner.notebook.commands import LATER
from graders.sandbox.inside import stub_package

PLAIN = re.compile(r"\x1b\[[0-9;]*m")
KEY = "03-scale-grad"
IN_FLOAT32 = """
def scale_grad(t, s):
    factor = s
    return t.register_hook(lambda grad: grad * factor if grad.element_size() == 4 else grad)
"""
RIGHT = IN_FLOAT32.replace(" if grad.element_size() == 4 else grad", "")


def test_the_last_refused_program_runs_with_the_function_as_it_is_now(cell: Any, said: Callable[..., str]) -> None:
    def replayed() -> list[str]:
        return said(replay, KEY).splitlines()

    assert replayed() == ["There is no `scale_grad` yet. Run the cell that defines it."]
    cell("def scale_grad(t, s):\n    raise NotImplementedError")
    assert "Run this below" not in said(check, KEY)
    assert replayed() == [
        f'There is nothing to replay yet. Run `check("{KEY}")`: if it refuses your answer, it may show a program.'
    ]
    cell(IN_FLOAT32)
    lines = said(check, KEY).splitlines()
    start = lines.index(f'Run this below your answer to see it, or call `replay("{KEY}")`:')
    program = lines[start + 2 : lines.index("", start + 2)]
    comment = re.search(r"# expected (.*); (?:# )?yours: (.*)", " ".join(program))  # in one line, or in two
    assert comment is not None
    printed, title, label, wanted, again = replayed()
    assert again == f'To stop in your function: `replay("{KEY}", stop=True)`'
    assert (title, label) == ("Not as expected yet", "Expected:")
    values = lambda text: eval(text, {"tensor": lambda values, dtype: values, "torch": torch})  # noqa: E731
    assert [values(text) for text in (wanted, printed)] == [
        pytest.approx(values(text), rel=1e-3, abs=1e-4) for text in comment.groups()
    ]
    cell(RIGHT)
    passed = f'As expected. Now run `check("{KEY}")` again, which tries more.'
    assert replayed() == [wanted, passed]
    check(KEY)
    assert replayed() == [wanted, passed]


def test_a_model_in_which_something_is_to_be_found_is_shown_from_the_second_refused_check_on(
    cell: Any, said: Callable[..., str]
) -> None:
    def shown() -> tuple[bool, bool]:
        text = said(check, "13-diagnose")
        return LATER in text, "print(diagnose(make," in text

    cell("def diagnose(make, x, y, loss_fn, lr):\n    return None")
    assert shown() == (True, False)
    assert said(replay, "13-diagnose").startswith("Your last refused check showed no program: ")
    assert shown() == (False, True)


def test_a_key_that_does_not_exist_is_said(said: Callable[..., str]) -> None:
    assert "03-nothing" in said(replay, "03-nothing")


def test_while_a_notebook_is_marked_all_names_exist_and_do_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for name in graders.__all__:
        ours, stub = inspect.signature(getattr(graders, name)), inspect.signature(getattr(stub_package, name))
        assert list(stub.parameters) == list(ours.parameters) or name in ("guess", "compare")
    assert stub_package.replay(KEY, stop=True) is None  # type: ignore[func-returns-value]
    assert capsys.readouterr().out == ""


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[BlockingKernelClient]:
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
    typed(kernel, IN_FLOAT32 + f"from graders import check, replay\ncheck('{KEY}')")
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
