"""What reports need besides the results: the titles of the course, and the text of the answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from graders.core import course
from graders.core.cells import defining_cell_by_name
from graders.core.untouched import leave_out_copies
from graders.report.similar import MAX_COMPARED, Answers, SimilarPair, similar_pairs
from graders.report.titles import Titles
from graders.submissions.finding import Submission
from graders.submissions.intake import Unreadable, read_notebook


def course_titles(lessons: Iterable[str]) -> Titles:
    """The titles of these lessons and their exercises. Lessons that the course does not have are left out."""
    found = sorted(set(lessons) & set(course.lesson_stems()))
    exercises = [exercise for lesson in found for exercise in course.lesson_exercises(lesson)]
    return Titles(
        lessons={lesson: course.lesson_title(lesson) for lesson in found},
        exercises={exercise.key: exercise.title for exercise in exercises},
    )


def similar_answers(submissions: Sequence[Submission]) -> list[SimilarPair]:
    """Pairs of students whose answers are alike, in all lessons together."""
    return similar_pairs(_answers_by_exercise(submissions))


def _answers_by_exercise(submissions: Sequence[Submission]) -> Iterator[Answers]:
    """All answers to each exercise. Only one lesson's texts are in memory at a time."""
    for lesson in sorted({submission.lesson for submission in submissions}):
        stubs = _answer_texts(lesson, course.lessons_folder() / f"{lesson}.ipynb")
        texts: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for submission in submissions:
            if submission.lesson == lesson:
                for key, text in _answer_texts(lesson, submission.file).items():
                    texts[key][submission.student] = text
        for exercise in course.lesson_exercises(lesson):
            given = course.worked_answer(exercise), stubs.get(exercise.key, "")
            yield Answers(exercise.key, texts[exercise.key], given)


def _answer_texts(lesson: str, file: Path | None) -> dict[str, str]:
    """The text of the cell with the answer, by exercise key; empty when the notebook cannot be read.

    Texts longer than `MAX_COMPARED` characters, which are not compared, are cut to one more than that.
    """
    if file is None:
        return {}
    exercises = course.lesson_exercises(lesson)
    try:
        cells, _ = leave_out_copies(read_notebook(file).cells, [exercise.name for exercise in exercises])
    except Unreadable:
        return {}
    home = defining_cell_by_name(cells)
    asked = [exercise for exercise in exercises if exercise.name in home]
    return {exercise.key: cells[home[exercise.name]][: MAX_COMPARED + 1] for exercise in asked}
