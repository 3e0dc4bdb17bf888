"""Sets up a batch, in the same way for pytest, `hookwork grade`, a cluster's workers and the proof of the course."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from graders.core.results import SubmissionStatus
from graders.marking.batch import Marking
from graders.marking.cache import RunCache
from graders.marking.cached_runner import CachedRunner
from graders.marking.control import ControlledRunner
from graders.marking.jobs import default_jobs
from graders.marking.mark_submission import ProvisionalResult, mark_submission
from graders.marking.questions import Questions, SeedsByFile
from graders.sandbox.outside.boxes import Boxes
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import BoxRunner, NoRunner, Runner, StoppingRunner
from graders.submissions.finding import Submission
from graders.submissions.intake import Unreadable, read_notebook


def set_up_marking(
    seed: int,
    run_options: RunOptions,
    boxes: Boxes,
    submissions: Iterable[Submission],
    *,
    cache: RunCache | None = None,
    jobs: int | None = None,
    repeated: SeedsByFile | None = None,
) -> Marking:
    """A `Marking` of these submissions, in which those whose runs are in the cache are marked already.

    `repeated` has the seeds of files that were marked before. `jobs` None means as many as this machine can take. A
    tier of isolation is chosen and tested only if some notebook has to be run; raises `NoIsolation` if none works.
    """
    questions = Questions(seed, repeated)
    marked: Mapping[Submission, ProvisionalResult] = {}
    if cache is None or cache.is_empty:
        first_to_run = next(filter(_is_readable, submissions), None)
    else:
        marked, first_to_run = mark_without_runs(submissions, questions, CachedRunner(cache, run_options, NoRunner()))
    runner = None
    if first_to_run is not None:
        if cache is not None:
            cache.make_folder()
        with ThreadPoolExecutor(1) as drawing:
            # Nobody waits for this while the self-test runs. If it fails, it fails again where that is reported.
            drawing.submit(questions.for_lesson, first_to_run.lesson)
            runner = boxes.runner(run_options)
    return assemble_marking(questions, run_options, runner, cache=cache, jobs=jobs, marked=marked)


def assemble_marking(
    questions: Questions,
    run_options: RunOptions,
    runner: BoxRunner | None,
    *,
    cache: RunCache | None = None,
    jobs: int | None = None,
    marked: Mapping[Submission, ProvisionalResult] | None = None,
) -> Marking:
    """A `Marking` that uses `runner` for what is neither `marked` nor in the cache. With None it runs nothing."""
    with_control = NoRunner() if runner is None else controlled_runner(runner, run_options, questions.seed)
    cached = with_control if cache is None else CachedRunner(cache, run_options, with_control)
    return Marking(questions, cached, jobs or default_jobs(), marked)


def _is_readable(submission: Submission) -> bool:
    if submission.problem or submission.file is None:
        return False
    try:
        read_notebook(submission.file)
    except Unreadable:
        return False
    return True


def mark_without_runs(
    submissions: Iterable[Submission], questions: Questions, runner: Runner
) -> tuple[dict[Submission, ProvisionalResult], Submission | None]:
    """Results of submissions up to the first that would have to be run, and that one, if there is one."""
    found: dict[Submission, ProvisionalResult] = {}
    for submission in submissions:
        marked = mark_submission(submission, questions, runner)
        if marked.result.status is SubmissionStatus.NOT_GRADED:
            return found, submission
        if marked.result.sha256:  # unreadable files are marked later: their results name the tier, not chosen yet
            found[submission] = marked
    return found, None


def controlled_runner(runner: BoxRunner, run_options: RunOptions, seed: int) -> Runner:
    """`runner` accompanied by the control, unless it runs somebody's own work."""
    if run_options.own_work:
        return StoppingRunner(runner)
    return ControlledRunner(seed, runner.at_pace, forked=runner.warm is not None)
