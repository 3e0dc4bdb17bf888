"""Merges new results with those of an earlier run in the same folder."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from graders.core.file_notes import FileNotes
from graders.core.files import MAX_OWN_BYTES, read_own_file
from graders.core.results import Batch, ExerciseResult, SubmissionResult, SubmissionStatus
from graders.instructor.request import BadRequest
from graders.marking.questions import SeedsByFile
from graders.report import results_json
from graders.run.cache import RunCache


class _UnusableResults(Exception):
    """Raised for a results.json that is not ours; the message says what is wrong with it."""


def load_results(out: Path) -> Batch | None:
    """The results in `out/results.json`, None if there is no such file. Raises `BadRequest` if it cannot be read."""
    try:
        return _read_results(out)
    except _UnusableResults as error:
        raise BadRequest(f"{out / 'results.json'} {error}. Choose another --out, or move it away.") from None


def _read_results(out: Path) -> Batch | None:
    file = out / "results.json"
    if not os.path.lexists(file):
        return None
    try:
        return results_json.parse(read_own_file(file))
    except OSError as error:
        large = error.errno == errno.EFBIG
        why = f"has more than {MAX_OWN_BYTES >> 20} MiB" if large else "is not a file that only you can write"
        raise _UnusableResults(why) from None
    except ValueError:
        raise _UnusableResults("holds no results of this version") from None


def seeds_by_file(before: Batch | None) -> SeedsByFile:
    """The seed with which each graded file was marked, by student, lesson and SHA-256."""
    if before is None:
        return {}
    return {
        (submission.student, submission.lesson, submission.sha256): before.seed
        if submission.seed is None
        else submission.seed
        for submission in before.submissions
        if submission.sha256 and submission.status is SubmissionStatus.GRADED
    }


def choose_seeds(
    out: Path, cache: RunCache, new_seed: Callable[[], int], *, given: int | None, fresh: bool
) -> tuple[int, SeedsByFile]:
    """The seed for files that are new, and the seeds of those that were marked before.

    A `given` seed holds for all files. A `fresh` batch does not reuse earlier seeds.
    """
    if given is not None:
        return given, {}
    before = None
    with contextlib.suppress(_UnusableResults):  # then no earlier seed is reused
        before = _read_results(out)
    used = seeds_by_file(before)
    return cache.batch_seed(
        new_seed(), spent={*used.values(), *([before.seed] if before else [])}
    ), {} if fresh else used


def with_other_lessons(out: Path, new: Batch, file_notes: FileNotes) -> Batch:
    """The new results, together with those in `out` for lessons that are not among the new ones.

    Platforms give an archive for each assignment, and marking one must not delete the marks of another. Results that
    cannot be read are set aside, and `file_notes` says under which name. Raises `OSError` when that fails.
    """
    try:
        before = _read_results(out)
    except _UnusableResults as error:
        file_notes.note(f"{out / 'results.json'} {error}: it is kept as {_set_aside(out / 'results.json').name}.")
        return new
    if before is None:
        return new
    lessons = {submission.lesson for submission in new.submissions}
    kept = [
        replace(submission, seed=before.seed) if submission.seed is None and submission.exercises else submission
        for submission in before.submissions
        if submission.lesson not in lessons
    ]
    everything = sorted((*new.submissions, *kept), key=lambda submission: (submission.student, submission.lesson))
    return replace(new, submissions=tuple(everything)) if kept else new


def _set_aside(file: Path) -> Path:
    """Give a file a second, unused name, and return it. The first stays as well until a new file replaces it."""
    number = 1
    while os.path.lexists(aside := file.with_name(f"{file.stem}.set-aside-{number}{file.suffix}")):
        number += 1
    try:
        os.link(file, aside, follow_symlinks=False)
    except (OSError, NotImplementedError):  # it is a folder, or the drive has no links
        os.replace(file, aside)
    return aside


def merge_results(before: Batch, new: Batch, exercises: Sequence[str]) -> Batch:
    """The earlier results, with new ones in place of those for the same student and lesson.

    With `exercises` only the results of these keys are replaced, unless the notebook has changed since then.
    """
    old = {(submission.student, submission.lesson): submission for submission in before.submissions}
    for submission in new.submissions:
        who = submission.student, submission.lesson
        replaced = old.get(who)
        same = replaced and replaced.sha256 == submission.sha256 and replaced.exercises and submission.exercises
        old[who] = _merge_exercises(replaced, submission, exercises) if replaced and same and exercises else submission
    return replace(new, seed=before.seed, submissions=tuple(old[who] for who in sorted(old)))


def _merge_exercises(
    replaced: SubmissionResult, submission: SubmissionResult, exercises: Sequence[str]
) -> SubmissionResult:
    """The new result of a submission for these exercises, combined with the earlier one for all others."""
    fresh = {exercise.key: exercise for exercise in submission.exercises if exercise.key in exercises}
    results = tuple(fresh.get(exercise.key, exercise) for exercise in replaced.exercises)
    lost = submission.penalty / (submission.score + submission.penalty) if submission.penalty else 0.0
    reached = _total_score(results)
    penalty = round(reached * lost, 4)
    status = (
        SubmissionStatus.NOT_GRADED if submission.status is SubmissionStatus.NOT_GRADED else SubmissionStatus.GRADED
    )
    return replace(
        submission,
        exercises=results,
        status=status,
        penalty=penalty,
        score=round(reached - penalty, 4),
        max_score=round(sum(exercise.max_score for exercise in results), 4),
    )


def _total_score(results: Sequence[ExerciseResult]) -> float:
    return round(sum(exercise.score for exercise in results), 4)
