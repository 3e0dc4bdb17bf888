from __future__ import annotations

from pathlib import Path

from graders.core import course
from graders.core.source import exercise_cells
from graders.instructor.group_work import without_copies
from graders.instructor.report_inputs import course_titles, similar_answers
from graders.report.similar import SimilarPair
from graders.submissions.finding import Submission
from tests import notebooks
from tests.notebooks import KEYS, LESSON
from tests.report.test_similar import LONG


def submission(folder: Path, student: str, *cells: str) -> Submission:
    file = folder / f"{student}.ipynb"
    file.write_text(notebooks.text(*cells))
    return Submission(student, LESSON, file)


def test_answers_are_found_by_their_name_in_the_last_cell_that_defines_them(tmp_path: Path) -> None:
    mine = LONG.replace("def watch", "def chain_grads")
    found = similar_answers(
        [
            submission(tmp_path, "ann", "1", mine),
            submission(tmp_path, "bob", mine, "def chain_grads(fns, x):\n    return 1"),
            submission(tmp_path, "cy", mine.replace("seen", "found")),
            Submission("di", LESSON, None),
            Submission("eve", LESSON, tmp_path / "nothing.ipynb"),
        ]
    )
    assert found == [SimilarPair("ann", "cy", ("01-chain-grads",), 1.0)]


def test_the_stub_and_the_worked_answer_tell_nothing(tmp_path: Path) -> None:
    stub = (course.lessons_folder() / f"{LESSON}.ipynb").read_text()
    solved = list(exercise_cells(course.lesson_source(LESSON)).values())
    (tmp_path / "a.ipynb").write_text(stub)
    found = [Submission(name, LESSON, tmp_path / "a.ipynb") for name in ("ann", "bob")]
    found += [submission(tmp_path, name, *solved) for name in ("cy", "di")]
    assert similar_answers(found) == []


def test_members_of_a_group_did_not_copy_from_each_other(tmp_path: Path) -> None:
    first = submission(tmp_path, "ann", "1", LONG.replace("def watch", "def chain_grads"))
    found = [first, Submission("bob", LESSON, first.file)]
    assert len(similar_answers(found)) == 1
    assert similar_answers(without_copies(found)) == []


def test_titles_are_those_of_the_course_and_other_lessons_have_none() -> None:
    found = course_titles([LESSON, "99_nothing"])
    assert found.lesson(LESSON) == "1. Where gradients live"
    assert found.lesson("99_nothing") == "99_nothing"
    assert found.exercise(KEYS[1]) == "The gradient at every step of a chain"
