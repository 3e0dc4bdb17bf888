"""What becomes of real notebooks, each run in a box of its own and judged."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graders.core import course
from graders.core.exercise import Exercise
from graders.core.results import ExerciseResult, SubmissionResult
from graders.core.transcript import read_transcript
from graders.marking.batch import Marking
from graders.marking.mark_submission import mark_submission
from graders.marking.questions import LessonQuestions, Questions
from graders.report import results_json
from graders.sandbox.outside import conversation
from graders.sandbox.outside.box_modules import box_modules_folder
from graders.sandbox.outside.box_process import Box, BoxTimeout
from graders.sandbox.outside.memory import process_tree
from graders.sandbox.outside.runner import BoxRunner, NoRunner
from graders.sandbox.outside.warm_process import WarmProcess
from graders.submissions.finding import Submission
from graders.verdict.judge_submission import Verdicts, judge_submission
from graders.wire.frames import Frame
from graders.wire.limits import MIB, Limits
from tests import notebooks
from tests.answers import answers_of
from tests.notebooks import BRANCH, CHAIN, LESSON, PASSES

LESSON_1 = answers_of("01")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and crashes are those of Linux")

SEED = 20
QUESTIONS = Questions(SEED)
AMPLE = Limits()
"""For notebooks that come to an end by themselves: no busy machine makes them look slow."""
SHORT = Limits(cell_seconds=2, probe_seconds=1.5)
"""For notebooks that have to be stopped."""
TIGHT = Limits(memory=1200 * MIB)

FULL = {"01-branch-grads": ("passed", 1), "01-chain-grads": ("passed", 2), "01-per-pass-grads": ("passed", 1)}
IMPORT = "import torch\nfrom graders import check, hint"
LOOP = "while True:\n    pass\n"
SWALLOWING_LOOP = """\
import time
while True:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pass
"""


# A notebook for each test, given above it. All that this process will need are started at once.


@dataclasses.dataclass(frozen=True)
class Given:
    """The file of a notebook, and the limits under which it runs."""

    text: str
    limits: Limits
    lesson: str
    started: bool


def given(
    *cells: str, limits: Limits = AMPLE, lesson: str = LESSON, text: str | None = None, started: bool = False
) -> Callable[[Callable[..., None]], Any]:
    """Give the result of a notebook with these code cells to a test, as its argument `found`.

    Its box is forked from the warm process, unless it is to be `started`.
    """

    def note(test: Any) -> Any:
        test.given = Given(notebooks.text(*cells) if text is None else text, limits, lesson, started)
        return test

    return note


@pytest.fixture(scope="module")
def mark(
    request: pytest.FixtureRequest, box_modules: Path, warm: WarmProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, Given], SubmissionResult]]:
    """Verdicts the notebook of a test, two at a time."""
    folder = tmp_path_factory.mktemp("notebooks")
    pool = ThreadPoolExecutor(2)
    futures: dict[str, Future[SubmissionResult]] = {}

    def run(name: str, notebook: Given) -> SubmissionResult:
        file = folder / name / f"{notebook.lesson}.ipynb"
        file.parent.mkdir()
        file.write_text(notebook.text, encoding="utf-8")
        runner = BoxRunner(box_modules, limits=notebook.limits, warm=None if notebook.started else warm)
        return mark_submission(Submission(name, notebook.lesson, file), QUESTIONS, runner).result

    def start(name: str, notebook: Given) -> Future[SubmissionResult]:
        if name not in futures:
            futures[name] = pool.submit(run, name, notebook)
        return futures[name]

    if not hasattr(request.config, "workerinput"):  # a worker of pytest-xdist does not know what it will run
        for item in request.session.items:
            if isinstance(item, pytest.Function) and hasattr(item.function, "given"):
                start(item.name, item.function.given)
    yield lambda name, notebook: start(name, notebook).result()
    pool.shutdown(cancel_futures=True)


@pytest.fixture
def found(request: pytest.FixtureRequest, mark: Callable[[str, Given], SubmissionResult]) -> SubmissionResult:
    """The result of the notebook that was given to the test."""
    return mark(request.node.name, request.function.given)


def verdicts(result: SubmissionResult) -> dict[str, tuple[str, float]]:
    """Status and points of each exercise of a submission that was graded."""
    assert result.status.value == "graded"
    assert result.score == sum(exercise.score for exercise in result.exercises)
    assert (result.max_score, len(result.sha256)) == (sum(exercise.max_score for exercise in result.exercises), 64)
    return {exercise.key: (exercise.status.value, exercise.score) for exercise in result.exercises}


def message(result: SubmissionResult, key: str) -> str:
    """The message for the learner about one exercise."""
    (text,) = [exercise.message for exercise in result.exercises if exercise.key == key]
    return text


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
    assert text.startswith(
        "`branch_grads` raised NameError: name 'torch' is not defined at line 2 of its cell: "
        "zero = torch.zeros_like(w). The call was branch_grads(tensor(["
    )
    assert text.endswith(").")
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


# Cells and functions that do not end.


@given(
    IMPORT, "import time\ndef branch_grads(w, x):\n    time.sleep(60)", LOOP + CHAIN, SWALLOWING_LOOP + PASSES,
    limits=SHORT,
)  # fmt: skip
def test_what_does_not_end_is_timed_out_even_if_it_swallows_interrupts(found: SubmissionResult) -> None:
    assert verdicts(found) == dict.fromkeys(FULL, ("timed-out", 0))
    still = "did not finish: the cell was still running after 2 seconds"
    assert message(found, "01-branch-grads") == "`branch_grads` did not finish: no result after 1.5 seconds."
    assert message(found, "01-chain-grads") == f"`chain_grads` was not defined, because code cell 3 {still}."
    assert f"code cell 4 {still}" in message(found, "01-per-pass-grads")


@given(
    BRANCH, "import time\ntime.sleep(60)", "time.sleep(60)", CHAIN, PASSES,
    limits=Limits(cell_seconds=1.5, notebook_seconds=2.5),
)  # fmt: skip
def test_a_notebook_that_takes_too_long_keeps_what_it_had(found: SubmissionResult) -> None:
    late = ("timed-out", 0)
    assert verdicts(found) == FULL | {"01-chain-grads": late, "01-per-pass-grads": late}
    assert "code cell 4 did not finish: the notebook took more than 2.5 seconds" in message(found, "01-chain-grads")


# Cells and functions that take the process with them.


@given(IMPORT, BRANCH, "import os\nos._exit(3)\n" + CHAIN, "import ctypes\nctypes.string_at(0)\n" + PASSES)
def test_a_cell_that_ends_the_process_costs_its_cell_alone(found: SubmissionResult) -> None:
    lost = ("crashed", 0)
    assert verdicts(found) == FULL | {"01-chain-grads": lost, "01-per-pass-grads": lost}
    assert message(found, "01-chain-grads") == (
        "`chain_grads` was not defined, because code cell 3 crashed: its Python process ended (exit code 3)."
    )
    assert "code cell 4 crashed: its Python process ended (signal SIGSEGV)" in message(found, "01-per-pass-grads")


@given(
    IMPORT, BRANCH, "import os\ndef chain_grads(fns, x):\n    os._exit(0)",
    "import ctypes\ndef per_pass_grads(w, fns):\n    ctypes.string_at(0)",
)  # fmt: skip
def test_a_function_that_ends_the_process_costs_its_exercise_alone(found: SubmissionResult) -> None:
    lost = ("crashed", 0)
    assert verdicts(found) == FULL | {"01-chain-grads": lost, "01-per-pass-grads": lost}
    assert message(found, "01-chain-grads") == (
        "`chain_grads` gave no result: the process that ran it exited with code 0."
    )
    assert "the process that ran it was ended by signal SIGSEGV" in message(found, "01-per-pass-grads")


@given(IMPORT, BRANCH, *["import os\nos._exit(1)"] * 4, CHAIN, PASSES)
def test_a_notebook_that_keeps_crashing_keeps_what_it_had(found: SubmissionResult) -> None:
    skipped = ("not-attempted", 0)
    assert verdicts(found) == FULL | {"01-chain-grads": skipped, "01-per-pass-grads": skipped}
    assert message(found, "01-chain-grads") == (
        "`chain_grads` was not defined, because code cell 7 was not run, because earlier cells kept crashing."
    )


@given(IMPORT, BRANCH, "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)", CHAIN, PASSES)
def test_a_cell_that_kills_the_box_costs_what_follows(found: SubmissionResult) -> None:
    lost = ("crashed", 0)
    assert verdicts(found) == FULL | {"01-chain-grads": lost, "01-per-pass-grads": lost}
    assert found.message == "the process that ran the notebook ended unexpectedly"


# Limits.


@given(
    IMPORT, BRANCH, "def chain_grads(fns, x):\n    return bytearray(2 << 30)", "big = torch.ones(1 << 30)\n" + PASSES,
    limits=TIGHT,
)  # fmt: skip
def test_memory_over_the_limit_costs_its_exercise_or_its_cell_alone(found: SubmissionResult) -> None:
    lost = ("over-limit", 0)
    assert verdicts(found) == FULL | {"01-chain-grads": lost, "01-per-pass-grads": lost}
    assert message(found, "01-chain-grads").startswith("`chain_grads` went over a limit: memory: ")
    assert "code cell 4 went over a limit: memory: RuntimeError: " in message(found, "01-per-pass-grads")


@given(IMPORT, BRANCH, "def chain_grads(fns, x):\n    return torch.ones(10_000_000)", PASSES)
def test_a_result_that_is_too_large_costs_its_exercise_alone(found: SubmissionResult) -> None:
    assert verdicts(found) == FULL | {"01-chain-grads": ("over-limit", 0)}
    assert message(found, "01-chain-grads") == (
        "`chain_grads` went over a limit: the result is too large: more than 262144 bytes of tensors."
    )


@given(BRANCH, limits=Limits(descriptors=10))
def test_a_kernel_that_cannot_start_is_never_the_learners_zero(found: SubmissionResult) -> None:
    assert found.status.value == "not-graded"
    assert {exercise.status.value for exercise in found.exercises} == {"not-graded"}
    assert not found.graded
    assert found.message.startswith("the process for the notebook did not start: open files: ")
    assert "Remedy: " in found.message


def peak_memory() -> int:
    """The peak resident memory of this process since it was last asked, in bytes."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    Path("/proc/self/clear_refs").write_text("5")
    return int(line.split()[1]) * 1024


@given(IMPORT, BRANCH, "while True:\n    print('x' * 10_000)\n" + CHAIN, PASSES, limits=Limits(memory=300 * MIB))
def test_printing_without_end_costs_its_cell_and_little_memory(found: SubmissionResult) -> None:
    assert verdicts(found) == FULL | {"01-chain-grads": ("over-limit", 0)}
    assert "over a limit: output: the notebook wrote more than 8 MiB of output" in message(found, "01-chain-grads")


def test_a_hundred_megabytes_of_output_cost_its_cell_and_no_memory_here(box_modules: Path, warm: WarmProcess) -> None:
    cells = [IMPORT, BRANCH, "for _ in range(100):\n    print('x' * (1 << 20))\n" + CHAIN, PASSES]
    asked = QUESTIONS.for_lesson(LESSON)
    peak_memory()
    before = peak_memory()
    transcript = BoxRunner(box_modules, warm=warm).run(cells, asked.probes)
    assert peak_memory() - before < 50e6
    results = judge_submission(asked.exercises, asked.verdicts, cells, read_transcript(transcript.frames))
    assert {exercise.key: (exercise.status.value, exercise.score) for exercise in results} == FULL | {
        "01-chain-grads": ("over-limit", 0)
    }
    (lost,) = (result for result in results if result.key == "01-chain-grads")
    assert lost.message == (
        "`chain_grads` was not defined, because code cell 3 went over a limit: "
        "output: the notebook wrote more than 8 MiB of output."
    )


# Files of every kind.


@given(
    text=json.dumps({
        "nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""},
        "worksheets": [{"cells": [{"cell_type": "code", "input": [IMPORT], "language": "python", "outputs": []},
                                  *({"cell_type": "code", "input": part.splitlines(keepends=True)}
                                    for part in (BRANCH, CHAIN, PASSES))]}],
    })
)  # fmt: skip
def test_a_notebook_of_format_3_works(found: SubmissionResult) -> None:
    assert verdicts(found) == FULL


@given(
    text=notebooks.text(
        IMPORT, BRANCH, CHAIN, PASSES,
        metadata={"kernelspec": {"name": "bash", "display_name": "Bash", "language": "bash"}},
    )
)  # fmt: skip
def test_a_notebook_of_another_kernel_is_run_as_python(found: SubmissionResult) -> None:
    assert verdicts(found) == FULL


@pytest.fixture
def unreadable() -> Callable[[Path], str]:
    """The message for a file that cannot be read as a notebook."""

    def read(file: Path) -> str:
        found = mark_submission(Submission("ann", LESSON, file), QUESTIONS, NoRunner("D")).result
        assert (found.status.value, found.score, found.max_score, found.exercises) == ("unreadable", 0, 4, ())
        assert found.graded
        return found.message

    return read


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"import torch\n", "The file is not a notebook: it is not JSON (line 1). Hand in the .ipynb file"),
        (b"", "The file is empty. Hand in the saved notebook (.ipynb)."),
        (notebooks.text("x = 1").encode("utf-16"), "The file is not UTF-8 text (byte 0)."),
        (notebooks.text("x = 1", nbformat=5).encode(), "The notebook has nbformat 5; 3 and 4 can be read."),
    ],
)
def test_a_file_that_is_no_notebook_is_unreadable(
    tmp_path: Path, unreadable: Callable[[Path], str], content: bytes, text: str
) -> None:
    file = tmp_path / "x.ipynb"
    file.write_bytes(content)
    assert text in unreadable(file)


def test_what_is_no_ordinary_file_is_unreadable_and_not_waited_for(
    tmp_path: Path, unreadable: Callable[[Path], str]
) -> None:
    folder, link, pipe = (tmp_path / f"{name}.ipynb" for name in ("folder", "link", "pipe"))
    folder.mkdir()
    (tmp_path / "other").write_text(notebooks.text("x = 1"))
    link.symlink_to(tmp_path / "other")
    os.mkfifo(pipe)
    assert unreadable(folder) == "The file cannot be read: it is not an ordinary file. Hand in the notebook itself."
    assert unreadable(link) == ("The file cannot be read: it is a link to another file. Hand in the notebook itself.")
    assert unreadable(pipe) == "The file cannot be read: it is not an ordinary file. Hand in the notebook itself."


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


def test_a_failure_of_the_graders_is_never_the_learners_zero(tmp_path: Path) -> None:
    (tmp_path / "x.ipynb").write_text(notebooks.text(BRANCH))
    runner = BoxRunner(tmp_path / "no-modules")
    found = mark_submission(Submission("ann", LESSON, tmp_path / "x.ipynb"), QUESTIONS, runner).result
    assert (found.status.value, found.graded) == ("not-graded", False)
    assert found.message.startswith("the process for the notebook did not start")


def test_many_notebooks_are_marked_at_once_and_each_only_once(tmp_path: Path) -> None:
    submissions = []
    for name in ("ann", "bob", "cy"):
        (tmp_path / f"{name}.ipynb").write_text("not a notebook")
        submissions.append(Submission(name, LESSON, tmp_path / f"{name}.ipynb"))
    marking = Marking(QUESTIONS, NoRunner(), jobs=2)
    done: list[SubmissionResult] = []
    marking.start([*submissions, submissions[0]], done.append)
    marking.close()
    assert sorted(result.student for result in done) == ["ann", "bob", "cy"]
    assert [result.student for result in marking.batch().submissions] == ["ann", "bob", "cy"]
    assert marking.batch().seed == SEED


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


def of_one_case(lesson: str) -> list[Exercise]:
    """The exercises of a lesson, each with its first case alone."""
    return [dataclasses.replace(exercise, cases=exercise.cases[:1]) for exercise in course.lesson_exercises(lesson)]


def results_of(cells: list[str], runner: BoxRunner, exercises: list[Exercise]) -> list[ExerciseResult]:
    """The results of a notebook."""
    asked = LessonQuestions.for_seed(exercises, SEED)
    transcript = runner.run(cells, asked.probes)
    return judge_submission(asked.exercises, asked.verdicts, cells, read_transcript(transcript.frames))


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


@pytest.mark.slow
def test_cells_that_run_again_take_of_the_same_time(box_modules: Path, warm: WarmProcess) -> None:
    cells = ["import time\ntime.sleep(2)", "def branch_grads(w, x):\n    while True:\n        pass", CHAIN, PASSES]
    statuses = {}
    for seconds in (4, 40):
        runner = BoxRunner(box_modules, limits=Limits(notebook_seconds=seconds, probe_seconds=1), warm=warm, fork=False)
        results = results_of(cells, runner, of_one_case(LESSON))
        statuses[seconds] = [exercise.status.value for exercise in results]
    assert statuses == {4: ["timed-out"] * 3, 40: ["timed-out", "passed", "passed"]}


def test_an_empty_cell_does_not_get_the_error_of_the_cell_before(box_modules: Path, warm: WarmProcess) -> None:
    run = read_transcript(BoxRunner(box_modules, warm=warm).run(["1 / 0", "", " \n", "x = 1"], []).frames)
    assert [(cell.index, cell.status) for cell in run.cells] == [(0, "raised"), (1, "ok"), (2, "ok"), (3, "ok")]


# A box that breaks the protocol. In a started one the kernel's parent has the pipe, and its number in its command line.

FORGE = """\
import os
box = os.getppid()
out = open(f"/proc/{box}/cmdline").read().split("\\0")[-3]
with open(f"/proc/{box}/fd/{out}", "wb", buffering=0) as pipe:
    pipe.write(FORGED)
"""


@given(IMPORT, FORGE.replace("FORGED", repr(b"\xff" * 64)), BRANCH, CHAIN, PASSES, started=True)
def test_bytes_that_are_no_frame_are_suspect(found: SubmissionResult) -> None:
    assert verdicts(found) == dict.fromkeys(FULL, ("suspect", 0))
    assert message(found, "01-branch-grads").startswith(
        "The answer did not follow the protocol (a frame of 4294967295 + 4294967295 bytes is larger than allowed)."
    )


@pytest.mark.parametrize(
    "answers",
    [
        [Frame({"type": "seen", "tree": None, "nonce": "forged"})],
        [Frame({"type": "raised", "status": "passed", "nonce": "n0"})],
        [Frame({"type": "seen", "tree": {"t": ["float32", [8], 0, False, "tensor"]}, "nonce": "n0"})],
    ],
)
def test_answers_that_break_the_protocol_are_suspect(answers: list[Frame]) -> None:
    exercises = of_one_case(LESSON)[:1]
    asked = Frame({"type": "asked", "key": "01-branch-grads", "case": 0, "cells": 1, "nonce": "n0"})
    ended = Frame({"type": "ended", "how": "finished", "message": "", "seconds": 1.0})
    run = read_transcript([Frame({"type": "ready"}), Frame({"type": "cells-done"}), asked, *answers, ended])
    (result,) = judge_submission(
        exercises, Verdicts({exercise.key: exercise.draws(SEED) for exercise in exercises}), [BRANCH], run
    )
    assert (result.status.value, result.score) == ("suspect", 0)
    assert "An instructor should look at it." in result.message


# Nothing survives.


def processes_of(box_modules: Path) -> list[int]:
    """The ids of living processes that were started for a box with these modules."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and str(box_modules).encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it ended meanwhile, or is somebody else's
            continue
    return [pid for pid in found if pid != os.getpid()]


def survivors(box_modules: Path) -> list[int]:
    """What is left of the processes of boxes after a moment in which the killed may die; ended here at last."""
    for _ in range(100):
        if not (left := processes_of(box_modules)):
            return []
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, 9)
    return left


class NotingRunner(BoxRunner):
    """Notes the boxes in which it runs notebooks."""

    def box(self, cells: Sequence[str] = ()) -> Box:
        made = super().box(cells)
        vars(self).setdefault("noted", []).append(made)
        return made


@pytest.mark.slow
def test_no_process_and_no_folder_survive_a_run() -> None:
    cells = [
        "import subprocess\nquiet = subprocess.Popen(['sleep', '60'])",
        "import os\nif os.fork() == 0:\n    import time\n    time.sleep(60)",
        "os.makedirs('deep/' * 50); open('deep/locked', 'w').close(); os.chmod('deep', 0)",
        "import os\nos._exit(1)",
        "def branch_grads(w, x):\n    subprocess.Popen(['sleep', '60'])\n    while True:\n        pass",
        CHAIN,
        PASSES,
    ]
    with box_modules_folder() as box_modules:
        asked, runner = (
            LessonQuestions.for_seed(of_one_case(LESSON), SEED),
            NotingRunner(box_modules, limits=Limits(probe_seconds=4)),
        )
        run = read_transcript(runner.run(cells, asked.probes).frames)
        results = judge_submission(asked.exercises, asked.verdicts, cells, run)
        assert sorted(result.status.value for result in results) == ["passed", "passed", "timed-out"]
        noted = vars(runner)["noted"]
        assert len(noted) == 2  # a cell crashed, which might have been the machine's doing
        for box in noted:
            assert box.folder.name[:13] == "hookwork-box-"
            assert not box.folder.exists()
        assert survivors(box_modules) == []


class KillingRunner(NotingRunner):
    """Kills the kernel of the first box before anything of the notebook has run."""

    signal = signal.SIGKILL

    def box(self, cells: Sequence[str] = ()) -> Box:
        made = super().box(cells)
        if len(vars(self)["noted"]) == 1:
            made.watch_memory = lambda: os.kill(max(process_tree(made._process.pid)), self.signal)  # type: ignore[method-assign]
        return made


class StoppingRunner(KillingRunner):
    """Stops it."""

    signal = signal.SIGSTOP


@pytest.mark.parametrize("kind", [KillingRunner, StoppingRunner])
def test_a_kernel_that_somebody_else_ends_or_stops_costs_nothing(
    kind: type[KillingRunner], box_modules: Path, warm: WarmProcess
) -> None:
    cells = [IMPORT, BRANCH, CHAIN, PASSES]
    runner = kind(box_modules, limits=Limits(cell_seconds=4), warm=warm)
    asked = LessonQuestions.for_seed(of_one_case(LESSON), SEED)
    run = read_transcript(runner.run(cells, asked.probes).frames)
    results = judge_submission(asked.exercises, asked.verdicts, cells, run)
    assert [result.status.value for result in results] == ["passed"] * 3
    assert len(vars(runner)["noted"]) == 2


def test_a_notebook_that_takes_too_long_by_itself_is_run_once(box_modules: Path, warm: WarmProcess) -> None:
    runner = NotingRunner(box_modules, limits=SHORT, warm=warm)
    loop = "import time\ndef branch_grads(w, x):\n    time.sleep(60)"
    asked = LessonQuestions.for_seed(of_one_case(LESSON)[:1], SEED)
    assert read_transcript(runner.run([loop], asked.probes).frames).ended == "finished"
    assert len(vars(runner)["noted"]) == 1  # nothing stood still: it is its own doing, and takes its time but once


def end_a_box_while_its_probe_hangs(box_modules: Path) -> None:
    """Start an endless probe, and end its box when its process is there. Raises `BoxTimeout`."""
    probes = LessonQuestions.for_seed(of_one_case(LESSON)[:1], SEED).probes
    transcript: list[Frame] = []
    with Box(box_modules) as box:

        def receive(deadline: float) -> Frame:
            if transcript[-1:] and transcript[-1].type == "asked":
                for _ in range(600):
                    if len(processes_of(box_modules)) >= 3:  # the box, its kernel, and the probe
                        break
                    time.sleep(0.05)
                deadline = time.monotonic()
            return Box.receive(box, deadline)

        box.receive = receive  # type: ignore[method-assign]
        cells = ["def branch_grads(w, x):\n    while True:\n        pass"]
        conversation._Conversation(box, AMPLE, True, conversation.SLACK_SECONDS, transcript).run_and_ask(cells, probes)


def test_a_probe_that_hangs_does_not_survive_a_box_that_is_ended_early() -> None:
    with box_modules_folder() as box_modules:
        with pytest.raises(BoxTimeout):
            end_a_box_while_its_probe_hangs(box_modules)
        assert survivors(box_modules) == []
