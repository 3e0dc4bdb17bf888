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
    checks = (CheckResult("it holds", status is Status.PASSED, float(score), float(most), parts.get("message", "")),)
    return ExerciseResult(key, status, score, most, checks=checks, **parts)


def graded(student: str, *exercises: ExerciseResult, lesson: str = "01_first", **parts: Any) -> SubmissionResult:
    """A submission with these exercises, and the sums of their points."""
    score, most = sum(one.score for one in exercises), sum(one.max_score for one in exercises)
    return SubmissionResult(
        student, lesson, f"class/{student}/{lesson}.ipynb", "a" * 64, parts.pop("status", SubmissionStatus.GRADED), "D",
        score, most, 1.25, exercises, **parts,
    )  # fmt: skip


def ungraded(
    student: str, status: SubmissionStatus, message: str = "", lesson: str = "01_first", most: float = 3
) -> SubmissionResult:
    """A submission that was not run, or not to its end."""
    return SubmissionResult(student, lesson, "", "", status, "D", 0.0, most, 0.0, (), message)


def batch(*submissions: SubmissionResult) -> Batch:
    """A batch of these."""
    return Batch(42, "2.13.0", "2026-01-02T03:04:05+00:00", submissions)
