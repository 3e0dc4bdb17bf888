"""Marks notebooks on other machines, through the executor of a Dask cluster.

A job holds the bytes of a notebook and what is needed to mark it; it returns the result as JSON values. Each worker
chooses and tests the isolation of its own machine, and marks the control before the first notebook of a run. Dask
gives the jobs of a worker that dies to another one, and each job has one result.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Executor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from graders.core.errors import NotInstalled
from graders.core.results import SubmissionResult, SubmissionStatus
from graders.core.text import shorten_text
from graders.instructor.request import BadRequest
from graders.marking.mark_submission import mark_submission, result_without_run
from graders.marking.questions import Questions
from graders.marking.setup import controlled_runner
from graders.report import results_json
from graders.sandbox.outside.boxes import prestarted_boxes
from graders.sandbox.outside.leftovers import temporary_folder
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import Runner
from graders.submissions.finding import Submission
from graders.submissions.intake import Unreadable, read_bytes


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The executor of a Dask cluster. `address` is one such as `tcp://10.0.0.1:8786`, or the path of a scheduler file.

    Raises `NotInstalled` without Dask, and `BadRequest` when no scheduler answers within 30 seconds, or when it wants
    keys that were not given.
    """
    try:
        from distributed import Client, Security
        from distributed.comm import get_address_host_port
    except ModuleNotFoundError:
        raise NotInstalled("--cluster", "cluster") from None
    where = _address_in_file(Path(address)) if Path(address).exists() else address
    # Dask logs a traceback when the scheduler goes away. `mark_on_cluster` reports that for each notebook instead.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    security = Security()  # what the user's configuration of Dask says
    if where.startswith("tls:") and security.get_connection_args("client")["ssl_context"] is None:
        raise BadRequest(
            f"The Dask scheduler at {shorten_text(where, 80)} wants keys. Tell Dask where they are, in its "
            "configuration or in the variables DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT and "
            "…__CLIENT__KEY."
        )
    try:
        get_address_host_port(where)  # a client that fails because of the address delays the end of Python by a minute
        client = Client(where, security=security, timeout="30s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise BadRequest(
            f"No Dask scheduler answers at {shorten_text(where, 80)}: {shorten_text(error, 200)}"
        ) from None
    with client:
        # `pure=False`: two notebooks with the same bytes are two jobs.
        yield client.get_executor(pure=False)


def _address_in_file(file: Path) -> str:
    """The address in a scheduler file. Raises `BadRequest` when there is none in it."""
    try:
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise BadRequest(
            f"{shorten_text(file, 200)} is not the file of a Dask scheduler: {shorten_text(error, 200)}"
        ) from None
    return str(address)


def mark_on_cluster(
    executor: Executor, chosen: Sequence[Submission], questions: Questions, run_options: RunOptions, tier: str
) -> Iterator[tuple[Submission, SubmissionResult]]:
    """Yield each submission with its result, in the order in which they are finished.

    What no worker could mark is not graded, and has the `tier` for results without a run. Submissions without a
    readable file are left out: no worker is needed for them.
    """
    jobs = {}
    for submission in chosen:
        if submission.file is not None and not submission.problem:
            try:
                content = read_bytes(submission.file)
            except Unreadable:
                continue
            student, lesson = submission.student, submission.lesson
            seed = questions.seed_for(student, lesson, hashlib.sha256(content).hexdigest())
            job = (student, lesson, content, seed, questions.seed, run_options)
            jobs[executor.submit(mark_in_worker, *job)] = submission
    try:
        for future in as_completed(jobs):
            # Drop the future: as long as it is held, Dask repeats the job if the worker with the result dies.
            submission, why = jobs.pop(future), ""
            try:
                result = results_json.submission_from_data(future.result())
            except CancelledError:
                why = "The scheduler of the cluster went away. Restart the cluster, and mark again."
            except Exception as error:  # the worker's machine failed repeatedly, which must not cost the learner points
                why = f"No worker could mark it: {type(error).__name__}: {shorten_text(error, 150)}"
            if why:
                result = result_without_run(submission, SubmissionStatus.NOT_GRADED, why, tier)
            yield submission, replace(result, file=submission.shown_file)
    finally:
        for future in jobs:
            future.cancel()


_lock = threading.Lock()
_worker_setups: dict[tuple[int, RunOptions], tuple[Questions, Runner]] = {}


def mark_in_worker(
    student: str, lesson: str, content: bytes, seed: int, batch: int, run_options: RunOptions
) -> dict[str, Any]:
    """Mark a notebook in a worker's process; returns its result as JSON values.

    `seed` is that of its exercises' inputs, `batch` that of the batch, which the control uses as well.
    """
    questions, runner = _worker_setup(batch, run_options)
    with temporary_folder("job") as folder:
        file = folder / f"{lesson}.ipynb"
        file.write_bytes(content)
        submission = Submission(student=student, lesson=lesson, file=file)
        result = mark_submission(submission, questions.with_seed(seed), runner).settled_result()
    return results_json.submission_to_data(result)


def _worker_setup(seed: int, run_options: RunOptions) -> tuple[Questions, Runner]:
    """The questions and the runner that all jobs of a run share in this process, so that isolation is tested once."""
    with _lock:
        if (seed, run_options) not in _worker_setups:
            resources = ExitStack()
            atexit.register(resources.close)
            # The boxes end with this process even when it is killed, because their connection to it then closes.
            boxes = resources.enter_context(prestarted_boxes(now=True))
            runner = controlled_runner(boxes.runner(run_options), run_options, seed)
            _worker_setups[seed, run_options] = Questions(seed), runner
        return _worker_setups[seed, run_options]
