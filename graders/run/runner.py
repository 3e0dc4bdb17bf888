"""The seam between marking and running: what runs a notebook, wherever and however that is done.

BoxRunner         runs each notebook in a box of its own
CachedRunner      looks into the run cache first, and asks another runner when the run is not there
ControlledRunner  marks a control exercise along with what another runner runs (`graders.marking.control`)
StoppingRunner    runs nothing more when not even the first notebook starts
NoRunner          runs nothing: for what is known to need no run
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from graders.run.box_process import Box
from graders.run.cache import RunCache, digest_of_probes, run_key
from graders.run.conversation import SLACK_SECONDS, Probe, run_notebook
from graders.run.low_memory import LowMemoryGuard, low_memory_guard
from graders.run.run_options import RunOptions
from graders.run.warm_process import WarmProcess
from graders.wire.forking import can_fork
from graders.wire.frames import Frame
from graders.wire.limits import Limits


class NotRun(Exception):
    """Raised where nothing is run, for a notebook that would have to be."""


class Stopped(Exception):
    """Nothing more is run, for a reason that is no notebook's; the message says which."""


class Stretch:
    """The runs between two controls. When the second control fails, none of them counts: `trouble` says why."""

    def __init__(self) -> None:
        """So far there is nothing wrong."""
        self.trouble = ""
        self._undo: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def when_it_fails(self, undo: Callable[[], None]) -> None:
        """Have `undo` called when these runs turn out not to count; at once, when that is known already."""
        with self._lock:
            if not self.trouble:
                self._undo.append(undo)
                return
        undo()

    def fail(self, trouble: str) -> None:
        """Let none of these runs count."""
        with self._lock:
            self.trouble = trouble
            calls, self._undo = self._undo, []
        for undo in calls:
            undo()


@dataclass(frozen=True)
class Transcript:
    """What was asked of a notebook and what it answered, frame by frame, and how it was run.

    `tier` is the isolation in which it ran, `pace` by how much its seconds were stretched for a slow machine.
    """

    frames: Sequence[Frame]
    tier: str
    pace: float = 1.0
    stretch: Stretch = field(default_factory=Stretch, compare=False, repr=False)

    @property
    def ended(self) -> str:
        """How the run ended: "finished", "timed-out", "over-limit", "suspect", "died" or "not-started"."""
        return str(self.frames[-1].head["how"])

    @property
    def message(self) -> str:
        """Why it ended like this; empty when it finished."""
        return str(self.frames[-1].head["message"])

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return float(self.frames[-1].head["seconds"])


class Runner(Protocol):
    """Runs notebooks, from any thread."""

    @property
    def tier(self) -> str:
        """The isolation of what it runs itself; empty where nothing is run."""

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        """Run the code cells of a notebook, and ask the probes.

        Nothing is raised for what the notebook does, but when this machine or the graders fail.
        """

    def confirm_runs(self) -> None:
        """Settle whether what ran so far counts: called when a batch is through."""


@dataclass(frozen=True)
class NoRunner:
    """Runs nothing."""

    tier: str = ""

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        """Raise `NotRun`."""
        raise NotRun("its run is not in the cache, and nothing was to be run")

    def confirm_runs(self) -> None:
        """There is nothing to settle: nothing has run."""


@dataclass(frozen=True)
class BoxRunner:
    """Runs each notebook in a box of its own: a process forked from `warm`, or started where that is None.

    `box_modules` is the folder with the modules that exist inside. With `fork`, each probe runs in a process of its
    own.
    """

    box_modules: Path
    tier: str = "D"
    limits: Limits = field(default_factory=Limits)
    warm: WarmProcess | None = None
    fork: bool = can_fork
    tries: int = 2
    """A run that may have been disturbed (`was_disturbed`) is given a second chance, within the same time."""
    keep_outputs: bool = False
    """Whether what cells show is drawn, and is part of the transcript."""
    fuse: LowMemoryGuard = field(default=low_memory_guard, compare=False)
    """Ends the box that holds most when the machine runs short of memory."""
    slack_seconds: float = SLACK_SECONDS
    """What a box may take beyond the time of its notebook before it counts as hanging."""
    private: tuple[str, ...] = ()
    """See `RunOptions`."""

    def box(self, cells: Sequence[str] = ()) -> Box:
        """A new box, not yet started, for a notebook with these cells. Whoever names `torch.optim` optimizes."""
        optimizes = any("optim" in cell for cell in cells)
        return Box(
            self.box_modules,
            self.tier,
            self.limits,
            self.warm,
            optimizes=optimizes,
            fuse=self.fuse,
            private=self.private,
        )

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        """See `Runner`."""
        limits = self.limits
        runs: list[Transcript] = []
        for _ in range(self.tries):
            box = self.box(cells)
            frames = run_notebook(
                box,
                cells,
                probes,
                limits,
                fork=self.fork,
                keep_outputs=self.keep_outputs,
                slack_seconds=self.slack_seconds,
            )
            runs.append(Transcript(frames=frames, tier=self.tier, pace=self.limits.pace))
            if not box.ended_to_free_memory and not was_disturbed(runs[-1], stood_still=box.stood_still):
                break
            if runs[-1].ended != "not-started":
                limits = limits.with_time_spent(runs[-1].seconds)
        if runs[-1].ended == "not-started":
            return runs[-1]
        return max(reversed(runs), key=count_answers)  # what the notebook itself does wrong, it does again

    def at_pace(self, factor: float) -> BoxRunner:
        """The same with `factor` times the seconds."""
        return replace(self, limits=self.limits.at_pace(factor))

    def confirm_runs(self) -> None:
        """Every run counts: no control is marked along."""


def was_disturbed(transcript: Transcript, *, stood_still: bool) -> bool:
    """Whether what went wrong in a run may be the machine's doing.

    A process that was ended from outside, as the system does when memory runs out, looks as one that the notebook
    ended; and where something `stood_still`, time ran out that nobody could use.
    """
    statuses = {frame.head.get("status") for frame in transcript.frames if frame.type in ("cell", "raised")}
    if transcript.ended in ("died", "not-started") or "crashed" in statuses:
        return True
    return stood_still and (transcript.ended == "timed-out" or "timed-out" in statuses)


def count_answers(transcript: Transcript) -> int:
    """How many probes came to their end."""
    return sum(frame.type == "seen" for frame in transcript.frames)


class StoppingRunner:
    """Runs nothing more when not even the first notebook starts: the next one would not start either."""

    def __init__(self, runner: Runner) -> None:
        """`runner` runs them."""
        self._runner = runner
        self._why = ""
        self._started = False

    @property
    def tier(self) -> str:
        """The isolation of what is run."""
        return self._runner.tier

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        """See `Runner`. Raises `Stopped`."""
        if self._why:
            raise Stopped(self._why)
        transcript = self._runner.run(cells, probes)
        if transcript.ended != "not-started":
            self._started = True
        elif not self._started:
            self._why = transcript.message
        return transcript

    def confirm_runs(self) -> None:
        """See `Runner`."""
        self._runner.confirm_runs()


class CachedRunner:
    """Takes runs from a cache, where they are there with these options; what `otherwise` runs is added to it."""

    def __init__(self, cache: RunCache, run_options: RunOptions, otherwise: Runner) -> None:
        """A run in any tier that the options accept will do."""
        self._cache, self._terms, self._otherwise = cache, run_options, otherwise
        self._digests: dict[int, tuple[Sequence[Probe], str]] = {}

    @property
    def tier(self) -> str:
        """The isolation of what is not in the cache."""
        return self._otherwise.tier

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        """See `Runner`."""
        key = run_key(cells, self._probes_digest(probes), self._terms.limits, keep_outputs=self._terms.keep_outputs)
        if found := self._cache.find(key, self._terms.accepted_tiers):
            tier, frames = found
            return Transcript(frames, tier)
        transcript = self._otherwise.run(cells, probes)
        if transcript.ended != "not-started":
            self._cache.keep(key, transcript.tier, transcript.frames)
            # No more than the name: the stretch lives as long as the batch, and a class has a thousand transcripts.
            transcript.stretch.when_it_fails(partial(self._cache.forget, key, transcript.tier))
        return transcript

    def _probes_digest(self, probes: Sequence[Probe]) -> str:
        """The digest of the probes, remembered: a class shares them, and it takes as long as to read a run."""
        if id(probes) not in self._digests:
            self._digests[id(probes)] = probes, digest_of_probes(probes)
        return self._digests[id(probes)][1]

    def confirm_runs(self) -> None:
        """See `Runner`."""
        self._otherwise.confirm_runs()
