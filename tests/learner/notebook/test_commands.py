from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
import torch
from nbclient import NotebookClient

from graders import check, hint, progress, rules, solution, toolbox
from graders.core import course
from graders.core.results import Status
from graders.core.rules import RULES
from graders.learner.notebook import record
from graders.learner.notebook.commands import with_invalid_cell
from graders.marking.in_process import check_namespace
from tests.answers import answers_of
from tests.notebooks import BRANCH, CHAIN, PASSES
from tests.sample import SCALE_SUM
from tests.trouble import nothing_can_be_written

LESSON_1 = answers_of("01")
FIRST_OF_ALL = answers_of("00").right["00-layer-output"][0]


@pytest.fixture(autouse=True)
def fresh_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner who has just opened a notebook in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the text of a cell in a main program of its own; what it defines there is what `check` finds."""
    program = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", program)
    return lambda source: exec(compile(source, "<cell>", "exec"), vars(program))


def test_a_right_answer_passes_and_is_noted(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell(BRANCH)
    check("01-branch-grads")
    headline, *checks, gap, held, advice, following = capsys.readouterr().out.rstrip("\n").split("\n")
    assert headline == "✓ Passed: The gradient of every branch (1 of 1 point)"
    assert checks == [f"  ✓ {check.sentence}" for check in course.find_exercise("01-branch-grads").checks]
    assert gap == ""
    assert held.startswith(f"It held on {len(course.find_exercise('01-branch-grads').cases)} sets of inputs")
    assert 'solution("01-branch-grads")' in advice
    assert following == "Next: `01-per-pass-grads`, One gradient for each pass"
    assert json.loads(Path(record.FILE_NAME).read_text()) == {"exercises": {"01-branch-grads": "passed"}}


def test_a_recognised_mistake_is_explained_with_the_numbers(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell(LESSON_1.wrong["01-chain-grads"]["reversed-list"])
    check("01-chain-grads")
    text = capsys.readouterr().out
    assert text.startswith("✗ Not yet right: The gradient at every step of a chain (0 of 2 points)\n")
    assert "from the last step to the first" in text
    assert "  ✗ not yet: the example of the contract comes out\n      chain_grads([lambda t: 3 * t" in text
    assert "x)[0]: expected 12, saw 1\n" in text
    assert "the result[0]" not in text
    assert " other checks, " in text
    assert '`check("01-chain-grads", more=True)`' in text
    assert 'hint("01-chain-grads")' in text
    assert record.load_record().exercises == {"01-chain-grads": "wrong"}
    check("01-chain-grads", more=True)
    text = capsys.readouterr().out
    assert "  – not judged: every step has its gradient\n" in text
    assert "more=True" not in text


def test_a_missing_answer_is_not_attempted_and_not_noted(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    check("01-branch-grads")
    text = capsys.readouterr().out
    assert text.startswith("· Not attempted yet: The gradient of every branch (0 of 1 point)\n")
    assert "the notebook defines no `branch_grads`" in text
    assert not Path(record.FILE_NAME).exists()


def test_an_exception_shows_the_learners_line_and_the_call(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell("def branch_grads(w, x):\n    return w.missing")
    check("01-branch-grads")
    text = capsys.readouterr().out
    assert text.startswith("! An exception was raised: ")
    assert "  Your code, line 2 of its cell" in text
    assert "  The call: branch_grads(tensor([" in text


def test_what_once_passed_stays_passed(cell: Any) -> None:
    cell(PASSES)
    check("01-per-pass-grads")
    cell(LESSON_1.wrong["01-per-pass-grads"]["accumulated-grad"])
    check("01-per-pass-grads")
    assert record.load_record().exercises == {"01-per-pass-grads": "passed"}


def test_each_check_draws_other_inputs_and_a_seed_repeats_them() -> None:
    asked = []

    def scale_sum(x: Any, k: float) -> Any:
        asked.append(tuple(x.tolist()))
        return (k * x).sum()

    namespace = {"scale_sum": scale_sum}
    results = [check_namespace(SCALE_SUM, namespace, seed) for seed in (None, None, 7, 7)]
    assert [result.status for result in results] == [Status.PASSED] * 4
    assert asked[4:6] == asked[6:8]
    assert len(set(asked)) == 6


def test_an_answer_that_changes_its_input_does_not_change_the_judges_copy() -> None:
    namespace: dict[str, Any] = {}
    exec("def scale_sum(x, k):\n    total = (k * x).sum()\n    x.data.zero_()\n    return total", namespace)
    assert check_namespace(SCALE_SUM, namespace, 1).status is Status.PASSED


def test_after_an_exception_the_other_draws_are_not_tried() -> None:
    calls = []

    def scale_sum(x: Any, k: float) -> None:
        calls.append(k)
        raise ValueError

    assert check_namespace(SCALE_SUM, {"scale_sum": scale_sum}, 1).status is Status.RAISED
    assert calls == [2.0]


def test_a_result_that_is_too_large_is_over_the_limit() -> None:
    result = check_namespace(SCALE_SUM, {"scale_sum": lambda x, k: [0] * 5000}, 1)
    assert result.status is Status.OVER_LIMIT
    assert "the result is too large: more than 4000 values" in result.message


def test_what_the_answer_prints_is_shown_below_the_verdict_once(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell("def branch_grads(w, x):\n    print('shape', w.dim())\n    print('\\x1b[2Jred')\n    raise ValueError")
    check("01-branch-grads")
    text = capsys.readouterr().out
    assert text.count("Your function printed:") == text.count("Your function printed:\n  shape ") == 1
    assert "\n  \ufffd[2Jred\n\nA hint" in text
    cell(BRANCH)
    check("01-branch-grads")
    assert "printed" not in capsys.readouterr().out


def test_of_much_that_is_printed_the_beginning_is_shown(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell("def branch_grads(w, x):\n    for _ in range(1000):\n        print('a' * 99)\n    raise ValueError")
    check("01-branch-grads")
    text = capsys.readouterr().out
    assert text.count("a" * 99) == 20
    assert text.count("…") == 1


@pytest.mark.parametrize("command", [check, hint, solution])
def test_an_unknown_key_ends_in_a_sentence(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command("01-nothing")
    assert capsys.readouterr().out.startswith("There is no exercise '01-nothing'. Exercises: 01-branch-grads, ")


def test_hints_come_one_after_the_other_and_start_again(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(4):
        hint("01-branch-grads")
    hints = course.find_exercise("01-branch-grads").hints
    lines = capsys.readouterr().out.split("\n")
    assert lines[::2][:4] == [
        f"Hint {n} of 3: {text}" for n, text in ((1, hints[0]), (2, hints[1]), (3, hints[2]), (1, hints[0]))
    ]
    assert [line.split(":")[0] for line in lines[1::2][:3]] == ["More", "More", "That was the last one. The answer"]


def test_each_exercise_counts_its_own_hints(capsys: pytest.CaptureFixture[str]) -> None:
    for key in ("01-branch-grads", "01-chain-grads", "01-branch-grads"):
        hint(key)
    lines = capsys.readouterr().out.split("\n")
    assert [line.split(":")[0] for line in lines[::2][:3]] == ["Hint 1 of 3", "Hint 1 of 3", "Hint 2 of 3"]


def test_the_solution_opens_when_asked_for_twice(capsys: pytest.CaptureFixture[str]) -> None:
    solution("01-branch-grads")
    assert capsys.readouterr().out.startswith("The worked answer opens when your check has passed.")
    solution("01-chain-grads")
    assert capsys.readouterr().out.startswith("The worked answer opens when your check has passed.")
    solution("01-branch-grads")
    text = capsys.readouterr().out
    assert text.startswith("Worked answer: The gradient of every branch\n")
    assert "def branch_grads(w, x):" in text
    assert "SOLUTION" not in text
    assert text.rstrip().endswith(course.find_exercise("01-branch-grads").why)


def test_the_solution_opens_after_a_passed_check(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell(CHAIN)
    check("01-chain-grads")
    capsys.readouterr()
    solution("01-chain-grads")
    assert capsys.readouterr().out.startswith("Worked answer: ")


def test_progress_counts_what_is_passed_and_names_what_is_next(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    exercises = course.every_exercise()
    total = f"{sum(exercise.points for exercise in exercises):g}"
    progress()
    lines = capsys.readouterr().out.rstrip("\n").split("\n")
    assert lines[0] == f"0 exercises of {len(exercises)} passed (0 of {total} points)"
    assert lines[-2].endswith('`progress("core")` chooses one, and Next follows it.')
    assert lines[-1] == "Next: `00-layer-output`, What a layer returns, in 00_three_hooks.ipynb"
    cell(FIRST_OF_ALL + BRANCH + LESSON_1.wrong["01-chain-grads"]["reversed-list"])
    for key in ("00-layer-output", "01-branch-grads", "01-chain-grads"):
        check(key)
    capsys.readouterr()
    progress()
    lines = capsys.readouterr().out.rstrip("\n").split("\n")
    assert lines[0] == f"2 exercises of {len(exercises)} passed (2 of {total} points)"
    assert lines[1].startswith("  0. Three hooks in ten minutes  ✓")
    assert lines[2:6] == [
        "→ 1. Where gradients live  ✓·✗  1 of 4 points",
        "    ✓ 01-branch-grads  The gradient of every branch (1 point · 10 min · easy · core path)",
        "    · 01-per-pass-grads  One gradient for each pass (1 point · 10 min · easy · core path)",
        "    ✗ 01-chain-grads  The gradient at every step of a chain (2 points · 20 min · medium · core path)",
    ]
    assert lines[6].startswith("  2. Watching gradients  ·")
    assert lines[-1] == "Next: `01-per-pass-grads`, One gradient for each pass, in 01_where_gradients_live.ipynb"


def test_next_follows_the_way_that_was_chosen(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    progress("transformers")
    assert capsys.readouterr().out.rstrip("\n").split("\n")[-2:] == [
        "Your way: transformers, 0 of 19 exercises passed.",
        "Next: `05-capture-activation`, The output of one layer, in 05_capturing_activations.ipynb",
    ]
    cell(BRANCH)
    check("01-branch-grads")
    assert capsys.readouterr().out.rstrip("\n").split("\n")[-1].startswith("Next: `05-capture-activation` in 05_")
    progress("no such")
    assert capsys.readouterr().out.startswith("There is no way 'no such' through the course. Ways: core path, ")
    assert record.load_record().way == "transformers"


def test_a_toolbox_without_tools_says_what_fills_it(capsys: pytest.CaptureFixture[str]) -> None:
    toolbox()
    assert capsys.readouterr().out == (
        "Your toolbox\nNothing to collect yet: pass an exercise of lessons 2, 5, 6, 7, 9, 11.\n"
    )


def test_a_broken_record_is_set_aside_and_the_learner_is_told(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    Path(record.FILE_NAME).write_text('{"exercises": {"01-chain-grads": "pas')
    cell(BRANCH)
    check("01-branch-grads")
    text = capsys.readouterr().out
    assert "✓ Passed" in text
    assert text.endswith(
        "hookwork-progress.json could not be read (line 1 is not JSON). It is now hookwork-progress.broken-1.json; "
        "nothing in it was lost. A new one was started.\n"
    )
    assert record.load_record().exercises == {"01-branch-grads": "passed"}


def test_a_folder_that_cannot_be_written_is_no_error(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cell(BRANCH)
    with capsys.disabled(), redirect_stdout(io.StringIO()) as printed, nothing_can_be_written():
        check("01-branch-grads")
    text = printed.getvalue()
    assert "✓ Passed" in text
    assert "Your progress could not be kept in hookwork-progress.json: file too large." in text
    assert record.load_record().exercises == {"01-branch-grads": "passed"}


def test_in_a_notebook_the_names_of_its_cells_are_searched(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(BRANCH),
            nbformat.v4.new_code_cell("from graders import check\ncheck('01-branch-grads')"),
        ]
    )
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert record.load_record(tmp_path).exercises == {"01-branch-grads": "passed"}


LEFT_BEHIND = {
    "no grad mode": "torch.set_grad_enabled(False)",
    "inference mode": "mode = torch.inference_mode(); mode.__enter__()",
    "another default dtype": "torch.set_default_dtype(torch.float64)",
    "another default device": "torch.set_default_device('meta')",
    "a global forward hook": "nn.modules.module.register_module_forward_hook(lambda module, args, output: output * 0)",
    "a global backward hook": "nn.modules.module.register_module_full_backward_hook(lambda *_: 1 / 0)",
    "anomaly detection": "torch.autograd.set_detect_anomaly(True)",
    "autocast": "mode = torch.autocast('cpu', dtype=torch.bfloat16); mode.__enter__()",
    "hooks on saved tensors": "from torch.autograd.graph import saved_tensors_hooks\n"
    "mode = saved_tensors_hooks(lambda t: t * 0, lambda t: t)\nmode.__enter__()",
    "a function mode": """
class Zeros(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        return found * 0 if isinstance(found, torch.Tensor) and found.is_floating_point() else found
mode = Zeros()
mode.__enter__()""",
    "warnings as errors": "import warnings\nwarnings.simplefilter('error')",
}
if not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"):  # before torch 2.8 they stay active
    del LEFT_BEHIND["hooks on saved tensors"]
CHECK_EACH = """
import json, os, sys
import torch
from torch import nn
from graders.core import course
from graders.marking.in_process import check_namespace
from tests.answers import answers_of
names, exercises = {}, []
for lesson in ("01", "04", "11"):
    key, answers = next(iter(answers_of(lesson).right.items()))
    exec(answers[0], names)
    exercises.append(course.find_exercise(key))

def check_all(left):
    exec(left, globals())
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    found = [check_namespace(exercise, names).status.value for exercise in exercises]
    assert (torch.is_grad_enabled(), torch.get_default_dtype()) == (grad, dtype)
    print(what, *found, sep=": ", flush=True)

for what, left in json.loads(sys.argv[1]).items():
    if (child := os.fork()) == 0:
        check_all(left)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="one process that has imported torch is forked for each")
def test_what_a_notebook_left_switched_on_decides_over_no_check() -> None:
    """An exercise of each of three lessons, in a process of its own: some of these cannot be switched off again."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK_EACH, json.dumps(LEFT_BEHIND)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.stdout == "".join(f"{what}: passed: passed: passed\n" for what in LEFT_BEHIND), done.stderr


def test_the_rules_can_be_read_where_there_is_no_file_beside_the_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    rules()
    text = capsys.readouterr().out
    assert text.startswith("The rules of all exercises\n\n")
    for rule in RULES:
        assert f"\n{rule.number}. {rule.title.split(' (')[0]}" in text
    assert max(map(len, text.partition("\n1. ")[2].splitlines())) <= 100


def checked_after(*inputs: str) -> tuple[Status, str]:
    """What `check` makes of a missing answer after these cells, as IPython keeps them."""
    exercise = course.find_exercise("01-branch-grads")
    found = with_invalid_cell(exercise, check_namespace(exercise, {}), ["", *inputs])
    return found.status, found.message


def test_an_answer_that_is_not_valid_python_is_no_missing_one() -> None:
    broken = "def branch_grads(w, x)\n    return 1"
    message = "`branch_grads` was not defined, because its cell failed with SyntaxError: expected ':' (line 1)."
    assert checked_after(broken, 'check("01-branch-grads")') == (Status.SYNTAX_ERROR, message)
    assert checked_after("\u200b" + broken.replace(")\n", "):\n"))[0] is Status.SYNTAX_ERROR
    assert checked_after(broken, BRANCH)[0] is Status.NOT_ATTEMPTED  # it was mended, and is gone again
    assert checked_after("x = (", BRANCH)[0] is Status.NOT_ATTEMPTED
    assert checked_after()[0] is Status.NOT_ATTEMPTED
