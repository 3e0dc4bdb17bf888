"""Results of an earlier run, and a part of them that was marked again."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from graders.core.draws import new_seed
from graders.core.files import read_own
from graders.core.results import Batch, ExerciseResult, SubmissionResult, SubmissionStatus
from graders.instructor.request import BadRequest
from graders.marking.questions import Earlier
from graders.report import results_json
from graders.run.cache import RunCache


def load(out: Path) -> Batch | None:
    """The results in `out/results.json`; None where there are none. Raises `BadRequest` when they cannot be read."""
    file = out / "results.json"
    if not os.path.lexists(file):
        return None
    try:
        return results_json.batch_from_data(json.loads(read_own(file)))
    except OSError:
        raise BadRequest(
            f"{file} is not a file of yours alone, so it is not gone on with. Copy it, or choose another --out."
        ) from None
    except ValueError:
        raise BadRequest(f"{file} holds no results of this version. Choose another --out, or move it away.") from None


def seeds(before: Batch | None) -> Earlier:
    """The seed with which each file was marked, by student, lesson and SHA-256."""
    if before is None:
        return {}
    return {
        (one.student, one.lesson, one.sha256): before.seed if one.seed is None else one.seed
        for one in before.submissions
        if one.sha256 and one.status is SubmissionStatus.GRADED
    }


def questions_seeds(out: Path, cache: RunCache, *, given: int | None, fresh: bool) -> tuple[int, Earlier]:
    """The seed of what is marked for the first time, and the seeds of what was marked before.

    With `given` that is the seed of all; a `fresh` batch begins anew.
    """
    if given is not None:
        return given, {}
    before = None
    with contextlib.suppress(BadRequest):  # of another version, or none at all: nothing is repeated then
        before = load(out)
    known = seeds(before)
    return cache.seed(new_seed(), spent={*known.values(), *([before.seed] if before else [])}), {} if fresh else known


def merged(before: Batch, new: Batch, exercises: Sequence[str]) -> Batch:
    """The earlier results with what is new in place of what it replaces.

    With `exercises` only these are replaced, unless the notebook is another one by now: then all of it is new.
    """
    old = {(one.student, one.lesson): one for one in before.submissions}
    for one in new.submissions:
        known = old.get((one.student, one.lesson))
        same = known is not None and known.sha256 == one.sha256 and known.exercises and one.exercises
        old[one.student, one.lesson] = _partly(known, one, exercises) if known and same and exercises else one
    return replace(new, seed=before.seed, submissions=tuple(old[who] for who in sorted(old)))


def _partly(known: SubmissionResult, one: SubmissionResult, exercises: Sequence[str]) -> SubmissionResult:
    fresh = {exercise.key: exercise for exercise in one.exercises if exercise.key in exercises}
    results = tuple(fresh.get(exercise.key, exercise) for exercise in known.exercises)
    lost = one.penalty / (one.score + one.penalty) if one.penalty else 0.0
    reached = _sum(results)
    penalty = round(reached * lost, 4)
    status = SubmissionStatus.NOT_GRADED if one.status is SubmissionStatus.NOT_GRADED else SubmissionStatus.GRADED
    return replace(one, exercises=results, status=status, penalty=penalty, score=round(reached - penalty, 4),
                   max_score=round(sum(exercise.max_score for exercise in results), 4))  # fmt: skip


def _sum(results: Sequence[ExerciseResult]) -> float:
    return round(sum(one.score for one in results), 4)
