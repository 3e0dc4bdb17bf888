"""The interface between marking and running: a `Runner` takes a notebook and returns a transcript.

BoxRunner         runs each notebook in a box of its own
CachedRunner      looks into the run cache first, and asks another runner (`graders.marking.cached_runner`)
ControlledRunner  marks a control notebook before and between what another runner runs (`graders.marking.control`)
StoppingRunner    runs nothing more if the first notebook does not start
NoRunner          runs nothing: for submissions that should need no run
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from graders.sandbox.outside.box_process import Box, BoxStopped
from graders.sandbox.outside.conversation import SLACK_SECONDS, Probe, run_notebook
from graders.sandbox.outside.low_memory import LowMemoryGuard, low_memory_guard
from graders.sandbox.outside.turns import Turns, turns
from graders.sandbox.outside.warm_process import WarmProcess
from graders.wire.forking import can_fork
from graders.wire.frames import Frame
from graders.wire.launch import late_modules
from graders.wire.limits import Limits


class NotRun(Exception):
    """A notebook would have to be run, but nothing may be."""


class Stopped(Exception):
    """Nothing more is run, and no notebook is to blame; the message says why."""


class RunsBetweenControls:
    """The runs between two controls. If the second control fails, none of them count, and `trouble` says why."""

    def __init__(self) -> None:
        """`trouble` is empty at first."""
        self.trouble = ""
        self._undo: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def when_it_fails(self, undo: Callable[[], None]) -> None:
        """Call `undo` if these runs turn out not to count, or at once if that is known already."""
        with self._lock:
            if not self.trouble:
                self._undo.append(undo)
                return
        undo()

    def fail(self, trouble: str) -> None:
        """Declare that none of these runs count, and call what was registered with `when_it_fails`."""
        with self._lock:
            self.trouble = trouble
            calls, self._undo = self._undo, []
        for undo in calls:
            undo()


@dataclass(frozen=True)
class Transcript:
    """What a notebook was asked and what it answered, frame by frame, and how it was run.

    `tier` is the isolation in which it ran, `pace` the factor by which time limits were stretched for a slow machine.
    """

    frames: Sequence[Frame]
    tier: str
    pace: float = 1.0
    between_controls: RunsBetweenControls = field(default_factory=RunsBetweenControls, compare=False, repr=False)

    @property
    def ended(self) -> str:
        """How the run ended: "finished", "timed-out", "over-limit", "suspect", "died" or "not-started"."""
        return str(self.frames[-1].head["how"])

    @property
    def message(self) -> str:
        """Why it ended like this; empty if it finished."""
        return str(self.frames[-1].head["message"])

    @property
    def seconds(self) -> float:
        """How long it ran, in seconds."""
        return float(self.frames[-1].head["seconds"])


class Runner(Protocol):
    """Runs notebooks, from any thread."""

    @property
    def tier(self) -> str:
        """The tier of isolation in which it runs notebooks; empty if it runs none."""

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        """Run the code cells of a notebook and ask the probes.

        Raises only if this machine or the graders fail, never because of what the notebook does.
        """

    def confirm_runs(self) -> None:
        """Settle whether the runs so far count. Called at the end of a batch."""

    def stop(self) -> None:
        """End what is running, and run nothing more: `run` raises `Stopped`."""


@dataclass(frozen=True)
class NoRunner:
    """Runs nothing: a notebook that would have to be run is an error."""

    tier: str = ""

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        """Raise `NotRun`."""
        raise NotRun("its run is not in the cache, and no notebook may be run")

    def confirm_runs(self) -> None:
        """Do nothing: nothing has run."""

    def stop(self) -> None:
        """Do nothing: nothing runs."""


@dataclass(frozen=True)
class BoxRunner:
    """Runs each notebook in a box of its own: a process forked from `warm`, or started from scratch if that is None.

    `box_modules` is the folder with the modules that exist inside. With `fork`, each probe runs in a process of its
    own.
    """

    box_modules: Path
    tier: str = "D"
    limits: Limits = field(default_factory=Limits)
    warm: WarmProcess | None = None
    fork: bool = can_fork
    tries: int = 2
    """How often a run that may have been disturbed is tried (`was_disturbed`), all within the time of one.

    If others took the processor, it is tried alone, with all of its time.
    """
    keep_outputs: bool = False
    """Whether the outputs of cells are part of the transcript."""
    guard: LowMemoryGuard = field(default=low_memory_guard, compare=False)
    """Ends the box that holds the most when the machine runs short of memory."""
    turns: Turns = field(default=turns, compare=False)
    """Says when a box may run."""
    slack_seconds: float = SLACK_SECONDS
    """What a box may take beyond the time of its notebook before it counts as hanging."""
    private: tuple[str, ...] = ()
    """See `RunOptions`."""
    stopping: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    """Set to end all boxes of this runner, and of those that are derived from it."""

    def box(self, cells: Sequence[str] = ()) -> Box:
        """A new box, not yet started, for a notebook with these cells."""
        return Box(
            self.box_modules,
            self.tier,
            self.limits,
            self.warm,
            modules=late_modules(cells),
            guard=self.guard,
            private=self.private,
            stopping=self.stopping,
        )

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        """See `Runner`."""
        limits, alone = self.limits, False
        runs: list[Transcript] = []
        for _ in range(self.tries):
            box = self.box(cells)
            try:
                with self.turns.take(alone=alone) as turn:
                    frames = run_notebook(
                        box,
                        cells,
                        probes,
                        limits,
                        fork=self.fork,
                        keep_outputs=self.keep_outputs,
                        slack_seconds=self.slack_seconds,
                    )
            except BoxStopped:
                raise Stopped("The run was interrupted before this notebook had finished.") from None
            runs.append(Transcript(frames=frames, tier=self.tier, pace=self.limits.pace))
            starved = turn.shared and box.starved_seconds > min(limits.cell_seconds, limits.probe_seconds) / 2
            alone = starved and has_timed_out(runs[-1])
            if not alone and not box.ended_to_free_memory and not was_disturbed(runs[-1], stood_still=box.stood_still):
                break
            if not alone and runs[-1].ended != "not-started":
                limits = limits.with_time_spent(runs[-1].seconds)
        if runs[-1].ended == "not-started":
            return runs[-1]
        return max(reversed(runs), key=count_answers)  # the notebook's own faults show in every run, so take the best

    def at_pace(self, factor: float) -> BoxRunner:
        """The same runner with `factor` times the time limits."""
        return replace(self, limits=self.limits.at_pace(factor))

    def confirm_runs(self) -> None:
        """Do nothing: without a control, every run counts."""

    def stop(self) -> None:
        """See `Runner`."""
        self.stopping.set()


def was_disturbed(transcript: Transcript, *, stood_still: bool) -> bool:
    """Whether what went wrong in a run may be the machine's fault.

    A process that the system ended when memory ran out looks the same as one that the notebook ended. And if processes
    `stood_still`, a timeout may count time in which the notebook could not run.
    """
    if transcript.ended in ("died", "not-started") or "crashed" in _statuses(transcript):
        return True
    return stood_still and has_timed_out(transcript)


def has_timed_out(transcript: Transcript) -> bool:
    """Whether the time of the notebook, of a cell or of an answer ran out."""
    return transcript.ended == "timed-out" or "timed-out" in _statuses(transcript)


def _statuses(transcript: Transcript) -> set[object]:
    return {frame.head.get("status") for frame in transcript.frames if frame.type in ("cell", "raised")}


def count_answers(transcript: Transcript) -> int:
    """How many probes finished."""
    return sum(frame.type == "seen" for frame in transcript.frames)


class WrappedRunner:
    """What runners have in common that leave it to another one, `runner`, to run notebooks."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def tier(self) -> str:
        """See `Runner`."""
        return self._runner.tier

    def confirm_runs(self) -> None:
        """See `Runner`."""
        self._runner.confirm_runs()

    def stop(self) -> None:
        """See `Runner`."""
        self._runner.stop()


class StoppingRunner(WrappedRunner):
    """Runs nothing more if the first notebook does not start: the next one would not start either."""

    _why = ""
    _started = False

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        """See `Runner`. Raises `Stopped` if no notebook has started yet and one failed to."""
        if self._why:
            raise Stopped(self._why)
        transcript = self._runner.run(cells, probes)
        if transcript.ended != "not-started":
            self._started = True
        elif not self._started:
            self._why = transcript.message
        return transcript
