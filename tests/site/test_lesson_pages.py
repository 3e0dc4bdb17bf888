"""The pages of the lessons: what a reader gets, and no answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.lesson_pages import index, page, write_pages
from graders.core import course, course_map
from graders.core.source import STUB, prediction_keys


@pytest.mark.parametrize("lesson", course.lesson_stems())
def test_a_page_has_contracts_stubs_and_hints_and_no_answer(lesson: str) -> None:
    cells = page(lesson).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for exercise in course.lesson_exercises(lesson):
        assert exercise.contract in text
        assert all(hint in text for hint in exercise.hints)
        (shown,) = (source for source in code if re.search(rf"^(def|class) {exercise.name}\b", source, re.M))
        assert STUB in shown
        assert course.worked_answer(exercise) not in code
    assert not [output for cell in cells for output in cell.get("outputs", []) if "text/html" in output.get("data", {})]


def test_what_a_guess_says_in_the_solution_is_on_no_page() -> None:
    code = [cell for lesson in course.lesson_stems() for cell in page(lesson).cells if cell.cell_type == "code"]
    guesses = [cell for cell in code if prediction_keys(cell.source)]
    assert len(guesses) == len(course.all_prediction_keys()) > 0
    assert [cell.outputs for cell in guesses if cell.outputs] == []
    assert all("=..." in cell.source for cell in guesses)


def test_every_figure_of_a_page_has_alt_text() -> None:
    for cell in (cell for lesson in course.lesson_stems() for cell in page(lesson).cells if cell.cell_type == "code"):
        pictures = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        assert len(pictures) <= 1  # the text belongs to the cell
        assert all(cell.metadata["mystnb"]["image"]["alt"] for _ in pictures)


def test_the_index_is_the_map_of_the_course() -> None:
    assert f"\n{course_map.as_markdown()}\n" in index()
    pages = index().partition("toctree")[2]
    assert all(f"<{lesson}>" in pages for lesson in course.lesson_stems())
    assert f"takes {course_map.whole_course_hours()}." in index()


def test_what_has_not_changed_is_not_written_again_and_what_is_no_page_goes(tmp_path: Path) -> None:
    write_pages(tmp_path)
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    (tmp_path / "99_gone.ipynb").touch()
    write_pages(tmp_path)
    assert {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == before
