"""The lesson of a file: what its name says and what it holds are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from graders.core import course
from graders.submissions.finding import find_submissions
from graders.submissions.lessons import Lessons
from tests import notebooks

LESSONS = course.lesson_stems()
FIRST, SECOND = LESSONS[1], LESSONS[2]
OF_FIRST, OF_SECOND = "def branch_grads(w, x):\n    return {}", "def record_grad(t, store):\n    return 1"
DECIDED = "has the name of lesson 01 and the content of lesson 02. It counts for lesson 0"


def lesson_of(folder: Path, *cells: str, metadata: str = "", name: str = FIRST) -> tuple[str | None, str]:
    """The lesson of a notebook of this name, with these cells and this lesson in its metadata, and what is doubtful."""
    file = folder / f"{name}.ipynb"
    file.write_text(notebooks.text(*cells, metadata={"hookwork": {"lesson": metadata}} if metadata else {}))
    return Lessons(LESSONS).lesson_in_content(file, file.name)


@pytest.mark.parametrize("lesson", LESSONS)
def test_each_lesson_and_its_solution_is_what_its_name_says(lesson: str) -> None:
    for folder in (course.lessons_folder(), course.solutions_folder()):
        assert Lessons(LESSONS).lesson_in_content(folder / f"{lesson}.ipynb", f"{lesson}.ipynb") == (lesson, "")


@pytest.mark.parametrize("lesson", LESSONS)
def test_under_any_other_name_each_lesson_is_doubted(lesson: str) -> None:
    for other in set(LESSONS) - {lesson}:
        counts, doubt = Lessons(LESSONS).lesson_in_content(
            course.lessons_folder() / f"{lesson}.ipynb", f"{other}.ipynb"
        )
        assert counts in (lesson, other)
        assert f"has the name of lesson {other[:2]} and the content of lesson {lesson[:2]}" in doubt


@pytest.mark.parametrize("metadata", ["", SECOND, FIRST])
def test_the_content_decides_where_nothing_in_it_is_of_the_lesson_in_the_name(tmp_path: Path, metadata: str) -> None:
    counts, doubt = lesson_of(tmp_path, OF_SECOND, 'check("02-record-grad")', metadata=metadata)
    assert counts == SECOND
    assert doubt == f"{FIRST}.ipynb {DECIDED}2. Check which one is meant, and rename the file."


@pytest.mark.parametrize("cells", [(OF_FIRST,), (OF_FIRST, OF_SECOND), ("x = 1",)])
def test_where_the_metadata_alone_speak_against_the_name_the_name_decides(
    tmp_path: Path, cells: tuple[str, ...]
) -> None:
    counts, doubt = lesson_of(tmp_path, *cells, metadata=SECOND)
    assert counts == FIRST
    assert (DECIDED in doubt) == (cells != (OF_FIRST,))


@pytest.mark.parametrize(
    ("cells", "metadata", "name"),
    [
        ((OF_FIRST,), FIRST, FIRST),
        ((OF_FIRST, OF_SECOND, 'check("02-record-grad")'), FIRST, FIRST),  # two lessons in one notebook
        ((OF_FIRST, OF_SECOND, 'check("02-record-grad")'), "", FIRST),
        (("x = 1",), "", FIRST),
        ((OF_FIRST,), "", "homework"),
        ((OF_FIRST,), SECOND, "homework"),
        (("x = 1",), FIRST, "homework"),
    ],
)
def test_where_nothing_differs_nothing_is_doubted(
    tmp_path: Path, cells: tuple[str, ...], metadata: str, name: str
) -> None:
    assert lesson_of(tmp_path, *cells, metadata=metadata, name=name) == (FIRST, "")


@pytest.mark.parametrize(
    ("cells", "lesson"),
    [
        (('check("02-record-grad")',), SECOND),
        (("import torch", "def chain_grads(): 1", "class branch_grads: 1"), FIRST),
        ((OF_FIRST, 'check("02-record-grad")'), None),  # as much of one as of the other
    ],
)
def test_a_renamed_notebook_is_known_by_its_functions_and_checks(
    tmp_path: Path, cells: tuple[str, ...], lesson: str | None
) -> None:
    assert lesson_of(tmp_path, *cells, name="homework") == (lesson, "")


def test_in_a_class_the_doubt_has_the_name_of_the_student(tmp_path: Path) -> None:
    for student, cell in (("ann", OF_FIRST), ("bob", OF_SECOND), ("cy", OF_FIRST)):
        (tmp_path / student).mkdir()
        lesson_of(tmp_path / student, cell)
    found = find_submissions(tmp_path, LESSONS)
    assert [(one.student, one.lesson, one.file is None) for one in found.submissions] == [
        ("ann", FIRST, False), ("bob", FIRST, True), ("bob", SECOND, False), ("cy", FIRST, False),
    ]  # fmt: skip
    assert [doubt.partition(":")[0] for doubt in found.doubts] == ["bob"]
    assert find_submissions(tmp_path / "bob" / f"{FIRST}.ipynb", LESSONS).doubts == (found.doubts[0][5:],)
