from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from graders.core.results import SubmissionStatus
from graders.marking.batch import Marking
from graders.marking.mark_submission import mark_submission
from graders.marking.questions import LessonQuestions, Questions
from graders.sandbox.outside.conversation import Probe
from graders.sandbox.outside.runner import BoxRunner, NoRunner, Stopped, StoppingRunner, Transcript
from graders.sandbox.outside.warm_process import WarmProcess
from graders.submissions.finding import Submission
from graders.verdict.scene_exercise import NotInTheBox
from graders.wire.limits import Limits
from tests.doubles import InProcessRunner
from tests.notebooks import BRANCH, LESSON, text
from tests.trouble import ctrl_c_interrupts


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A notebook with an answer."""
    path = tmp_path / "notebook.ipynb"
    path.write_text(text(BRANCH), encoding="utf-8")
    return path


def test_where_no_kernel_starts_only_the_first_notebook_is_tried_and_all_give_one_reason(
    box_modules: Path, warm: WarmProcess, file: Path
) -> None:
    marking = Marking(Questions(1), StoppingRunner(BoxRunner(box_modules, limits=Limits(descriptors=10), warm=warm)))
    found = [marking.result(Submission(name, LESSON, file)) for name in ("ann", "bob", "cy")]
    marking.close()
    assert {(result.status.value, result.graded) for result in found} == {("not-graded", False)}
    assert {exercise.status.value for exercise in found[0].exercises} == {"not-graded"}
    assert len({result.message for result in found}) == 1
    assert found[0].message.startswith("the process for the notebook did not start: open files: ")
    assert "Remedy: " in found[0].message
    assert [bool(result.sha256) for result in found] == [True, False, False]  # the others were not run


class Defective(Questions):
    """Questions of a lesson with an exercise whose scene is given what is not in the box."""

    def for_lesson(self, lesson: str, seed: int | None = None) -> LessonQuestions:
        raise NotInTheBox("exercise 01-a: its scene gets a function that is not in the box")


def test_a_defect_of_an_exercise_is_told_in_its_own_words_and_is_nobodys_zero(file: Path) -> None:
    result = mark_submission(Submission("ann", LESSON, file), Defective(1), NoRunner()).result
    assert (result.status, result.exercises) == (SubmissionStatus.NOT_GRADED, ())
    assert result.message == "exercise 01-a: its scene gets a function that is not in the box"


@dataclass
class HangingRunner(InProcessRunner):
    """Runs no notebook to its end; Ctrl+C comes after these seconds."""

    interrupts: Sequence[float] = ()
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        for seconds in self.interrupts:
            main = threading.main_thread().ident or 0
            threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGINT)).start()
        assert self.stopped.wait(20.0)
        raise Stopped("it was interrupted")

    def stop(self) -> None:
        self.stopped.set()


@pytest.mark.parametrize(("interrupts", "seconds"), [((0.5,), 0.2), ((0.5, 1.5), 15.0)])
def test_what_is_stopped_has_no_result_and_what_was_marked_has_one(
    interrupts: Sequence[float], seconds: float, file: Path
) -> None:
    marking = Marking(Questions(1), HangingRunner(interrupts=interrupts))
    assert marking.result(Submission("zoe", LESSON, None)).status is SubmissionStatus.MISSING
    started = time.monotonic()
    with ctrl_c_interrupts():
        with pytest.raises(KeyboardInterrupt):
            marking.start([Submission(name, LESSON, file) for name in ("ann", "bob")], lambda result: None)
        marking.stop(seconds)
    assert time.monotonic() - started < 10.0
    found = {result.student: (result.status.value, result.message) for result in marking.batch().submissions}
    assert found == {"ann": ("not-graded", "it was interrupted"), "zoe": ("missing", found["zoe"][1])}
