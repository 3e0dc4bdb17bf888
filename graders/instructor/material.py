"""What reports need to know of the course beside the results: titles, and the answers' own text."""

from __future__ import annotations

from collections.abc import Iterable

from graders.core import course
from graders.report.titles import Titles


def titles(lessons: Iterable[str]) -> Titles:
    """The titles of these lessons and their exercises."""
    found = sorted(set(lessons) & set(course.lessons()))
    exercises = [exercise for lesson in found for exercise in course.exercises(lesson)]
    return Titles(
        {lesson: course.title(lesson) for lesson in found},
        {exercise.key: exercise.title for exercise in exercises},
        {exercise.key: exercise.name for exercise in exercises},
    )
