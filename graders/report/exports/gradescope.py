"""Export to Gradescope: a `results.json` for each student, as autograders write it.

The format is documented at https://gradescope-autograders.readthedocs.io/en/latest/specs/#output-format.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from graders.core.results import Batch, CheckResult, ExerciseResult, Status, SubmissionResult, SubmissionStatus
from graders.core.status_styles import STATUS_STYLES
from graders.core.text import format_points
from graders.report.exports.exported import ExportRequest, ExportResult
from graders.report.names import file_names
from graders.report.teacher_words import FROM_TEACHER, teacher_words
from graders.report.titles import Titles

_NOT_GRADED_SENTENCE = "This could not be graded, and that is not your fault. Your instructor sees it, too."


def export(wanted: ExportRequest) -> ExportResult:
    """Make `gradescope/<student>/results.json` for each student."""
    folders = file_names(submission.student for submission in wanted.batch.submissions)
    found: dict[str, list[SubmissionResult]] = {}
    for submission in wanted.batch.submissions:
        found.setdefault(submission.student, []).append(submission)
    files: dict[str, str | bytes] = {
        f"gradescope/{folders[student]}/results.json": render(found[student], wanted.batch, wanted.titles)
        for student in found
    }
    return ExportResult(files)


def render(submissions: Sequence[SubmissionResult], batch: Batch, titles: Titles) -> str:
    """The file for one student, with all lessons that were handed in together."""
    tests: list[dict[str, Any]] = []
    for number, submission in enumerate(submissions, 1):
        tests += _test_entries(submission, number, titles)
    notes = [f"{titles.lesson(one.lesson)}: {_lesson_note(one)}" for one in submissions if _lesson_note(one)]
    notes += [
        f"{titles.lesson(submission.lesson)}: {FROM_TEACHER} {word}"
        for submission in submissions
        for word in teacher_words(submission, titles)
    ]
    data = {
        "score": round(sum(submission.score for submission in submissions), 4),
        "execution_time": round(sum(submission.seconds for submission in submissions)),
        "output": "\n".join([*notes, f"Inputs drawn from seed {batch.seed}; torch {batch.torch}."]),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"graded": all(submission.graded for submission in submissions), "seed": str(batch.seed)},
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _lesson_note(submission: SubmissionResult) -> str:
    if submission.status is SubmissionStatus.NOT_GRADED:
        return f"{_NOT_GRADED_SENTENCE} ({submission.message})"
    if submission.status is not SubmissionStatus.GRADED:
        return f"{submission.status.value}. {submission.message}"
    if not submission.penalty:
        return ""
    return f"{submission.late_note or 'late.'} {format_points(submission.penalty)} points are taken off."


def _test_entries(submission: SubmissionResult, lesson: int, titles: Titles) -> list[dict[str, Any]]:
    if not submission.exercises:
        title, most = titles.lesson(submission.lesson), submission.max_score
        return [
            {
                "name": title,
                "number": str(lesson),
                "score": submission.score,
                "max_score": most,
                "output": _lesson_note(submission),
            }
        ]
    return [
        _test_entry(exercise, check, f"{lesson}.{number}.{part}", first=part == 1, titles=titles)
        for number, exercise in enumerate(submission.exercises, 1)
        for part, check in enumerate(exercise.checks, 1)
    ]


def _test_entry(
    exercise: ExerciseResult, check: CheckResult, number: str, *, first: bool, titles: Titles
) -> dict[str, Any]:
    judged = exercise.status in (Status.PASSED, Status.WRONG)
    why = (
        [f"{STATUS_STYLES[exercise.status].word}. {' '.join(exercise.messages)}"] if first and exercise.message else []
    )
    why += [exercise.note] if first and exercise.note else []
    why += ["not judged"] if check.follows else [check.message] if judged and check.message else []
    why += (
        ["", "Run this below your answer to see it:", "", exercise.program.rstrip()]
        if first and exercise.program
        else []
    )
    test: dict[str, Any] = {
        "name": f"{titles.exercise(exercise.key)}: {check.name}",
        "number": number,
        "score": check.score,
        "max_score": check.max_score,
        "output": _NOT_GRADED_SENTENCE if exercise.status is Status.NOT_GRADED else "\n".join(why),
        "tags": [exercise.key, *(mistake for mistake, _ in exercise.mistakes)],
    }
    if exercise.status is not Status.NOT_GRADED:
        test["status"] = "passed" if check.passed else "failed"
    return test
