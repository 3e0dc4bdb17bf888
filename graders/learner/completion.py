"""What the shell offers after a Tab: lessons and keys, without loading torch."""

from __future__ import annotations

from graders.core import course


def complete_keys(incomplete: str) -> list[str]:
    """The exercise keys that start so."""
    return [
        key for lesson in course.lesson_stems() for key in course.exercise_keys(lesson) if key.startswith(incomplete)
    ]


def complete_lessons(incomplete: str) -> list[str]:
    """The lessons that start so, and then their keys."""
    return [lesson for lesson in course.lesson_stems() if lesson.startswith(incomplete)] + complete_keys(incomplete)
