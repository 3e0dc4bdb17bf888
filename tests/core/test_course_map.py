"""The map of the course."""

from __future__ import annotations

import nbformat
import pytest

from graders.core import course
from graders.core.course_map import LESSON_SUMMARIES, SHORT_COURSES, as_markdown, format_duration

ROWS = [line for line in as_markdown().splitlines() if line.startswith("| [")]


def test_every_lesson_is_on_it_once_with_its_time_and_what_it_answers() -> None:
    assert list(LESSON_SUMMARIES) == [lesson[:2] for lesson in course.lesson_stems()]
    for lesson, row in zip(course.lesson_stems(), ROWS, strict=True):
        stop = LESSON_SUMMARIES[lesson[:2]]
        time = format_duration(stop.minutes).replace(" ", "\u00a0")
        assert row == f"| [{course.lesson_title(lesson)}]({lesson}.ipynb) | {time} | {stop.answers} |"
        assert stop.answers
        assert "|" not in stop.answers


def test_what_people_search_for_leads_to_a_lesson() -> None:
    for words, number in (
        ("`.grad` None", 1),
        ("output of a layer", 5),
        ("hook not called", 5),
        ("model not learn", 13),
        ("attention weights", 14),
    ):
        assert [row[3 : row.index(".")] for row in ROWS if words in row] == [str(number)]


def test_the_shorter_courses_name_their_lessons_and_how_long_they_take() -> None:
    assert "- **Core path**: 31 exercises, and the text of all lessons (about 20 h)" in as_markdown()
    assert "- **Only features**: lessons 5 and 9 (5 h)" in as_markdown()
    assert "- **Only debugging**: lessons 1, 2, 11 and 13 (8½ h)" in as_markdown()
    assert {number for numbers in SHORT_COURSES.values() for number in numbers} <= set(LESSON_SUMMARIES)


@pytest.mark.parametrize(
    ("minutes", "said"), [(10, "10 min"), (60, "1 h"), (90, "1½ h"), (145, "2½ h"), (1900, "31½ h")]
)
def test_times_are_said_to_the_half_hour(minutes: int, said: str) -> None:
    assert format_duration(minutes) == said


def test_lessons_that_are_not_there_are_left_out_and_so_is_one_that_is_not_on_it() -> None:
    some = [lesson for lesson in course.lesson_stems() if lesson[:2] in ("00", "05", "09")]
    text = as_markdown([*some, "98_of_your_own"])
    assert text.splitlines()[2:] == [
        *(row for row in ROWS if row[3 : row.index(".")] in ("0", "5", "9")),
        "",
        "- **Only features**: lessons 5 and 9 (5 h)",
        "- **Everything**, in the order of the table (5 h)",
    ]


def test_lesson_0_shows_it_and_it_is_written_nowhere_else() -> None:
    cells = nbformat.read(course.lessons_folder() / "00_three_hooks.ipynb", as_version=4).cells
    assert len([cell for cell in cells if as_markdown() in cell.source]) == 1
    root = course.PACKAGE.parent
    files = [*root.glob("solutions/*.py"), *root.glob("*.md"), *root.glob("docs/*.md")]
    assert files
    assert [
        file.name for file in files for stop in LESSON_SUMMARIES.values() if stop.answers in file.read_text("utf-8")
    ] == []
