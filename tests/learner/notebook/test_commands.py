from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from graders import check, hint, progress, rules, solution, toolbox
from graders.core import course
from graders.core.results import Status
from graders.core.rules import RULES
from graders.learner.notebook import record
from graders.learner.notebook.commands import with_invalid_cell
from graders.marking.in_process import check_namespace
from tests.answers import answers_of
from tests.notebooks import BRANCH, CHAIN, LESSON_1
from tests.trouble import nothing_can_be_written

FIRST_OF_ALL = answers_of("00").right["00-layer-output"][0]
Cell = Callable[[str], None]
Said = Callable[..., str]


def test_a_right_answer_passes_and_is_noted(cell: Cell, said: Said) -> None:
    cell(BRANCH)
    headline, *checks, gap, held, advice, following = said(check, "01-branch-grads").rstrip("\n").split("\n")
    assert headline == "✓ Passed: The gradient of every branch (1 of 1 point)"
    assert checks == [f"  ✓ {check.sentence}" for check in course.find_exercise("01-branch-grads").checks]
    assert gap == ""
    assert held.startswith(f"It held on {len(course.find_exercise('01-branch-grads').cases)} sets of inputs")
    assert 'solution("01-branch-grads")' in advice
    assert following == "Next: `01-per-pass-grads`, One gradient for each pass"
    assert json.loads(Path(record.FILE_NAME).read_text()) == {"exercises": {"01-branch-grads": "passed"}}


def test_a_recognised_mistake_is_explained_with_the_numbers(cell: Cell, said: Said) -> None:
    cell(LESSON_1.wrong["01-chain-grads"]["reversed-list"])
    text = said(check, "01-chain-grads")
    assert text.startswith("✗ Not yet right: The gradient at every step of a chain (0 of 2 points)\n")
    assert "from the last step to the first" in text
    assert "  ✗ not yet: the example of the contract comes out\n      chain_grads([lambda t: 3 * t" in text
    assert "x)[0]: expected 12, saw 1\n" in text
    assert "the result[0]" not in text
    assert " other checks, " in text
    assert '`check("01-chain-grads", more=True)`' in text
    assert 'hint("01-chain-grads")' in text
    assert record.load_record().exercises == {"01-chain-grads": "wrong"}
    text = said(check, "01-chain-grads", more=True)
    assert "  – not judged: every step has its gradient\n" in text
    assert "more=True" not in text


def test_a_missing_answer_is_not_attempted_and_not_noted(cell: Cell, said: Said) -> None:
    text = said(check, "01-branch-grads")
    assert text.startswith("· Not attempted yet: The gradient of every branch (0 of 1 point)\n")
    assert "the notebook defines no `branch_grads`" in text
    assert not Path(record.FILE_NAME).exists()


def test_an_exception_shows_the_learners_line_and_the_call(cell: Cell, said: Said) -> None:
    cell("def branch_grads(w, x):\n    return w.missing")
    text = said(check, "01-branch-grads")
    assert text.startswith("! An exception was raised: ")
    assert "  Your code, line 2 of its cell" in text
    assert "  The call: branch_grads(tensor([" in text


def test_what_the_answer_prints_is_shown_below_the_verdict_once(cell: Cell, said: Said) -> None:
    cell("def branch_grads(w, x):\n    print('shape', w.dim())\n    print('\\x1b[2Jred')\n    raise ValueError")
    text = said(check, "01-branch-grads")
    assert text.count("Your function printed:") == text.count("Your function printed:\n  shape ") == 1
    assert "\n  \ufffd[2Jred\n\nA hint" in text
    cell(BRANCH)
    assert "printed" not in said(check, "01-branch-grads")


def test_of_much_that_is_printed_the_beginning_is_shown(cell: Cell, said: Said) -> None:
    cell("def branch_grads(w, x):\n    for _ in range(1000):\n        print('a' * 99)\n    raise ValueError")
    text = said(check, "01-branch-grads")
    assert text.count("a" * 99) == 20
    assert text.count("…") == 1


@pytest.mark.parametrize("command", [check, hint, solution])
def test_an_unknown_key_ends_in_a_sentence(command: Any, said: Said) -> None:
    text = said(command, "01-nothing")
    assert text.startswith("There is no exercise '01-nothing'. Exercises: 01-branch-grads, ")


def test_hints_come_one_after_the_other_and_start_again_for_each_exercise(said: Said) -> None:
    hints = course.find_exercise("01-branch-grads").hints
    for number, more in ((1, "More"), (2, "More"), (3, "That was the last one. The answer"), (1, "More")):
        first, second, *_ = said(hint, "01-branch-grads").split("\n")
        assert first == f"Hint {number} of 3: {hints[number - 1]}"
        assert second.split(":")[0] == more
        assert said(hint, "01-chain-grads").startswith(f"Hint {number} of 3: ")


def test_the_solution_opens_after_a_passed_check_or_when_asked_for_twice(cell: Cell, said: Said) -> None:
    for key in ("01-branch-grads", "01-chain-grads"):
        assert said(solution, key).startswith("The worked answer opens when your check has passed.")
    text = said(solution, "01-branch-grads")
    assert text.startswith("Worked answer: The gradient of every branch\n")
    assert "def branch_grads(w, x):" in text
    assert "SOLUTION" not in text
    assert text.rstrip().endswith(course.find_exercise("01-branch-grads").why)
    cell(CHAIN)
    check("01-chain-grads")
    assert said(solution, "01-chain-grads").startswith("Worked answer: ")


def test_progress_counts_what_is_passed_and_names_what_is_next(cell: Cell, said: Said) -> None:
    exercises = course.every_exercise()
    total = f"{sum(exercise.points for exercise in exercises):g}"
    lines = said(progress).rstrip("\n").split("\n")
    assert lines[0] == f"0 exercises of {len(exercises)} passed (0 of {total} points)"
    assert lines[-2].endswith('`progress("core")` chooses one, and Next follows it.')
    assert lines[-1] == "Next: `00-layer-output`, What a layer returns, in 00_three_hooks.ipynb"
    cell(FIRST_OF_ALL + BRANCH + LESSON_1.wrong["01-chain-grads"]["reversed-list"])
    for key in ("00-layer-output", "01-branch-grads", "01-chain-grads"):
        check(key)
    lines = said(progress).rstrip("\n").split("\n")
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


def test_next_follows_the_way_that_was_chosen(cell: Cell, said: Said) -> None:
    assert said(progress, "transformers").rstrip("\n").split("\n")[-2:] == [
        "Your way: transformers, 0 of 19 exercises passed.",
        "Next: `05-capture-activation`, The output of one layer, in 05_capturing_activations.ipynb",
    ]
    cell(BRANCH)
    last = said(check, "01-branch-grads").rstrip("\n").split("\n")[-1]
    assert last.startswith("Next: `05-capture-activation` in 05_")
    text = said(progress, "no such")
    assert text.startswith("There is no way 'no such' through the course. Ways: core path, ")
    assert record.load_record().way == "transformers"


def test_a_toolbox_without_tools_says_what_fills_it(said: Said) -> None:
    assert said(toolbox) == ("Your toolbox\nNothing to collect yet: pass an exercise of lessons 2, 5, 6, 7, 9, 11.\n")


def test_a_broken_record_is_set_aside_and_the_learner_is_told(cell: Cell, said: Said) -> None:
    Path(record.FILE_NAME).write_text('{"exercises": {"01-chain-grads": "pas')
    cell(BRANCH)
    text = said(check, "01-branch-grads")
    assert "✓ Passed" in text
    assert text.endswith(
        "hookwork-progress.json could not be read (line 1 is not JSON). It is now hookwork-progress.broken-1.json; "
        "nothing in it was lost. A new one was started.\n"
    )
    assert record.load_record().exercises == {"01-branch-grads": "passed"}


def test_a_folder_that_cannot_be_written_is_no_error(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_the_rules_can_be_read_where_there_is_no_file_beside_the_notebook(said: Said) -> None:
    text = said(rules)
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
