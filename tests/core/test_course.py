from __future__ import annotations

import pytest

from graders.core import course


def test_lessons_are_found_by_the_names_of_their_graders() -> None:
    assert course.lessons()[:2] == ("01_where_gradients_live", "02_watching_gradients")
    assert list(course.lessons()) == sorted(course.lessons())


def test_an_exercise_is_found_by_its_key() -> None:
    found = course.find_exercise("01-chain-grads")
    assert (found.name, found.lesson) == ("chain_grads", "01_where_gradients_live")
    assert found in course.exercises("01_where_gradients_live")


def test_an_unknown_key_names_those_of_its_lesson() -> None:
    with pytest.raises(course.UnknownKey) as caught:
        course.find_exercise("01-chain")
    keys = ", ".join(exercise.key for exercise in course.exercises("01_where_gradients_live"))
    assert str(caught.value) == f"There is no exercise '01-chain'. Exercises: {keys}."


@pytest.mark.parametrize("key", ["", "chain_grads", "99-nothing"])
def test_a_key_of_no_lesson_names_all(key: str) -> None:
    with pytest.raises(course.UnknownKey, match=r"01-branch-grads, .*02-record-grad"):
        course.find_exercise(key)


def test_the_course_of_a_clone_lies_beside_the_package() -> None:
    assert course.lessons_folder() == course.PACKAGE.parent / "lessons"
    assert course.solutions_folder() == course.PACKAGE.parent / "solutions"
