"""`hookwork grade`: marks a class from start to finish."""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, closing
from dataclasses import replace

from graders.core import course
from graders.core.errors import ExitCode
from graders.core.file_notes import FileNotes
from graders.core.results import Batch, SubmissionResult, SubmissionStatus
from graders.core.terminal import Terminal
from graders.core.text import format_count, format_points, shorten_text
from graders.instructor import accounts, cluster, kept, regrade
from graders.instructor.exporting import write_exports
from graders.instructor.group_work import GroupWork, content_hash, share_group_work, with_copies, without_copies
from graders.instructor.hand_marks import HAND_MARKS, read_hand_marks, with_hand_marks, write_template
from graders.instructor.lock import results_lock
from graders.instructor.machines import Machines
from graders.instructor.naming import by_number_alone, did_you_mean, named_by_roster
from graders.instructor.owners import owned_by_somebody_known, under_earlier_names
from graders.instructor.progress import marking_progress
from graders.instructor.report_inputs import course_titles
from graders.instructor.request import BadRequest, Request, iso_time
from graders.instructor.writing import write_reports
from graders.marking.batch import STOP_SECONDS, Marking
from graders.marking.cache import RunCache
from graders.marking.mark_submission import result_without_run
from graders.marking.questions import Questions
from graders.marking.setup import set_up_marking
from graders.report import outputs, summary
from graders.report.policy import LateRule, with_penalty, with_points
from graders.sandbox.outside.boxes import Boxes
from graders.sandbox.outside.leftovers import temporary_folder
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import NoRunner
from graders.submissions.finding import FoundSubmissions, Submission, find_submissions
from graders.submissions.lms import Owner
from graders.submissions.student_names import name_sort_key

GROUPS_EXIST = "If they handed in as groups: --groups CSV gives every member the result of the group."


def grade_class(request: Request, out: Terminal, boxes: Boxes, machines: Machines) -> int:
    """Mark a class, write all files, and print the table; returns the exit code.

    Notebooks run in `boxes`, or with `--cluster` on what `machines.cluster(address)` gives. Raises `BadRequest` when
    what was asked for is impossible.
    """
    gc.freeze()  # otherwise Python spends 0.1 to 0.4 s at its end searching all of torch for garbage
    if request.keep_outputs and request.cluster:
        raise BadRequest("Runs on a cluster stay there, along with what cells show: leave out --keep-outputs.")
    file_notes, hand_rows = FileNotes(), read_hand_marks(request.out)
    with ExitStack() as resources:
        scratch = resources.enter_context(temporary_folder("unpacked"))
        discovered = find_submissions(
            request.where,
            course.lesson_stems(),
            scratch,
            request.deadline_for,
            request.lessons,
            names=request.names,
            single=request.one_student,
            besides=request.out,
            roster=request.roster,
        )
        # Only now: if --out lies in the folder of the class, a new folder there would look like a student's.
        resources.enter_context(results_lock(request.out, lambda text: out.say(text, style="yellow")))
        before = _earlier_results(request, file_notes)
        discovered, work, strangers = _find_owners(discovered, before, request, out)
        found = work.submissions
        left = _left_from_before(before, found, request)
        chosen = _choose_submissions(found, request, left, out)
        if left:
            _refuse_other_terms(left, chosen, request)
        run_options = RunOptions(
            request.limits,
            request.isolation,
            # With a roster or exports it is not one's own work: an autograder marks a single stranger at a time.
            own_work=not (discovered.is_class or request.roster or request.groups or request.exports),
            allow_unisolated=request.allow_unisolated,
            keep_outputs=request.keep_outputs,
            private=tuple(str(path.absolute()) for path in (request.where, request.out, scratch, *request.files)),
        )
        batch = _mark_chosen(chosen, request, run_options, boxes, machines, file_notes, out)
        marked = replace(batch, submissions=_results_with_points(batch, chosen, request, work))
        joined = kept.join_results(left, marked, request.exercises, request.roster)
        batch = replace(joined.batch, seed=left.seed) if left and request.is_regrade else joined.batch
        work.doubts += joined.doubts
        by_hand = with_hand_marks(batch, hand_rows, request.forgotten)
        batch = by_hand.batch
        shown = course_titles(submission.lesson for submission in batch.submissions)
        written = outputs.write_tables(batch, request.out, file_notes)
        exports = write_exports(request, batch, shown, {submission.lesson for submission in chosen}, file_notes)
        written += exports.written
        with file_notes.noting_failure(request.out / HAND_MARKS):
            written += write_template(batch, request.out)
        if before:
            outputs.remove_old_pages(before, batch, request.out, file_notes)
        reported = None if request.is_regrade else discovered
        written += write_reports(
            batch, request.out, shown, without_copies(found), chosen, run_options, file_notes, reported
        )
    out.print(summary.render(batch, brief=True))
    missing = any(submission.status is SubmissionStatus.MISSING for submission in batch.submissions)
    _tell_strangers(strangers, out, groups_may_help=missing and not request.groups)
    out.say(*(() if request.is_regrade else joined.kept), *joined.notes, *by_hand.notes, *exports.notes)
    of_files = () if request.confirm_files else accounts.first_sentences(discovered.doubts)
    if doubts := [*of_files, *work.doubts, *by_hand.doubts, *exports.refused]:
        out.say("", "Please check")
        out.say(*doubts, style="yellow")
    out.say("", f"written: {', '.join(map(str, written))}")
    out.say(*file_notes.notes, style="yellow")
    # A stranger may be one of the people who are missing.
    sure = accounts.are_files_certain(discovered) and not work.doubts and not (strangers and missing)
    graded = all(submission.graded for submission in (*batch.submissions, *marked.submissions))
    fine = graded and not (file_notes.failed or by_hand.doubts or exports.refused) and (sure or request.confirm_files)
    return ExitCode.FINE if fine else ExitCode.NOT_GRADED


def _find_owners(
    discovered: FoundSubmissions, before: Batch | None, request: Request, out: Terminal
) -> tuple[FoundSubmissions, GroupWork, list[str]]:
    """What was found, under the names that count; the work of each person; and the strangers. Says how it was read."""
    same_people = list[str]()
    if before and not request.roster and not request.groups:
        named, same_people = under_earlier_names(discovered.submissions, before)
        discovered = replace(discovered, submissions=named)
    discovered, owner_doubts = owned_by_somebody_known(discovered, before, request)
    work, strangers = _sort_by_people(discovered.submissions, request)
    work.doubts += owner_doubts
    accounts.print_file_accounts(discovered, out, confirmed=request.confirm_files)
    out.say(*same_people, *work.notes)
    out.say(*work.doubts, style="yellow")
    return discovered, work, strangers


def _left_from_before(before: Batch | None, found: Sequence[Submission], request: Request) -> Batch | None:
    """The earlier results without those who are to be forgotten, under the names on the roster."""
    handed_in = {submission.student for submission in found if not submission.missing}
    left = kept.without_students(before, request.forgotten, handed_in)
    return kept.under_roster_names(left, request.roster) if left and request.roster else left


def _sort_by_people(found: Sequence[Submission], request: Request) -> tuple[GroupWork, list[str]]:
    """The submissions under roster names, with group work given to the members; and the strangers, sorted.

    Raises `BadRequest` when the roster belongs to another assignment.
    """
    work, strangers = GroupWork(list(found), due=list(request.lessons)), list[str]()
    if request.groups:
        work = share_group_work(found, request.groups, request.roster, request.lessons)
    if request.roster:
        others = {} if request.groups else by_number_alone(found, request.roster)
        work.submissions, strangers = named_by_roster(work.submissions, request.roster, work.due)
        if others and any(submission.missing for submission in work.submissions):
            listed = "; ".join(f"{student} as {name}" for student, name in sorted(others.items()))
            work.notes.append(f"Found by their numbers, under other names: {listed}. {GROUPS_EXIST}")
        work.notes += [f"About the roster: {request.roster.note}"] if request.roster.note else []
    return work, strangers


def _earlier_results(request: Request, file_notes: FileNotes) -> Batch | None:
    """What stands in `--out`. Raises `BadRequest` if it is needed for this command and cannot be read."""
    if request.is_regrade or request.forgotten:
        return regrade.load_results(request.out)
    return regrade.earlier_results(request.out, file_notes)


def _choose_submissions(
    found: Sequence[Submission], request: Request, before: Batch | None, out: Terminal
) -> list[Submission]:
    """The submissions to mark. Raises `BadRequest` for an unknown student, and when nothing is left to mark."""
    lessons = {course.find_exercise(key).lesson for key in request.exercises}
    students = {submission.student for submission in found}
    for name in request.students:
        if name not in students:
            if before and any(result.student == name for result in before.submissions):
                raise BadRequest(f"{name} stands in {request.out}, but {request.where} has nothing of theirs.")
            near = did_you_mean(name, students)
            if not near:
                out.say("Students:", *(f"  {student}" for student in sorted(students)))
            raise BadRequest(f"There is no student {name!r}. {near or 'They are listed above.'}")
    # Work of a group is marked again for all its members.
    files = {submission.file for submission in found if submission.student in request.students and submission.file}
    chosen = [
        submission
        for submission in found
        if (not request.students or submission.student in request.students or submission.file in files)
        and (not lessons or submission.lesson in lessons)
    ]
    if not chosen:
        raise BadRequest("Nobody handed in a notebook with these exercises.")
    return chosen


def _refuse_other_terms(before: Batch, chosen: Sequence[Submission], request: Request) -> None:
    """Raises `BadRequest` when a forgotten option would give back points that somebody lost by being late."""
    late = {(result.student, result.lesson): result for result in before.submissions if result.penalty}
    for submission in chosen:
        result = late.get((submission.student, submission.lesson))
        if result is None:
            continue
        dated = result.handed_in and request.deadline_for(Owner(submission.student, submission.student_id)) == math.inf
        if request.rule is None or (request.rule.share and dated):
            raise BadRequest(
                f"{submission.student} lost {format_points(result.penalty)} points in {submission.lesson} for being "
                "late. Give --deadline and --late as before, or --late none to give the points back."
            )


def _mark_chosen(
    chosen: Sequence[Submission],
    request: Request,
    run_options: RunOptions,
    boxes: Boxes,
    machines: Machines,
    file_notes: FileNotes,
    out: Terminal,
) -> Batch:
    """Mark these, here or on a cluster. The notebook of a group is marked once, for all its members."""
    once = without_copies(chosen)
    cache = RunCache(request.out / "runs", fresh=request.fresh)
    cache.check_folder()
    again = request.fresh and not request.is_regrade
    seed, repeated = regrade.choose_seeds(request.out, cache, machines.new_seed, given=request.seed, fresh=again)
    if request.cluster:
        with machines.cluster(request.cluster) as there:
            out.say(f"{_count_notebooks(once)} on {request.cluster}; seed {seed}", style="dim")
            batch = _mark_on_cluster(once, Questions(seed, repeated), run_options, there, out)
    else:
        marking = set_up_marking(seed, run_options, boxes, once, cache=cache, jobs=request.jobs, repeated=repeated)
        with closing(marking):
            batch = _mark_here(once, marking, out)
    if cache.trouble:
        file_notes.note(cache.trouble)
    return replace(batch, submissions=with_copies(batch.submissions, chosen))


def _handed_in(submissions: Sequence[Submission]) -> int:
    return sum(not submission.missing for submission in submissions)


def _count_notebooks(submissions: Sequence[Submission]) -> str:
    return format_count(_handed_in(submissions), "notebook")


def _mark_here(chosen: Sequence[Submission], marking: Marking, out: Terminal) -> Batch:
    """Mark these on this machine. After Ctrl+C, submissions without a result are `not-graded`; the rest is kept."""
    tier = marking.runner.tier
    how = f"isolation {tier}; what is new gets seed {marking.seed}" if tier else "all runs are kept from before"
    out.say(f"{_count_notebooks(chosen)}, {marking.jobs} at a time; {how}", style="dim")
    with marking_progress(_handed_in(chosen), out) as done:
        try:
            marking.start(chosen, done)
        except KeyboardInterrupt:
            out.say(
                "Interrupted. What has been marked is kept, and is written now. Running notebooks have "
                f"{STOP_SECONDS:g} seconds to finish; Ctrl+C once more ends them at once.",
                style="yellow",
            )
            marking.stop()
    return _complete_batch(marking.batch(), chosen, tier)


def _mark_on_cluster(
    chosen: Sequence[Submission], questions: Questions, run_options: RunOptions, executor: Executor, out: Terminal
) -> Batch:
    """Mark these on a cluster; submissions that need no run are handled on this machine."""
    tier = "D" if run_options.isolation == "auto" else run_options.isolation  # for results without a run
    found: dict[Submission, SubmissionResult] = {}
    with marking_progress(_handed_in(chosen), out) as done, closing(Marking(questions, NoRunner(tier))) as here:
        try:
            for submission, result in cluster.mark_on_cluster(executor, chosen, questions, run_options, tier):
                found[submission] = result
                done(result)
            here.start([submission for submission in chosen if submission not in found], done)
        except KeyboardInterrupt:
            out.say("Interrupted: what is marked is written.", style="yellow")
        batch = here.batch()
    return _complete_batch(replace(batch, submissions=(*batch.submissions, *found.values())), chosen, tier)


def _complete_batch(batch: Batch, chosen: Sequence[Submission], tier: str) -> Batch:
    """The batch sorted by student and lesson; submissions without a result get `not-graded`."""
    there = {(submission.student, submission.lesson) for submission in batch.submissions}
    why = "The run was interrupted before this notebook."
    left = [
        result_without_run(submission, SubmissionStatus.NOT_GRADED, why, tier)
        for submission in chosen
        if (submission.student, submission.lesson) not in there
    ]
    every = sorted((*batch.submissions, *left), key=lambda one: (name_sort_key(one.student), one.lesson))
    return replace(batch, submissions=tuple(every))


def _results_with_points(
    batch: Batch, chosen: Sequence[Submission], request: Request, work: GroupWork
) -> tuple[SubmissionResult, ...]:
    """The results with their final points, and with when, by which group and under which number they were handed in."""
    by_name = {(submission.student, submission.lesson): submission for submission in chosen}
    settled = []
    for result in batch.submissions:
        submission = by_name[result.student, result.lesson]
        dated = submission.handed_in and (request.deadline < math.inf or submission.late)
        described = replace(
            result,
            student_id=submission.student_id,
            superseded=submission.superseded,
            handed_in=iso_time(submission.handed_in) if dated else "",
            group=work.groups.get((submission.student, submission.lesson), ""),
            sha256=result.sha256 or (content_hash(submission) if submission.file and not result.graded else ""),
        )
        counted, rule = with_points(described, request.points), request.rule or LateRule()
        zone = request.zone_for(Owner(described.group or submission.student, submission.student_id))
        settled.append(with_penalty(counted, rule, submission.late or -1.0, submission.handed_in, zone))
    return tuple(settled)


def _tell_strangers(strangers: Sequence[str], out: Terminal, *, groups_may_help: bool) -> None:
    if not strangers:
        return
    names = ", ".join(shorten_text(name, 40) for name in strangers)
    out.say("", f"Not on the roster, or not clearly: {names}", style="yellow")
    if groups_may_help:
        out.say(GROUPS_EXIST, style="yellow")
