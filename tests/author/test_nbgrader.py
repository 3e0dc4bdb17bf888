"""nbgrader's own tools read the built notebooks, where nbgrader is installed."""

from __future__ import annotations

import pytest

from graders.core import course

nbgraderformat = pytest.importorskip("nbgrader.nbgraderformat", reason="nbgrader is not installed")
preprocessors = pytest.importorskip("nbgrader.preprocessors", reason="nbgrader is not installed")
utils = pytest.importorskip("nbgrader.utils", reason="nbgrader is not installed")


@pytest.mark.parametrize("lesson", course.lesson_stems())
@pytest.mark.parametrize("folder", ["lessons", "solutions"])
def test_every_exercise_is_a_graded_answer_with_its_points(lesson: str, folder: str) -> None:
    file = getattr(course, f"{folder}_folder")() / f"{lesson}.ipynb"
    found = nbgraderformat.read(str(file), as_version=4)  # raises where the metadata is not as nbgrader wants it
    found, _ = preprocessors.CheckCellMetadata().preprocess(found, {})
    graded = {
        cell.metadata.nbgrader.grade_id: float(cell.metadata.nbgrader.points)
        for cell in found.cells
        if utils.is_grade(cell) and utils.is_solution(cell)
    }
    assert graded == {exercise.key: exercise.points for exercise in course.lesson_exercises(lesson)}
    locked = [cell.source for cell in found.cells if utils.is_locked(cell)]
    assert sorted(locked) == sorted(f'check("{key}")' for key in graded)
