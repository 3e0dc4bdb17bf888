"""The control: a notebook of our own with known results, marked before, during and after the notebooks of a class.

One of its answers is right and one is wrong. If either gets another verdict, the machine or the graders are at fault,
and no run counts that came after the last good control. The time the control takes shows how fast the machine is.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from graders.core.results import Status
from graders.core.transcript import read_transcript
from graders.marking.control_exercise import BAD_EXERCISE, GOOD_EXERCISE
from graders.marking.questions import LessonQuestions
from graders.sandbox.outside.conversation import Probe
from graders.sandbox.outside.runner import Runner, RunsBetweenControls, Stopped, Transcript, WrappedRunner
from graders.verdict.judge_submission import judge_submission

CONTROL_EVERY = 64
"""The number of runs between two controls."""
NOMINAL_SECONDS = {"forked": 0.6, "started": 3.0}
"""The seconds that the control takes in a forked and in a freshly started box, on the machine for which the time limits
were chosen: an idle core of 2024."""
SLOWEST = 4.0
"""The largest factor by which time limits are stretched. A slower machine should not be used."""

CONTROL_CELLS = (
    "import torch",
    "def known_good(x):\n    x.register_hook(lambda grad: 2 * grad)\n    return x.sum()",
    "def known_bad(x):\n    x.register_hook(lambda grad: None)\n    return x.sum()",
)


class ControlledRunner(WrappedRunner):
    """Marks the control before the first run, after every `every` runs, and whenever runs are to be confirmed.

    The first control also sets the time limits, by the pace of this machine. Once a control fails, nothing more is run.
    """

    def __init__(
        self, seed: int, at_pace: Callable[[float], Runner], *, forked: bool, every: int = CONTROL_EVERY
    ) -> None:
        """`at_pace(factor)` gives a runner with `factor` times the time limits; `forked` is whether it forks boxes."""
        super().__init__(at_pace(1.0))
        self._seed, self._at_pace, self._forked, self._every = seed, at_pace, forked, every
        self._begun = False
        self._trouble = ""
        self._between_controls, self._runs = RunsBetweenControls(), 0
        self._lock, self._control_lock = threading.Lock(), threading.Lock()

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        """See `Runner`. Raises `Stopped` once a control has failed."""
        self._mark_first_control()
        if self._trouble:
            raise Stopped(f"The control notebook failed: {self._trouble}")
        transcript = self._runner.run(cells, probes)
        with self._lock:
            self._runs += 1
            between_controls, due = self._between_controls, self._runs >= self._every
        if due:
            with contextlib.suppress(Stopped):  # this run is complete, and nothing speaks against it
                self.confirm_runs()
        return replace(transcript, between_controls=between_controls)

    def confirm_runs(self) -> None:
        """Mark the control again if anything ran since the last one. If it fails, none of those runs count."""
        with self._control_lock:
            with self._lock:
                if self._trouble or not self._runs:
                    return
                closed, self._between_controls, self._runs = self._between_controls, RunsBetweenControls(), 0
            trouble, _ = mark_control(self._runner, self._seed)
            if trouble:
                with self._lock:
                    self._trouble, open_now = trouble, self._between_controls
                closed.fail(trouble)
                open_now.fail(trouble)

    def _mark_first_control(self) -> None:
        """Mark the control for the first time, before anybody else's code runs."""
        with self._control_lock:
            if not self._begun:
                self._trouble, seconds = mark_control(self._runner, self._seed)
                self._runner = self._at_pace(pace_factor(seconds, forked=self._forked))
                self._begun = True


def mark_control(runner: Runner, seed: int) -> tuple[str, float]:
    """Mark the control: what went wrong, in a few words and empty if nothing did, and the seconds it took.

    Raises `Stopped` when everything is being stopped, which says nothing about the machine.
    """
    try:
        asked = LessonQuestions.for_seed((GOOD_EXERCISE, BAD_EXERCISE), seed)
        run = read_transcript(runner.run(CONTROL_CELLS, asked.probes).frames)
        good, bad = (result.status for result in judge_submission(asked.exercises, asked.verdicts, CONTROL_CELLS, run))
    except Stopped:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}", 0.0
    if (good, bad) == (Status.PASSED, Status.WRONG):
        return "", run.seconds
    return run.message or f"its right answer got {good.value}, and its wrong answer {bad.value}", run.seconds


def pace_factor(seconds: float, *, forked: bool) -> float:
    """The factor for time limits on this machine, from the `seconds` that the control took: 1 to `SLOWEST`."""
    return min(SLOWEST, max(1.0, seconds / NOMINAL_SECONDS["forked" if forked else "started"]))
