"""Complete lessons and keys when the shell's Tab key is pressed, without loading torch."""

from __future__ import annotations

from graders.core import course


def complete_keys(incomplete: str) -> list[str]:
    """The keys of exercises that start with `incomplete`."""
    return [
        key for lesson in course.lesson_stems() for key in course.exercise_keys(lesson) if key.startswith(incomplete)
    ]


def complete_lessons(incomplete: str) -> list[str]:
    """The lessons that start with `incomplete`, and then the keys that do."""
    return [lesson for lesson in course.lesson_stems() if lesson.startswith(incomplete)] + complete_keys(incomplete)
