"""What a cell or a function costs that does not end, ends its process, or takes too much."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graders.core.results import SubmissionResult
from graders.core.transcript import read_transcript
from graders.marking.questions import LessonQuestions
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.warm_process import WarmProcess
from graders.verdict.judge_submission import judge_submission
from graders.wire.limits import MIB, Limits
from tests.notebooks import BRANCH, CHAIN, LESSON, PASSES
from tests.sandbox.outside.one_notebook import (
    FULL,
    IMPORT,
    QUESTIONS,
    SEED,
    SHORT,
    NotingRunner,
    given,
    message,
    of_one_case,
    results_of,
    verdicts,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and crashes are those of Linux")
TIGHT = Limits(memory=1200 * MIB)
LOOP = "while True:\n    pass\n"
SWALLOWING_LOOP = """\
import time
while True:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pass
"""


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
        "`chain_grads` went over a limit: the result is too large: more than 262144 bytes of tensors. A list in a "
        "default argument or a global grows from call to call."
    )


def peak_memory() -> int:
    """The peak resident memory of this process since it was last asked, in bytes."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    Path("/proc/self/clear_refs").write_text("5")
    return int(line.split()[1]) * 1024


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


@pytest.mark.slow
def test_cells_that_run_again_take_of_the_same_time(box_modules: Path, warm: WarmProcess) -> None:
    cells = ["import time\ntime.sleep(2)", "def branch_grads(w, x):\n    while True:\n        pass", CHAIN, PASSES]
    statuses = {}
    for seconds in (4, 40):
        runner = BoxRunner(box_modules, limits=Limits(notebook_seconds=seconds, probe_seconds=1), warm=warm, fork=False)
        results = results_of(cells, runner, of_one_case(LESSON))
        statuses[seconds] = [exercise.status.value for exercise in results]
    assert statuses == {4: ["timed-out"] * 3, 40: ["timed-out", "passed", "passed"]}


def test_a_notebook_that_takes_too_long_by_itself_is_run_once(box_modules: Path, warm: WarmProcess) -> None:
    runner = NotingRunner(box_modules, limits=SHORT, warm=warm)
    loop = "import time\ndef branch_grads(w, x):\n    time.sleep(60)"
    asked = LessonQuestions.for_seed(of_one_case(LESSON)[:1], SEED)
    assert read_transcript(runner.run([loop], asked.probes).frames).ended == "finished"
    assert len(vars(runner)["noted"]) == 1  # nothing stood still: it is its own doing, and takes its time but once
