"""The ways through the course: their names, and the exercises on them."""

from __future__ import annotations

import pytest

from graders.core import course
from graders.core.ways import CORE, EVERYTHING, WAYS, UnknownWay, find_way, keys_on


@pytest.mark.parametrize(
    ("typed", "way"),
    [("core", CORE), ("Core path", CORE), ("Only transformers", "transformers"), ("expl", "explaining predictions"),
     (" everything", EVERYTHING)],
)  # fmt: skip
def test_a_way_is_found_by_how_its_name_begins(typed: str, way: str) -> None:
    assert find_way(typed) == way


@pytest.mark.parametrize("typed", ["", "x", "6"])
def test_a_wrong_name_is_told_all_ways(typed: str) -> None:
    with pytest.raises(UnknownWay) as caught:
        find_way(typed)
    assert str(caught.value) == f"There is no way {typed!r} through the course. Ways: {', '.join(WAYS)}."


def test_the_core_path_has_the_core_exercises_and_a_short_way_all_of_its_lessons() -> None:
    every = course.every_exercise()
    assert keys_on(CORE) == {exercise.key for exercise in every if exercise.core}
    assert keys_on("features") == {exercise.key for exercise in every if exercise.lesson[:2] in ("05", "09")}
    assert keys_on(EVERYTHING) == keys_on("") == {exercise.key for exercise in every}
