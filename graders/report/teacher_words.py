"""A teacher's points and comments in words, for pages and tables."""

from __future__ import annotations

from graders.core.results import ExerciseResult, SubmissionResult
from graders.core.text import format_points
from graders.report.titles import Titles

FROM_TEACHER = "From your teacher:"


def teacher_word(one: ExerciseResult | SubmissionResult) -> str:
    """The points by hand with the computed ones beside them, and the comment; empty if there is neither."""
    mark = one.by_hand
    if mark is None:
        return ""
    points = ""
    if mark.points is not None:
        points = f"{format_points(mark.points)} point{'' if mark.points == 1 else 's'} "
        points += f"(computed: {format_points(mark.computed)})."
    return " ".join(filter(None, (points, mark.comment)))


def teacher_words(submission: SubmissionResult, titles: Titles | None = None) -> list[str]:
    """What the teacher says about the lesson and then about its exercises, which are named by title, or by key."""
    named = [("", teacher_word(submission))]
    named += [
        (one.key if titles is None else titles.exercise(one.key), teacher_word(one)) for one in submission.exercises
    ]
    return [f"{name}: {word}".removeprefix(": ") for name, word in named if word]
