"""What is left of a box, and what becomes of one that somebody else ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from graders.core.results import SubmissionResult
from graders.core.transcript import read_transcript
from graders.marking.batch import Marking
from graders.marking.questions import LessonQuestions
from graders.sandbox.outside import conversation
from graders.sandbox.outside.box_modules import box_modules_folder
from graders.sandbox.outside.box_process import Box, BoxTimeout
from graders.sandbox.outside.memory import process_tree
from graders.sandbox.outside.runner import NoRunner
from graders.sandbox.outside.warm_process import WarmProcess
from graders.submissions.finding import Submission
from graders.verdict.judge_submission import Verdicts, judge_submission
from graders.wire.frames import Frame
from graders.wire.limits import Limits
from tests.notebooks import BRANCH, CHAIN, LESSON, PASSES
from tests.sandbox.outside.one_notebook import (
    AMPLE,
    FULL,
    IMPORT,
    QUESTIONS,
    SEED,
    NotingRunner,
    given,
    message,
    of_one_case,
    processes_of,
    results_of,
    verdicts,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and crashes are those of Linux")


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


def survivors(box_modules: Path) -> list[int]:
    """What is left of the processes of boxes after a moment in which the killed may die; ended here at last."""
    for _ in range(100):
        if not (left := processes_of(box_modules)):
            return []
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, 9)
    return left


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
        runner = NotingRunner(box_modules, limits=Limits(probe_seconds=4))
        results = results_of(cells, runner, of_one_case(LESSON))
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
    results = results_of(cells, runner, of_one_case(LESSON))
    assert [result.status.value for result in results] == ["passed"] * 3
    assert len(vars(runner)["noted"]) == 2


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
