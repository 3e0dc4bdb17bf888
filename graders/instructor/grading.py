"""`hookwork grade`: a class marked from start to finish."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from graders.core import course
from graders.core.errors import ExitCode
from graders.core.files import write_atomically
from graders.core.results import Batch, SubmissionResult, SubmissionStatus
from graders.core.terminal import Terminal, console
from graders.core.text import clean, plural, points
from graders.instructor import accounts, cluster, regrade
from graders.instructor.report_inputs import similar_answers, titles
from graders.instructor.request import BadRequest, Request, iso, named_by_roster
from graders.marking.batch import Marking
from graders.marking.questions import Questions
from graders.marking.setup import set_up
from graders.marking.submission import without_run
from graders.report import outputs, summary
from graders.report.exports import EXPORTS
from graders.report.policy import LateRule, penalised, weighted
from graders.run.boxes import Boxes
from graders.run.cache import RunCache
from graders.run.leftovers import temporary_folder
from graders.run.lms import Owner
from graders.run.runner import NoRunner
from graders.run.submissions import Submission, find_submissions
from graders.run.terms import Terms

"""Exit codes: everything has a verdict, whatever the marks; something has none."""

TELL_EVERY = 30.0
"""Seconds between two lines of progress where there is no terminal to draw a bar on."""

Done = Callable[[SubmissionResult], None]


def grade(
    request: Request, out: Terminal, boxes: Boxes, executor: Callable[[str], AbstractContextManager[Executor]]
) -> int:
    """Mark, write all files, and print the table. The exit code.

    Notebooks run in `boxes`, or with `--cluster` on the executor at that address.
    """
    gc.freeze()  # otherwise Python searches all of torch for garbage when it ends, for 0.1 to 0.4 s
    if request.keep_outputs and request.cluster:
        raise BadRequest("The runs of a cluster stay there, and with them what cells show: leave out --keep-outputs.")
    before = regrade.load(request.out) if request.regrade else None
    with ExitStack() as resources:
        scratch = resources.enter_context(temporary_folder("unpacked"))
        discovered = find_submissions(
            request.where,
            course.lessons(),
            scratch,
            request.due,
            request.lessons,
            names=request.names,
            single=request.one_student,
        )
        accounts.tell(discovered, out, confirmed=request.confirm_files)
        found = discovered.submissions
        strangers: list[str] = []
        if request.roster:
            found, strangers = named_by_roster(found, request.roster, request.lessons)
        chosen = _chosen(found, request)
        if before:
            _refuse_other_terms(before, chosen, request)
        is_class = discovered.is_class or len({submission.student for submission in found}) > 1
        terms = Terms(
            request.limits,
            request.isolation,
            # Somebody's own work needs no roster, and goes nowhere: an autograder marks one stranger at a time.
            own_work=not (is_class or request.roster or request.exports),
            allow_unisolated=request.allow_unisolated,
            keep_outputs=request.keep_outputs,
        )
        cache = RunCache(request.out / "runs", fresh=request.fresh)
        again = request.fresh and not request.regrade
        seed, repeated = regrade.questions_seeds(request.out, cache, given=request.seed, fresh=again)
        if request.cluster:
            there = resources.enter_context(executor(request.cluster))
            out.say(f"{plural(len(chosen), 'notebook')} on {request.cluster}; seed {seed}", style="dim")
            batch = _marked_elsewhere(chosen, Questions(seed, repeated), terms, there, out)
        else:
            marking = set_up(seed, terms, boxes, chosen, cache=cache, jobs=request.jobs, repeated=repeated)
            resources.callback(marking.close)
            batch = _marked(chosen, marking, out)
        batch = replace(batch, submissions=_settled(batch, chosen, request))
        if before:
            batch = regrade.merged(before, batch, request.exercises)
        else:
            batch = regrade.with_other_lessons(request.out, batch)
        shown = titles(submission.lesson for submission in batch.submissions)
        written = outputs.write(batch, request.out, shown, similar_answers(found))
        if discovered.accounts and not request.regrade:
            written.append(accounts.write(discovered, request.out))
        if request.keep_outputs:
            from graders.instructor import executed  # its nbformat takes 1.5 s where JupyterLab is installed

            written.append(executed.write(batch, chosen, terms, request.out))
        for name in request.exports:
            files = EXPORTS[name](batch, shown, request.roster)
            for path, text in files.items():
                write_atomically(request.out / path, text, below=request.out)
            written.append(request.out / next(iter(files)).partition("/")[0] if files else request.out)
    out.print(summary.render(batch, brief=True))
    _tell_strangers(strangers, request, out)
    out.say("", f"written: {', '.join(map(str, written))}")
    sure = request.confirm_files or accounts.is_sure(discovered)
    graded = all(submission.graded for submission in batch.submissions)
    return ExitCode.FINE if graded and sure else ExitCode.NOT_GRADED


def _chosen(found: Sequence[Submission], request: Request) -> list[Submission]:
    """The submissions that are to be marked. Raises `BadRequest` for a student who is not there."""
    lessons = {course.find_exercise(key).lesson for key in request.exercises}
    students = {submission.student for submission in found}
    for name in request.students:
        if name not in students:
            near = [student for student in sorted(students) if name.casefold() in student.casefold()]
            others = (
                f"Did you mean {' or '.join(near[:3])}?" if near else f"Students: {', '.join(sorted(students)[:20])}"
            )
            raise BadRequest(f"There is no student {name!r}. {others}")
    chosen = [
        submission
        for submission in found
        if (not request.students or submission.student in request.students)
        and (not lessons or submission.lesson in lessons)
    ]
    if not chosen:
        raise BadRequest("Nobody handed in a notebook with these exercises.")
    return chosen


def _refuse_other_terms(before: Batch, chosen: Sequence[Submission], request: Request) -> None:
    """Raises `BadRequest` where somebody lost points by being late, and would get them back by a forgotten option."""
    late = {(result.student, result.lesson): result for result in before.submissions if result.penalty}
    for submission in chosen:
        result = late.get((clean(submission.student, 200), submission.lesson))
        if result is None:
            continue
        dated = result.handed_in and request.due(Owner(submission.student, submission.student_id)) == math.inf
        if request.rule is None or (request.rule.share and dated):
            raise BadRequest(
                f"{submission.student} lost {points(result.penalty)} points in {submission.lesson} by being late. Give "
                "--deadline and --late as before, or --late none to give the points back."
            )


def _marked(chosen: Sequence[Submission], marking: Marking, out: Terminal) -> Batch:
    """Mark these here. When interrupted, what has no result yet is `not-graded`; nothing is lost."""
    tier = marking.runner.tier
    how = f"isolation {tier}; what is new gets seed {marking.seed}" if tier else "all runs are kept from before"
    out.say(f"{plural(len(chosen), 'notebook')}, {marking.jobs} at a time; {how}", style="dim")
    with progress(len(chosen), out) as done:
        try:
            marking.start(chosen, done)
        except KeyboardInterrupt:
            out.say("Interrupted: notebooks that run now are finished, and what is marked is written.", style="yellow")
            marking.close()
    return _completed(marking.batch(), chosen, tier)


def _marked_elsewhere(
    chosen: Sequence[Submission], questions: Questions, terms: Terms, executor: Executor, out: Terminal
) -> Batch:
    """Mark these on a cluster; what needs no run is looked at here."""
    tier = "D" if terms.isolation == "auto" else terms.isolation  # of what was never run
    found: dict[Submission, SubmissionResult] = {}
    with progress(len(chosen), out) as done, closing(Marking(questions, NoRunner(tier))) as here:

        def not_marked(submission: Submission, why: str) -> SubmissionResult:
            return without_run(submission, SubmissionStatus.NOT_GRADED, why, tier)

        try:
            for submission, result in cluster.mark_elsewhere(executor, chosen, questions, terms, done, not_marked):
                found[submission] = result
            here.start([submission for submission in chosen if submission not in found], done)
        except KeyboardInterrupt:
            out.say("Interrupted: what is marked is written.", style="yellow")
        batch = here.batch()
    return _completed(replace(batch, submissions=(*batch.submissions, *found.values())), chosen, tier)


def _completed(batch: Batch, chosen: Sequence[Submission], tier: str) -> Batch:
    """The batch in order, with a result for each submission."""
    there = {(submission.student, submission.lesson) for submission in batch.submissions}
    why = "The run was interrupted before this notebook."
    left = [
        without_run(submission, SubmissionStatus.NOT_GRADED, why, tier)
        for submission in chosen
        if (clean(submission.student, 200), submission.lesson) not in there
    ]
    return replace(batch, submissions=tuple(sorted((*batch.submissions, *left), key=_place)))


def _place(submission: SubmissionResult) -> tuple[str, str]:
    return submission.student, submission.lesson


def _settled(batch: Batch, chosen: Sequence[Submission], request: Request) -> tuple[SubmissionResult, ...]:
    """The results with the points that count, and with what is known of how they were handed in."""
    by_name = {(clean(submission.student, 200), submission.lesson): submission for submission in chosen}
    settled = []
    for result in batch.submissions:
        submission = by_name[result.student, result.lesson]
        dated = submission.handed_in and (request.deadline < math.inf or submission.late)
        described = replace(
            result,
            student_id=clean(submission.student_id, 60),
            superseded=submission.superseded,
            handed_in=iso(submission.handed_in) if dated else "",
        )
        counted, rule = weighted(described, request.points), request.rule or LateRule()
        settled.append(penalised(counted, rule, submission.late or -1.0, submission.handed_in))
    return tuple(settled)


def _tell_strangers(strangers: Sequence[str], request: Request, out: Terminal) -> None:
    if strangers:
        names = ", ".join(clean(name, 40) for name in strangers)
        out.say("", f"Not in the roster, or not clearly: {names}", style="yellow")


@contextmanager
def progress(total: int, out: Terminal) -> Iterator[Done]:
    """Something to call after each notebook: a bar on a terminal, elsewhere a line now and then.

    What it counts has a result. The time that is left is the mean of what was measured, and none is shown before that.
    """
    if not out.is_terminal:
        count, told = 0, time.monotonic()

        def tell(result: SubmissionResult) -> None:
            nonlocal count, told
            count += 1
            if time.monotonic() - told > TELL_EVERY or count == total:
                told = time.monotonic()
                console(stderr=True).say(f"{count} of {total} notebooks marked")

        yield tell
        return
    columns = (TextColumn("marked"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"),
               TimeRemainingColumn(), TextColumn("{task.fields[odd]}"))  # fmt: skip
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("notebooks", total=total, odd="")
        odd = 0

        def advance(result: SubmissionResult) -> None:
            nonlocal odd
            odd += not result.graded
            bar.update(task, advance=1, odd=f"{odd} not graded" if odd else "")

        yield advance
