"""What reports need to know of the course beside the results: titles, and the answers' own text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from graders.core import course
from graders.core.cells import defining_cell_by_name
from graders.core.text import clean_text
from graders.report.similar import Pair, similar
from graders.report.titles import Titles
from graders.run.intake import Unreadable, read_notebook
from graders.run.submissions import Submission


def course_titles(lessons: Iterable[str]) -> Titles:
    """The titles of these lessons and their exercises."""
    found = sorted(set(lessons) & set(course.lesson_stems()))
    exercises = [exercise for lesson in found for exercise in course.lesson_exercises(lesson)]
    return Titles(
        lessons={lesson: course.lesson_title(lesson) for lesson in found},
        exercises={exercise.key: exercise.title for exercise in exercises},
        functions={exercise.key: exercise.name for exercise in exercises},
    )


def similar_answers(submissions: Sequence[Submission]) -> list[Pair]:
    """Pairs of students whose answers are alike, in all lessons together."""
    answers: dict[str, dict[str, str]] = {}
    for submission in submissions:
        for key, text in _answer_texts(submission.lesson, submission.file).items():
            answers.setdefault(key, {})[clean_text(submission.student, 200)] = text
    given: dict[str, list[str]] = {}
    for lesson in {submission.lesson for submission in submissions}:
        stubs = _answer_texts(lesson, course.lessons_folder() / f"{lesson}.ipynb")
        for exercise in course.lesson_exercises(lesson):
            given[exercise.key] = [course.worked_answer(exercise), stubs.get(exercise.key, "")]
    return similar(answers, given)


def _answer_texts(lesson: str, file: Path | None) -> dict[str, str]:
    """The text of the cell with the answer, by exercise key; none where the notebook cannot be read."""
    if file is None:
        return {}
    try:
        cells = read_notebook(file).cells
    except Unreadable:
        return {}
    home = defining_cell_by_name(cells)
    return {
        exercise.key: cells[home[exercise.name]]
        for exercise in course.lesson_exercises(lesson)
        if exercise.name in home
    }
