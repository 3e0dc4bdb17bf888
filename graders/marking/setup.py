"""How a batch is set up: the same for pytest, `hookwork grade`, a cluster's workers and the proof of the course."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graders.core.results import SubmissionStatus
from graders.marking.batch import Marking
from graders.marking.control import ControlledRunner
from graders.marking.jobs import default_jobs
from graders.marking.questions import Questions, SeedsByFile
from graders.marking.submission import Provisional, mark_submission
from graders.run.boxes import Boxes
from graders.run.cache import RunCache
from graders.run.runner import BoxRunner, CachedRunner, NoRunner, Runner, StoppingRunner
from graders.run.submissions import Submission
from graders.run.terms import Terms


def set_up(
    seed: int,
    terms: Terms,
    boxes: Boxes,
    submissions: Iterable[Submission],
    *,
    cache: RunCache | None = None,
    jobs: int | None = None,
    repeated: SeedsByFile | None = None,
) -> Marking:
    """A marking of these submissions, those in the cache marked already.

    `repeated` has the seeds of files that were marked before. Only when a notebook has to be run is a tier of isolation
    chosen, and tested. Raises `NoIsolation`.
    """
    questions = Questions(seed, repeated)
    marked, left = regraded(submissions, questions, _with_cache(NoRunner(), terms, cache))
    if left and cache is not None:
        cache.make_folder()
    runner = boxes.runner(terms) if left else None
    return assembled(questions, terms, runner, cache=cache, jobs=jobs, marked=marked)


def assembled(
    questions: Questions,
    terms: Terms,
    runner: BoxRunner | None,
    *,
    cache: RunCache | None = None,
    jobs: int | None = None,
    marked: Mapping[Submission, Provisional] | None = None,
) -> Marking:
    """A marking that runs with `runner` what is neither `marked` nor in the cache. With None it runs nothing."""
    with_control = NoRunner() if runner is None else controlled(runner, terms, questions.seed)
    return Marking(questions, _with_cache(with_control, terms, cache), jobs or default_jobs(), marked)


def regraded(
    submissions: Iterable[Submission], questions: Questions, runner: Runner
) -> tuple[dict[Submission, Provisional], bool]:
    """What can be marked without running anything, up to the first that has to be run; whether there is such a one."""
    found: dict[Submission, Provisional] = {}
    for submission in submissions:
        marked = mark_submission(submission, questions, runner)
        if marked.result.status is SubmissionStatus.NOT_GRADED:
            return found, True
        if marked.result.sha256:  # one that cannot be read is given the batch's tier, which is yet to be chosen
            found[submission] = marked
    return found, False


def _with_cache(runner: Runner, terms: Terms, cache: RunCache | None) -> Runner:
    """`runner` with the cache before it, if there is one."""
    return runner if cache is None else CachedRunner(cache, terms, runner)


def controlled(runner: BoxRunner, terms: Terms, seed: int) -> Runner:
    """`runner` with the control marked along; without one where it runs somebody's own work."""
    if terms.own_work:
        return StoppingRunner(runner)
    return ControlledRunner(seed, runner.at_pace, forked=runner.warm is not None)
