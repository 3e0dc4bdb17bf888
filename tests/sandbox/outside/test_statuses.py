"""What becomes of real notebooks, each run in a box of its own and judged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graders.core import course
from graders.core.results import SubmissionResult
from graders.core.transcript import read_transcript
from graders.marking.batch import Marking
from graders.marking.mark_submission import mark_submission
from graders.report import results_json
from graders.sandbox.outside.runner import BoxRunner, NoRunner
from graders.sandbox.outside.warm_process import WarmProcess
from graders.submissions.finding import Submission
from tests.answers import answers_of
from tests.notebooks import BRANCH, CHAIN, LESSON, LESSON_1, PASSES
from tests.sandbox.outside.one_notebook import (
    AMPLE,
    FULL,
    IMPORT,
    QUESTIONS,
    SHORT,
    given,
    message,
    of_one_case,
    results_of,
    verdicts,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and crashes are those of Linux")


# The plain cases.


@given(IMPORT, BRANCH, 'check("01-branch-grads")', CHAIN, "hint('01-chain-grads')", PASSES)
def test_right_answers_get_full_marks(found: SubmissionResult) -> None:
    assert verdicts(found) == FULL
    assert found.score == 4
    assert (found.message, found.isolation, found.lesson) == ("", "D", LESSON)
    assert all(
        check.passed and check.score == check.max_score for exercise in found.exercises for check in exercise.checks
    )
    assert [len(exercise.checks) for exercise in found.exercises] == [
        len(exercise.checks) for exercise in course.lesson_exercises(LESSON)
    ]


@given(
    IMPORT,
    "def branch_grads(w, x):\n    # your answer\n    raise NotImplementedError",
    LESSON_1.wrong["01-chain-grads"]["reversed-list"],
    PASSES,
)
def test_a_wrong_answer_is_wrong_and_its_mistake_is_named_and_a_stub_is_not_attempted(found: SubmissionResult) -> None:
    assert verdicts(found) == FULL | {"01-branch-grads": ("not-attempted", 0), "01-chain-grads": ("wrong", 0)}
    assert message(found, "01-branch-grads") == "`branch_grads` is not attempted yet."
    assert found.exercises[2].mistake == "reversed-list"
    assert "from the last step to the first" in message(found, "01-chain-grads")


@given(IMPORT, BRANCH, LESSON_1.wrong["01-branch-grads"]["values-not-gradients"], PASSES)
def test_of_two_answers_the_last_counts_also_when_it_is_wrong_and_a_deleted_one_is_not_attempted(
    found: SubmissionResult,
) -> None:
    assert verdicts(found) == FULL | {"01-branch-grads": ("wrong", 0), "01-chain-grads": ("not-attempted", 0)}
    assert found.exercises[0].mistake == "values-not-gradients"
    assert message(found, "01-chain-grads") == (
        "`chain_grads` is not attempted yet: the notebook defines no `chain_grads`."
    )


@given(
    PASSES, CHAIN, "1 / 0", LESSON_1.wrong["01-branch-grads"]["values-not-gradients"],
    "import matplotlib.pyplot as plt\nfor _ in range(30):\n    plt.figure()\n    plt.plot([1, 2])\nplt.show()\n"
    + BRANCH + "\nbranch_grads(1, 2)",
    IMPORT, "raise SystemExit",
)  # fmt: skip
def test_the_order_of_cells_earlier_answers_figures_and_exceptions_elsewhere_cost_nothing(
    found: SubmissionResult,
) -> None:
    assert verdicts(found) == FULL


@given(
    "def branch_grads(w, x):\n    zero = torch.zeros_like(w)\n    return {'w': zero}",
    "x = 3",
    "1 / 0\n" + CHAIN,
    PASSES,
)
def test_a_deleted_import_costs_its_answer_and_an_exception_the_answer_below_it(found: SubmissionResult) -> None:
    assert verdicts(found) == FULL | {"01-branch-grads": ("raised", 0), "01-chain-grads": ("not-attempted", 0)}
    text = message(found, "01-branch-grads")
    assert text.startswith("Python knows nothing of that name there: is it spelled as where it was made, or imported?")
    assert text.endswith("(NameError: name 'torch' is not defined)")
    assert message(found, "01-chain-grads") == (
        "`chain_grads` was not defined, because code cell 3 failed with ZeroDivisionError: division by zero."
    )


# Cells that fail.


@given(
    IMPORT,
    BRANCH.replace("):", ")", 1),
    "answer = input('your name? ')\n" + CHAIN,
    "import sys\nsys.exit(0)\n" + PASSES,
    "later = 1",
)
def test_a_syntax_error_input_and_sys_exit_cost_their_cells_alone(found: SubmissionResult) -> None:
    assert verdicts(found) == dict.fromkeys(FULL, ("not-attempted", 0)) | {"01-branch-grads": ("syntax-error", 0)}
    for key, told in {
        "01-branch-grads": "`branch_grads` was not defined, because code cell 2 failed with SyntaxError: ",
        "01-chain-grads": "code cell 3 failed with StdinNotImplementedError",
        "01-per-pass-grads": "code cell 4 failed with SystemExit: 0",
    }.items():
        assert told in message(found, key)


@given(
    IMPORT, BRANCH, "def chain_grads(fns, x):\n    return [input()]",
    "import sys\ndef per_pass_grads(w, fns):\n    sys.exit(0)",
)  # fmt: skip
def test_input_in_a_function_is_refused_at_once_and_sys_exit_is_an_exception(found: SubmissionResult) -> None:
    raised = ("raised", 0)
    assert verdicts(found) == FULL | {"01-chain-grads": raised, "01-per-pass-grads": raised}
    assert "`chain_grads` raised EOFError: EOF when reading a line" in message(found, "01-chain-grads")
    assert message(found, "01-per-pass-grads").startswith(
        "`per_pass_grads` raised SystemExit: 0 at line 3 of its cell: sys.exit(0). The call was per_pass_grads("
    )


@given(IMPORT, BRANCH, CHAIN, PASSES, "def chain_grads(fns, x):\n    raise NotImplementedError")
def test_an_untouched_copy_below_an_answer_takes_nothing_away(found: SubmissionResult) -> None:
    assert verdicts(found) == FULL
    assert [(exercise.cell, exercise.note) for exercise in found.exercises] == [
        (2, ""),
        (4, ""),
        (3, "The answer in code cell 3 counts. Code cell 5 is an untouched copy of the exercise, and was left out."),
    ]


# Magics that work elsewhere.

MAGICS = """\
%conda install -y numpy
%mamba install numpy
%micromamba install numpy
%matplotlib widget
%load_ext no_such_extension
%no_such_magic
used = %memit sum([1])
%run no_such_notebook.ipynb
from_it(used)
if True:
    %conda list
    from torch import nn
try:
    %matplotlib widget
except Exception:
    rescued = nn.Linear
import torch"""


@given(MAGICS, "%%memit\n" + BRANCH, "%wandb login\n" + CHAIN, "rescued\n" + PASSES)
def test_a_magic_that_fails_costs_its_line_alone(found: SubmissionResult) -> None:
    assert verdicts(found) == FULL


@given(
    IMPORT, BRANCH, "%conda list\n1 / 0\n" + CHAIN, "def per_pass_grads(p, losses):\n    %no_such_magic\n    return []"
)
def test_beside_a_magic_other_errors_cost_what_they_cost(found: SubmissionResult) -> None:
    lost = {"01-chain-grads": ("not-attempted", 0), "01-per-pass-grads": ("raised", 0)}
    assert verdicts(found) == FULL | lost
    assert message(found, "01-chain-grads").endswith("; ZeroDivisionError: division by zero.")
    assert "raised UsageError: Line magic function `%no_such_magic` not found" in message(found, "01-per-pass-grads")


# Files of every kind.


def test_no_file_is_missing() -> None:
    found = mark_submission(Submission("ann", LESSON, None), QUESTIONS, NoRunner()).result
    assert (found.status.value, found.score, found.file) == ("missing", 0, "")
    assert found.message == "No notebook was handed in for this lesson."


def test_a_name_that_is_not_utf_8_can_be_reported() -> None:
    marking = Marking(QUESTIONS, NoRunner())
    found = marking.result(Submission("jos\udce9", LESSON, Path("class/jos\udce9/x.ipynb")))
    marking.close()
    assert (found.student, found.file, found.status.value) == ("jos\ufffd", "class/jos\ufffd/x.ipynb", "unreadable")
    assert '"student": "jos\ufffd"'.encode() in results_json.render(marking.batch()).encode()


# State that a notebook leaves behind, and platforms without fork.

ODD_STATE = [
    "import sys, warnings\nimport torch\nfrom torch import nn",
    "torch.set_default_dtype(torch.float64)",
    "torch.set_grad_enabled(False)",
    "nn.modules.module.register_module_forward_hook(lambda module, args, output: output * 0)",
    "nn.modules.module.register_module_full_backward_hook(lambda *args: 1 / 0)",
    "torch.set_num_threads(4)\ntorch.ones(1 << 22).sum()",
    "torch.manual_seed(3)",
    "sys.stdout = sys.stderr = None",
    "warnings.simplefilter('error')",
]
LESSON_2 = "02_watching_gradients"
ANSWERS_2 = [answers[0] for answers in answers_of("02").right.values()]


@given(*ODD_STATE, *ANSWERS_2, lesson=LESSON_2)
def test_state_that_is_left_behind_decides_over_no_answer(found: SubmissionResult) -> None:
    assert set(verdicts(found).values()) <= {("passed", 1), ("passed", 2)}
    assert found.score == found.max_score == sum(exercise.points for exercise in course.lesson_exercises(LESSON_2))


# Here the probes run in the kernel itself; the kernel is forked all the same, to save the time of a start.


def test_results_without_fork_are_the_same(box_modules: Path, warm: WarmProcess) -> None:
    endless = "import time\ndef branch_grads(w, x):\n    time.sleep(60)"
    wrong = LESSON_1.wrong["01-chain-grads"]["reversed-list"]
    exercises = of_one_case(LESSON)
    with_fork, without = (
        results_of([endless, wrong, PASSES], BoxRunner(box_modules, limits=SHORT, warm=warm, fork=fork), exercises)
        for fork in (True, False)
    )
    assert without == with_fork
    assert {exercise.key: exercise.status.value for exercise in without} == {
        "01-branch-grads": "timed-out",
        "01-chain-grads": "wrong",
        "01-per-pass-grads": "passed",
    }


def test_state_that_is_left_behind_decides_over_no_answer_without_fork_either(
    box_modules: Path, warm: WarmProcess
) -> None:
    runner = BoxRunner(box_modules, limits=AMPLE, warm=warm, fork=False)
    results = results_of([*ODD_STATE, *ANSWERS_2], runner, list(course.lesson_exercises(LESSON_2)))
    assert [exercise.status.value for exercise in results] == ["passed"] * len(ANSWERS_2)


def test_an_empty_cell_does_not_get_the_error_of_the_cell_before(box_modules: Path, warm: WarmProcess) -> None:
    run = read_transcript(BoxRunner(box_modules, warm=warm).run(["1 / 0", "", " \n", "x = 1"], []).frames)
    assert [(cell.index, cell.status) for cell in run.cells] == [(0, "raised"), (1, "ok"), (2, "ok"), (3, "ok")]
