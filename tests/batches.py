"""Results as they come from marking, made by hand."""

from __future__ import annotations

from typing import Any

from graders.core.results import (
    Batch,
    CheckResult,
    ExerciseResult,
    Status,
    SubmissionResult,
    SubmissionStatus,
)


def exercise(
    key: str, status: Status = Status.PASSED, score: float = 1, most: float = 1, **parts: Any
) -> ExerciseResult:
    """The result of an exercise with one check."""
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
    """A batch of these."""
    return Batch(seed=42, torch="2.13.0", created="2026-01-02T03:04:05+00:00", submissions=submissions)
