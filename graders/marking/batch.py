"""Marks a batch of submissions in parallel, each of them once."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from datetime import datetime, timezone

import torch

from graders.core.results import Batch, SubmissionResult
from graders.marking.mark_submission import ProvisionalResult, mark_submission
from graders.marking.questions import Questions
from graders.sandbox.outside.runner import Runner
from graders.submissions.finding import Submission

STOP_SECONDS = 3.0
"""What running notebooks have left after Ctrl+C. Ending their boxes may take two seconds more."""


class Marking:
    """One batch. `result` marks a submission the first time it is asked for; `start` marks many in parallel."""

    def __init__(
        self,
        questions: Questions,
        runner: Runner,
        jobs: int = 1,
        marked: Mapping[Submission, ProvisionalResult] | None = None,
    ) -> None:
        """`runner` runs the submissions that are not in `marked`, `jobs` notebooks at a time."""
        self.questions, self.runner, self.jobs = questions, runner, jobs
        self.created = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._marked = dict(marked or {})
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="marking")
        self._futures: dict[Submission, Future[ProvisionalResult]] = {}
        self._lock = threading.Lock()

    @property
    def seed(self) -> int:
        """The seed from which this batch draws its inputs."""
        return self.questions.seed

    @property
    def pace(self) -> float:
        """The largest factor by which time limits were stretched for a slow machine; 1.0 is no stretch."""
        return max((marked.pace for marked in self._finished_results()), default=1.0)

    def start(self, submissions: Iterable[Submission], done: Callable[[SubmissionResult], None]) -> None:
        """Mark these in parallel and return when all are marked. `done` is called with each result, in this thread."""
        for future in as_completed([self._future_for(submission) for submission in submissions]):
            done(future.result().result)
        self.runner.confirm_runs()

    def result(self, submission: Submission) -> SubmissionResult:
        """The result of one submission. Waits until it is marked; it is run at most once."""
        return self._future_for(submission).result().settled_result()

    def batch(self) -> Batch:
        """All results so far, sorted by student and lesson."""
        results = sorted(
            (marked.settled_result() for marked in self._finished_results()),
            key=lambda result: (result.student, result.lesson),
        )
        # If every file was marked before, nobody was asked with the batch's own seed: report the most common one.
        used = Counter(result.seed for result in results if result.seed is not None)
        seed = self.seed if self.seed in used or not used else used.most_common(1)[0][0]
        return Batch(seed=seed, torch=torch.__version__, created=self.created, submissions=tuple(results))

    def confirm_runs(self) -> None:
        """Settle whether the runs so far count, by marking the control again."""
        self.runner.confirm_runs()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Start no more notebooks, and end those that run for more than `seconds` from now: they get no result.

        A `KeyboardInterrupt` in the meantime ends them at once.
        """
        self._pool.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(KeyboardInterrupt):
            wait([future for future in self._futures.values() if not future.cancelled()], timeout=seconds)
        self.runner.stop()
        self._pool.shutdown()

    def close(self) -> None:
        """Wait for the notebooks that are running, and start no more."""
        self._pool.shutdown(cancel_futures=True)

    def _future_for(self, submission: Submission) -> Future[ProvisionalResult]:
        with self._lock:
            if submission not in self._futures:
                self._futures[submission] = self._pool.submit(self._mark_once, submission)
            return self._futures[submission]

    def _mark_once(self, submission: Submission) -> ProvisionalResult:
        return self._marked.get(submission) or mark_submission(submission, self.questions, self.runner)

    def _finished_results(self) -> list[ProvisionalResult]:
        futures = tuple(self._futures.values())
        return [future.result() for future in futures if future.done() and not future.cancelled()]
