"""Render `feedback/<student>/<NN_topic>.html`, the page that tells one student about one lesson."""

from __future__ import annotations

from graders.core.results import Batch, ExerciseResult, Status, SubmissionResult, SubmissionStatus
from graders.core.status_styles import STATUS_STYLES
from graders.core.text import format_points, shorten_text
from graders.report import pages
from graders.report.teacher_words import teacher_word
from graders.report.titles import Titles

_JUDGED = (Status.PASSED, Status.WRONG)
_STATES = {
    SubmissionStatus.UNREADABLE: "This file could not be read as a notebook, so nothing in it was marked.",
    SubmissionStatus.MISSING: "No notebook was handed in for this lesson.",
    SubmissionStatus.NOT_GRADED: "This could not be graded. That is not your fault, and it does not count as zero.",
}


def render(submission: SubmissionResult, batch: Batch, titles: Titles) -> str:
    """The page for one submission as HTML. All text from outside is escaped."""
    graded = submission.status is SubmissionStatus.GRADED or submission.decided
    score = f"{format_points(submission.score)} of {format_points(submission.max_score)} points"
    return pages.render_template(
        "feedback.html",
        title=titles.lesson(submission.lesson),
        student=submission.student,
        group=submission.group,
        score=score if graded else _STATES[submission.status],
        changed=_changed_sentence(submission),
        teacher=teacher_word(submission),
        penalty=_penalty_sentence(submission),
        message=submission.message,
        missing_modules=submission.missing_modules,
        exercises=[_exercise_view(exercise, titles) for exercise in submission.exercises],
        created=_format_time(batch.created),
        file=_file_name(submission.file),
        seed=batch.seed if submission.seed is None and submission.exercises else submission.seed,
        number=submission.lesson[:2].lstrip("0"),
        torch=batch.torch,
        superseded=list(map(_file_name, submission.superseded)),
    )


def _file_name(path: str) -> str:
    return shorten_text(path.replace("\\", "/").rpartition("/")[2], 200)


def _changed_sentence(submission: SubmissionResult) -> str:
    """What was computed, if a teacher gave points for exercises alone; otherwise empty."""
    if submission.decided or submission.score == submission.computed_score:
        return ""
    return (
        f"Computed: {format_points(submission.computed_score)}. Your teacher changed the points of an exercise below."
    )


def _penalty_sentence(submission: SubmissionResult) -> str:
    if not submission.penalty:
        return ""
    reached = format_points(submission.computed_score + submission.penalty)
    why = submission.late_note or "Handed in late."
    return f"{why} So {format_points(submission.penalty)} of the {reached} points reached are taken off."


def _format_time(iso: str) -> str:
    """A time in ISO 8601, as people write it: `2026-01-02 03:04 UTC`."""
    text = iso.replace("T", " ")
    return f"{text[:16]} UTC" if text.endswith("+00:00") else text


def _exercise_view(exercise: ExerciseResult, titles: Titles) -> dict[str, object]:
    """An exercise as the page shows it. `withheld`: some checks hold but earn nothing, because the first one failed."""
    # An exercise that was not judged has one reason, its message; its checks have none of their own.
    judged = exercise.status in _JUDGED
    repeated = exercise.mistake is None and any(check.message.startswith(exercise.message) for check in exercise.checks)
    return {
        "result": exercise,
        "title": titles.exercise(exercise.key),
        "word": _verdict_word(exercise),
        "messages": () if judged and repeated else exercise.messages,
        "checks": exercise.checks if judged else (),
        "withheld": judged and any(check.passed and not check.score and check.max_score for check in exercise.checks),
        "advice": _advice_sentence(exercise),
        "teacher": teacher_word(exercise),
    }


def _verdict_word(exercise: ExerciseResult) -> str:
    """The verdict. A missing name is "Not defined": its answer may be in a cell that Python could not run."""
    missing = exercise.status is Status.NOT_ATTEMPTED and not exercise.defined
    return "Not defined" if missing else STATUS_STYLES[exercise.status].word


def _advice_sentence(exercise: ExerciseResult) -> str:
    key = exercise.key
    if exercise.status is Status.PASSED:
        return f'Compare with the worked answer: `solution("{key}")`'
    if exercise.status in (Status.NOT_GRADED, Status.SUSPECT):
        return ""
    return f'In the notebook, `hint("{key}")` gives a hint, and `check("{key}")` tries your answer on new inputs.'
