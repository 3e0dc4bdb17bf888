"""The ways through the course that a learner may choose: its core path, a shorter course of the map, or everything."""

from __future__ import annotations

from graders.core import course
from graders.core.course_map import SHORT_COURSES
from graders.core.errors import HookworkError

CORE = "core path"
EVERYTHING = "everything"
"""The way of those who have chosen none."""
SHORT_WAYS = {name.removeprefix("Only "): numbers for name, numbers in SHORT_COURSES.items()}
"""The shorter courses by the names that learners type, each with the numbers of its lessons."""
WAYS = (CORE, *SHORT_WAYS, EVERYTHING)


class UnknownWay(HookworkError):
    """No way has this name; the message lists them all."""


def find_way(name: str) -> str:
    """The way whose name begins like `name`. Raises `UnknownWay`."""
    typed = str(name).strip().lower().removeprefix("only ")
    for way in WAYS:
        if typed and way.startswith(typed):
            return way
    raise UnknownWay(f"There is no way {name!r} through the course. Ways: {', '.join(WAYS)}.")


def keys_on(way: str) -> frozenset[str]:
    """The keys of the exercises on a way; those of the whole course for any other name.

    For the core path, this imports the graders, and so torch.
    """
    if way == CORE:
        return frozenset(exercise.key for exercise in course.every_exercise() if exercise.core)
    numbers = SHORT_WAYS.get(way)
    lessons = [lesson for lesson in course.lesson_stems() if numbers is None or lesson[:2] in numbers]
    return frozenset(key for lesson in lessons for key in course.exercise_keys(lesson))
