from __future__ import annotations

import subprocess
import sys

import pytest

from graders.core import course


def test_lessons_are_found_by_the_names_of_their_graders() -> None:
    assert course.lesson_stems()[:2] == ("00_three_hooks", "01_where_gradients_live")
    assert list(course.lesson_stems()) == sorted(course.lesson_stems())


def test_an_exercise_is_found_by_its_key() -> None:
    found = course.find_exercise("01-chain-grads")
    assert (found.name, found.lesson) == ("chain_grads", "01_where_gradients_live")
    assert found in course.lesson_exercises("01_where_gradients_live")


def why_no_exercise(key: str) -> str:
    with pytest.raises(course.UnknownKey) as caught:
        course.find_exercise(key)
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("01-chain-grad", "01-chain-grads"),
        ("01_chain_grads", "01-chain-grads"),
        ("chain_grads", "01-chain-grads"),
        ("chain-grads", "01-chain-grads"),
        ("01-Branch-Grads", "01-branch-grads"),
        ("99-branch-grads", "01-branch-grads"),
    ],
)
def test_what_may_have_been_meant_is_asked(key: str, meant: str) -> None:
    assert why_no_exercise(key).startswith(f"There is no exercise {key!r}. Did you mean {meant}")


def test_an_unknown_key_names_those_of_its_lesson() -> None:
    keys = ", ".join(course.exercise_keys("01_where_gradients_live"))
    assert why_no_exercise("01-nothing") == f"There is no exercise '01-nothing'. Exercises: {keys}."


@pytest.mark.parametrize("key", ["", "99-nothing"])
def test_a_key_of_no_lesson_names_all(key: str) -> None:
    message = why_no_exercise(key)
    assert message.index("01-branch-grads, ") < message.index("02-record-grad")


@pytest.mark.parametrize("lesson", course.lesson_stems())
def test_the_keys_in_a_lessons_source_are_those_of_its_grader(lesson: str) -> None:
    assert sorted(course.exercise_keys(lesson)) == sorted(exercise.key for exercise in course.lesson_exercises(lesson))


def test_a_lesson_is_found_by_its_number_its_stem_and_its_file() -> None:
    for name in ("2", "02", "02_watching_gradients", "02_watching_gradients.ipynb"):
        assert course.find_lesson(name) == "02_watching_gradients"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("watching_gradients", "Did you mean 02_watching_gradients?"),
        ("99", "Lessons: 00_three_hooks, 01_where_gradients_live, "),
        ("", "Lessons: 00_three_hooks, "),
    ],
)
def test_an_unknown_lesson_says_which_there_are(name: str, part: str) -> None:
    with pytest.raises(course.UnknownLesson) as caught:
        course.find_lesson(name)
    assert str(caught.value).startswith(f"There is no lesson {name!r}. {part}")


def test_every_lesson_has_a_title() -> None:
    assert course.lesson_title("01_where_gradients_live") == "1. Where gradients live"
    assert all(course.lesson_title(lesson) != lesson for lesson in course.lesson_stems())


def test_the_course_of_a_clone_lies_beside_the_package() -> None:
    assert course.lessons_folder() == course.PACKAGE.parent / "lessons"
    assert course.solutions_folder() == course.PACKAGE.parent / "solutions"


def test_lessons_and_keys_are_named_without_torch() -> None:
    code = (
        "import sys, graders.cli; from graders.core import course; "
        "print([course.exercise_keys(one) for one in course.lesson_stems()]); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
