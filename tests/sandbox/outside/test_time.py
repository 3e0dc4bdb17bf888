"""One notebook has one budget of wall time, whatever it does."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from graders.core import course
from graders.core.transcript import read_transcript
from graders.marking.questions import LessonQuestions
from graders.sandbox.outside.conversation import SLACK_SECONDS
from graders.sandbox.outside.runner import BoxRunner, Stopped
from graders.sandbox.outside.warm_process import WarmProcess
from graders.verdict.judge_submission import judge_submission
from graders.wire.limits import Limits
from tests.notebooks import BRANCH, CHAIN, LESSON, PASSES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked")

SEED = 5
BUDGET = 8.0
LIMITS = Limits(notebook_seconds=BUDGET, cell_seconds=BUDGET, probe_seconds=10.0)
ENDING_SECONDS = 10.0
"""What it may take to end a box on a busy machine."""
WAIT = "import time\ndef {name}(*given):\n    time.sleep(60)"
FLOOD = """\
import os
for one in range(3, 64):
    try:
        os.set_blocking(one, False)
    except OSError:
        pass
while True:
    try:
        for one in range(3, 64):
            try:
                os.write(one, b"\\xff" * 65536)
            except OSError:
                pass
    except KeyboardInterrupt:
        pass
"""


def statuses(cells: list[str], box_modules: Path, warm: WarmProcess, limits: Limits = LIMITS) -> dict[str, str]:
    """What becomes of the exercises of lesson 1; fails where the notebook took longer than its budget."""
    asked = LessonQuestions.for_seed(course.lesson_exercises(LESSON), SEED)
    started = time.monotonic()
    frames = BoxRunner(box_modules, limits=limits, warm=warm).run(cells, asked.probes).frames
    assert time.monotonic() - started < limits.notebook_seconds + SLACK_SECONDS + ENDING_SECONDS
    run = read_transcript(frames)
    assert run.seconds < limits.notebook_seconds + SLACK_SECONDS + ENDING_SECONDS
    results = judge_submission(asked.exercises, asked.verdicts, cells, run)
    return {exercise.name: found.status.value for exercise, found in zip(asked.exercises, results)}


def test_exercises_that_do_not_end_leave_the_others_their_share(box_modules: Path, warm: WarmProcess) -> None:
    cells = [WAIT.format(name="branch_grads"), WAIT.format(name="chain_grads"), PASSES]
    assert statuses(cells, box_modules, warm) == {
        "branch_grads": "timed-out",
        "chain_grads": "timed-out",
        "per_pass_grads": "passed",
    }


@pytest.mark.slow  # clocks run out
@pytest.mark.parametrize("first", [True, False])
def test_writing_to_every_descriptor_takes_of_the_same_time(box_modules: Path, warm: WarmProcess, first: bool) -> None:
    cells = [FLOOD, BRANCH, CHAIN, PASSES] if first else [BRANCH, FLOOD, CHAIN, PASSES]
    found = statuses(cells, box_modules, warm)
    assert found["branch_grads"] != "passed" if first else found["branch_grads"] == "passed"
    assert found["per_pass_grads"] != "not-graded"


def test_a_runner_that_is_stopped_ends_what_runs_and_runs_nothing_more(box_modules: Path, warm: WarmProcess) -> None:
    runner = BoxRunner(box_modules, limits=LIMITS, warm=warm)
    threading.Timer(1.0, runner.at_pace(1.5).stop).start()
    started = time.monotonic()
    for cells in (["while True:\n    try:\n        while True: pass\n    except BaseException: pass"], ["1"]):
        with pytest.raises(Stopped, match="was interrupted before this notebook had finished"):
            runner.run(cells, [])
    assert time.monotonic() - started < BUDGET
