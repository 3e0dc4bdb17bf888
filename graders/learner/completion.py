"""What the shell offers after a Tab: lessons and keys, without loading torch."""

from __future__ import annotations

from graders.core import course


def keys(incomplete: str) -> list[str]:
    """The exercise keys that start so."""
    return [key for lesson in course.lessons() for key in course.keys(lesson) if key.startswith(incomplete)]


def lessons(incomplete: str) -> list[str]:
    """The lessons that start so, and then their keys."""
    return [lesson for lesson in course.lessons() if lesson.startswith(incomplete)] + keys(incomplete)
