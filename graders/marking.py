"""Marking submissions: each notebook is run once, judged once, and its result kept for all who ask."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import torch

from graders.box.limits import Limits
from graders.control import control, scaled, slowness
from graders.core import course
from graders.core.exercise import Draw
from graders.core.results import Batch, SubmissionResult, SubmissionStatus
from graders.core.text import clean
from graders.judge.submission import judge
from graders.report.files import write_atomically
from graders.run.conversation import probes_for, run_notebook
from graders.run.intake import Unreadable, read_notebook
from graders.run.kit import make_kit
from graders.run.leftovers import sweep, temporary_folder
from graders.run.submissions import Submission
from graders.run.transcript import read_transcript, to_bytes

CONTROL_EVERY = 64
"""Submissions of a class between two controls."""


class Marking:
    """One batch. `result` marks a submission when it is first asked for; `start` begins with many at once."""

    def __init__(
        self, seed: int, limits: Limits, jobs: int, kit: Path, out: Path | None = None, tier: str = "D",
        *, controlled: bool = False,
    ) -> None:  # fmt: skip
        """Transcripts go to `out/runs` when `out` is given. A `controlled` batch marks the control along with it."""
        self.seed, self.limits, self.kit, self.out, self.tier = seed, limits, kit, out, tier
        self.slowness = 1.0
        self.created = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="marking")
        self._futures: dict[Submission, Future[SubmissionResult]] = {}
        self._draws: dict[str, dict[str, list[Draw]]] = {}
        self._lock = threading.Lock()
        self._controlled, self._control_lock = controlled, threading.Lock()
        self._begun = False
        self._confirmed: set[Submission] = set()
        self._trouble = ""

    def start(self, submissions: Iterable[Submission], done: Callable[[SubmissionResult], None]) -> None:
        """Mark these in parallel; returns when all are marked. `done` is called after each."""
        self._begin()
        for count, future in enumerate(as_completed([self._future(submission) for submission in submissions]), 1):
            done(future.result())
            if count % CONTROL_EVERY == 0:
                self.confirm()
        self.confirm()

    def result(self, submission: Submission) -> SubmissionResult:
        """The result of one submission; it is run at most once."""
        self._begin()
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
                self._trouble, seconds = control(self.seed, self.limits, self.kit, self.tier)
                self.slowness = slowness(seconds)
            self._begun = True

    def confirm(self) -> None:
        """Mark the control once more. If it does not come out well, nothing since it last did counts."""
        with self._control_lock:
            with self._lock:
                new = {who for who, future in self._futures.items() if future.done()} - self._confirmed
            if not self._controlled or self._trouble or not new:
                return
            self._trouble, _ = control(self.seed, scaled(self.limits, self.slowness), self.kit, self.tier)
            if not self._trouble:
                self._confirmed |= new

    def _counted(self, submission: Submission, result: SubmissionResult) -> SubmissionResult:
        """A result, or that it does not count."""
        if not self._trouble or submission in self._confirmed or result.status is not SubmissionStatus.GRADED:
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
        with self._lock:
            if lesson not in self._draws:
                found = {exercise.key: exercise.draws(self.seed) for exercise in course.exercises(lesson)}
                self._draws[lesson] = found
            return self._draws[lesson]

    def mark(self, submission: Submission) -> SubmissionResult:
        """Mark one submission here and now, in this thread."""
        exercises = course.exercises(submission.lesson)
        most = sum(exercise.points for exercise in exercises)
        student = clean(submission.student, 200)
        file = clean(submission.origin or submission.file or "", 1000)

        def without_run(status: SubmissionStatus, message: str) -> SubmissionResult:
            return SubmissionResult(
                student, submission.lesson, file, "", status, self.tier, 0.0, most, 0.0, (), clean(message)
            )  # fmt: skip

        if submission.problem:
            return without_run(SubmissionStatus.UNREADABLE, submission.problem)
        if self._trouble:
            return without_run(SubmissionStatus.NOT_GRADED, f"The control did not come out right: {self._trouble}")
        if submission.file is None:
            return without_run(SubmissionStatus.MISSING, "No notebook was handed in for this lesson.")
        try:
            notebook = read_notebook(submission.file)
            draws = self.draws(submission.lesson)
            probes = probes_for(exercises, draws, self.seed)
            limits = scaled(self.limits, self.slowness)
            transcript = run_notebook(notebook.cells, probes, limits, self.kit, tier=self.tier)
            if read_transcript(transcript).ended in ("died", "not-started"):
                transcript = run_notebook(notebook.cells, probes, limits, self.kit, tier=self.tier)
            if self.out is not None:
                write_atomically(self.out / "runs" / f"{self._name(notebook.sha256)}.frames", to_bytes(transcript))
            run = read_transcript(transcript)
            results = tuple(judge(exercises, draws, notebook.cells, run))
        except Unreadable as error:
            return without_run(SubmissionStatus.UNREADABLE, str(error))
        except Exception as error:
            # A defect of a grader or of this machine, for example a full disk: never the learner's zero.
            why = f"{type(error).__name__}: {error}"
            return without_run(SubmissionStatus.NOT_GRADED, f"The graders failed with {why}")
        status = SubmissionStatus.NOT_GRADED if run.ended == "not-started" else SubmissionStatus.GRADED
        score = round(sum(result.score for result in results), 4)
        return SubmissionResult(
            student, submission.lesson, file, notebook.sha256, status, self.tier, score, most, run.seconds,
            results, run.message,
        )  # fmt: skip

    def _name(self, sha256: str) -> str:
        """A run by its content: the notebook, the seed, torch, the limits."""
        content = f"{sha256} {self.seed} {torch.__version__} {self.limits.to_json()}"
        return hashlib.sha256(content.encode()).hexdigest()[:32]


@contextmanager
def kit_folder() -> Iterator[Path]:
    """A kit for the boxes of this process, removed afterwards."""
    sweep()
    with temporary_folder("kit") as folder:
        yield make_kit(folder)


def default_jobs() -> int:
    """One notebook at a time for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
