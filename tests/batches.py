"""Results as they come from marking, made by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from graders.core.results import Batch, CheckResult, ExerciseResult, Status, SubmissionResult, SubmissionStatus


def exercise(
    key: str, status: Status = Status.PASSED, score: float = 1, most: float = 1, **parts: Any
) -> ExerciseResult:
    checks = (
        CheckResult(
            name="it holds",
            passed=status is Status.PASSED,
            score=float(score),
            max_score=float(most),
            message=parts.get("message", ""),
        ),
    )
    return ExerciseResult(key=key, status=status, score=score, max_score=most, checks=checks, **parts)


def graded(student: str, *exercises: ExerciseResult, lesson: str = "01_first", **parts: Any) -> SubmissionResult:
    """A submission with these exercises, and the sums of their points."""
    score, most = sum(exercise.score for exercise in exercises), sum(exercise.max_score for exercise in exercises)
    return SubmissionResult(
        student=student,
        lesson=lesson,
        file=f"class/{student}/{lesson}.ipynb",
        sha256="a" * 64,
        status=parts.pop("status", SubmissionStatus.GRADED),
        isolation="D",
        score=score,
        max_score=most,
        seconds=1.25,
        exercises=exercises,
        **parts,
    )


def ungraded(
    student: str, status: SubmissionStatus, message: str = "", lesson: str = "01_first", most: float = 3
) -> SubmissionResult:
    """A submission that was not run, or not to its end."""
    return SubmissionResult(
        student=student,
        lesson=lesson,
        file="",
        sha256="",
        status=status,
        isolation="D",
        score=0.0,
        max_score=most,
        seconds=0.0,
        exercises=(),
        message=message,
    )


def batch(*submissions: SubmissionResult) -> Batch:
    return Batch(seed=42, torch="2.13.0", created="2026-01-02T03:04:05+00:00", submissions=submissions)


def at_random(students: int, keys: Mapping[str, Sequence[str]]) -> Batch:
    """A batch of so many students, with verdicts of many kinds on the exercises of these lessons: always the same."""
    kinds = ((Status.PASSED, 2.0), (Status.WRONG, 0.0), (Status.WRONG, 0.5), (Status.WRONG, 1.33), (Status.RAISED, 0.0),
             (Status.NOT_ATTEMPTED, 0.0))  # fmt: skip
    results = {key: [exercise(key, *kind, 2.0) for kind in kinds] for every in keys.values() for key in every}
    rng = random.Random(7)
    found = []
    for number in range(students):
        student, skill = f"student {number:05}", rng.random()
        weights = (1 + 5 * skill, *((1 - skill,) * 4), 1)
        for lesson, every in keys.items():
            if rng.random() < 0.98:
                verdicts = (rng.choices(results[key], weights)[0] for key in every)
                found.append(graded(student, *verdicts, lesson=lesson))
            else:
                found.append(ungraded(student, SubmissionStatus.MISSING, lesson=lesson))
    return batch(*found)
