"""Marking submissions: each notebook is run once, judged once, and its result kept for all who ask."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import torch

from graders.core import course
from graders.core.exercise import Draw, Exercise
from graders.core.results import Batch, SubmissionResult, SubmissionStatus
from graders.core.text import clean
from graders.judge.submission import Marks, judge
from graders.marking.control import control, scaled, slowness
from graders.run.conversation import Probe, probes_for, run_notebook
from graders.run.intake import Notebook, Unreadable, read_notebook
from graders.run.kept import KeptRuns, digest_of, run_name
from graders.run.selftest import Choice
from graders.run.submissions import Submission
from graders.run.tiers import TIERS
from graders.run.transcript import read_transcript
from graders.run.warm import WarmProcess
from graders.wire.frames import Frame
from graders.wire.limits import Limits

CONTROL_EVERY = 64
"""Submissions of a class between two controls."""


class Stopped(Exception):
    """Nothing more is run, for a reason that is no notebook's; the message says which."""


class Marking:
    """One batch. `result` marks a submission when it is first asked for; `start` begins with many at once."""

    def __init__(
        self, seed: int, limits: Limits, jobs: int, kit: Path, kept: KeptRuns | None = None, tier: str | None = "D",
        *, warm: WarmProcess | None = None, accepted: Sequence[str] = TIERS, controlled: bool = False,
    ) -> None:  # fmt: skip
        """Boxes run in `tier`, forked from `warm` if given; without a tier, `run_in` has to follow.

        Runs are taken from `kept` where they ran in a tier that is `accepted`, and added to it. A `controlled` batch
        marks the control along with it.
        """
        self.seed, self.limits, self.kit, self.kept = seed, limits, kit, kept
        self.tier, self.warm, self._accepted = tier, warm, tuple(accepted)
        self.slowness = 1.0
        self.created = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="marking")
        self._futures: dict[Submission, Future[SubmissionResult]] = {}
        self._lessons: dict[str, _Lesson] = {}
        self._lock = threading.Lock()
        self._controlled, self._control_lock = controlled, threading.Lock()
        self._begun = False
        self._from_kept: dict[Submission, SubmissionResult] = {}
        self._ran: dict[Submission, str] = {}
        self._confirmed: set[Submission] = set()
        self._trouble = ""
        self._nothing_starts = ""

    def run_in(self, choice: Choice) -> None:
        """Settle where notebooks run."""
        self.tier, self.warm = choice.tier, choice.warm

    def has_to_run(self, submissions: Iterable[Submission]) -> bool:
        """Whether any of these has to be run, because no run of it is kept. What is kept is marked on the way."""
        for submission in submissions:
            result = self.mark(submission, run=False)
            if result.status is SubmissionStatus.NOT_GRADED:
                return True
            if result.sha256:  # one that cannot be read is given the batch's tier, which is yet to be chosen
                self._from_kept[submission] = result
        return False

    def start(self, submissions: Iterable[Submission], done: Callable[[SubmissionResult], None]) -> None:
        """Mark these in parallel; returns when all are marked. `done` is called after each."""
        for count, future in enumerate(as_completed([self._future(submission) for submission in submissions]), 1):
            done(future.result())
            if count % CONTROL_EVERY == 0:
                self.confirm()
        self.confirm()

    def result(self, submission: Submission) -> SubmissionResult:
        """The result of one submission; it is run at most once."""
        return self._counted(submission, self._future(submission).result())

    def batch(self) -> Batch:
        """All results that there are, by student and lesson."""
        results = [self._counted(who, future.result()) for who, future in self._futures.items()
                   if future.done() and not future.cancelled()]  # fmt: skip
        results.sort(key=lambda result: (result.student, result.lesson))
        return Batch(self.seed, torch.__version__, self.created, tuple(results))

    def _begin(self) -> None:
        """The first control, before anything of a stranger runs. It sets the clocks by the pace of this machine."""
        with self._control_lock:
            if not self._begun and self._controlled:
                self._trouble, seconds = self._control(self.limits)
                self.slowness = slowness(seconds, warm=self.warm is not None)
            self._begun = True

    def confirm(self) -> None:
        """Mark the control once more. If it does not come out well, nothing that ran since it last did counts."""
        with self._control_lock:
            with self._lock:
                new = {who for who in self._ran if self._futures[who].done()} - self._confirmed
            if not self._controlled or self._trouble or not new:
                return
            self._trouble, _ = self._control(scaled(self.limits, self.slowness))
            if not self._trouble:
                self._confirmed |= new
            elif self.kept is not None and self.tier is not None:
                for who in new:
                    self.kept.forget(self._ran[who], self.tier)

    def _control(self, limits: Limits) -> tuple[str, float]:
        assert self.tier is not None
        return control(self.seed, limits, self.kit, self.tier, self.warm)

    def _counted(self, submission: Submission, result: SubmissionResult) -> SubmissionResult:
        """A result, or that it does not count."""
        unsure = self._trouble and submission in self._ran and submission not in self._confirmed
        if not unsure or result.status is not SubmissionStatus.GRADED:
            return result
        why = f"The control, a notebook whose results are known, did not come out right: {self._trouble}"
        return replace(result, status=SubmissionStatus.NOT_GRADED, score=0.0, exercises=(), message=clean(why))

    def close(self) -> None:
        """Let running notebooks end; start no more."""
        self._pool.shutdown(cancel_futures=True)

    def _future(self, submission: Submission) -> Future[SubmissionResult]:
        with self._lock:
            if submission not in self._futures:
                self._futures[submission] = self._pool.submit(self.mark, submission)
            return self._futures[submission]

    def draws(self, lesson: str) -> dict[str, list[Draw]]:
        """The draws of a lesson, equal for everyone in the batch."""
        return self._lesson(lesson).marks.draws

    def _lesson(self, lesson: str) -> _Lesson:
        with self._lock:
            if lesson not in self._lessons:
                exercises = course.exercises(lesson)
                draws = {exercise.key: exercise.draws(self.seed) for exercise in exercises}
                probes = probes_for(exercises, draws, self.seed)
                self._lessons[lesson] = _Lesson(tuple(exercises), Marks(draws), probes, digest_of(probes))
            return self._lessons[lesson]

    def mark(self, submission: Submission, *, run: bool = True) -> SubmissionResult:
        """Mark one submission here and now, in this thread. If it may not `run`, it needs a kept run to be graded."""
        if submission in self._from_kept:
            return self._from_kept[submission]
        most = sum(exercise.points for exercise in course.exercises(submission.lesson))
        student = clean(submission.student, 200)
        file = clean(submission.origin or submission.file or "", 1000)

        def without_run(status: SubmissionStatus, message: str) -> SubmissionResult:
            return SubmissionResult(
                student, submission.lesson, file, "", status, self.tier or "", 0.0, most, 0.0, (), clean(message)
            )  # fmt: skip

        if submission.problem:
            return without_run(SubmissionStatus.UNREADABLE, submission.problem)
        if submission.file is None:
            return without_run(SubmissionStatus.MISSING, "No notebook was handed in for this lesson.")
        try:
            notebook = read_notebook(submission.file)
            lesson = self._lesson(submission.lesson)
            tier, transcript = self._transcript(submission, notebook, run=run)
            seen = read_transcript(transcript)
            results = tuple(judge(lesson.exercises, lesson.marks, notebook.cells, seen))
        except Unreadable as error:
            return without_run(SubmissionStatus.UNREADABLE, str(error))
        except Stopped as error:
            return without_run(SubmissionStatus.NOT_GRADED, str(error))
        except Exception as error:
            # A defect of a grader or of this machine, for example a full disk: never the learner's zero.
            why = f"{type(error).__name__}: {error}"
            return without_run(SubmissionStatus.NOT_GRADED, f"The graders failed with {why}")
        status = SubmissionStatus.NOT_GRADED if seen.ended == "not-started" else SubmissionStatus.GRADED
        score = round(sum(result.score for result in results), 4)
        return SubmissionResult(
            student, submission.lesson, file, notebook.sha256, status, tier, score, most, seen.seconds,
            results, seen.message,
        )  # fmt: skip

    def _transcript(self, submission: Submission, notebook: Notebook, *, run: bool) -> tuple[str, list[Frame]]:
        """The tier and the transcript of a run: one that is kept, or a new one."""
        name = self._name(submission, notebook)
        if self.kept is not None and (found := self.kept.find(name, self._accepted)):
            return found
        if not run or self.tier is None:
            raise RuntimeError("no run of it is kept, and no tier of isolation was chosen")
        self._begin()
        if self._trouble:
            raise Stopped(f"The control did not come out right: {self._trouble}")
        if self._nothing_starts:
            raise Stopped(self._nothing_starts)
        probes, limits = self._lesson(submission.lesson).probes, scaled(self.limits, self.slowness)
        for _ in range(2):  # a box that died is given a second chance
            transcript = run_notebook(notebook.cells, probes, limits, self.kit, tier=self.tier, warm=self.warm)
            ran = read_transcript(transcript)
            if (ended := ran.ended) not in ("died", "not-started"):
                break
        with self._lock:
            if ended == "not-started" and not self._ran:  # then the next one will not start either
                self._nothing_starts = ran.message
            self._ran[submission] = name
        if self.kept is not None and ended != "not-started":
            self.kept.keep(name, self.tier, transcript)
        return self.tier, transcript

    def _name(self, submission: Submission, notebook: Notebook) -> str:
        return run_name(notebook.cells, self._lesson(submission.lesson).questions, self.limits)


@dataclass(frozen=True)
class _Lesson:
    """What is asked in a lesson: the same of everyone in a batch."""

    exercises: tuple[Exercise, ...]
    marks: Marks
    probes: Sequence[Probe]
    questions: str
