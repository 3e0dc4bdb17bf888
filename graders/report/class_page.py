"""Render `class.html`, which shows a teacher what the class has understood and what it has not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from graders.core.results import Batch, ExerciseResult, Status, SubmissionResult, SubmissionStatus
from graders.core.status_styles import STATUS_STYLES
from graders.core.text import format_count, format_points, shorten_text
from graders.report import class_numbers as numbers
from graders.report import pages, plots
from graders.report.class_numbers import CommonMistake, ExerciseNumbers
from graders.report.similar import SimilarPair
from graders.report.titles import Titles

SHOWN_MISTAKES, SHOWN_PAIRS, SHOWN_NAMES, SHOWN_HELP, SHOWN_UNGRADED, SHOWN_MODULES = 12, 20, 8, 15, 200, 50
"""The most entries of each list; the page says how many more there are."""
SHOWN_STUDENTS = 100
"""The most rows of the matrix that are shown at a time."""
SHOWN_WITHOUT_SCRIPT = 25
"""The rows of a larger class where no script runs: a browser reads them only to throw them away where one does."""

_STATES = {
    SubmissionStatus.MISSING: "missing",
    SubmissionStatus.UNREADABLE: "unreadable",
    SubmissionStatus.NOT_GRADED: "not graded",
}
_SIGNS: dict[Status | str | None, tuple[str, str]] = {
    **{status: (pages.status_sign(status), status.value) for status in Status},
    "partly": ("◐", Status.WRONG.value),
    None: ("", ""),
}
"""How an exercise is shown in the matrix: its sign and CSS class. A row has its index here as a hexadecimal digit."""
BY_HAND = "✎"
"""Stands behind points that a teacher has given."""
_DIGITS = {kind: f"{place:x}" for place, kind in enumerate(_SIGNS)}


def render(batch: Batch, titles: Titles, folders: Mapping[str, str], similar: Sequence[SimilarPair] = ()) -> str:
    """The page as HTML. `folders` maps each student to the name of their folder in `feedback/`."""
    found = numbers.exercise_numbers(batch)
    students = numbers.student_numbers(batch)
    lessons = sorted({submission.lesson for submission in batch.submissions})
    keys = {lesson: numbers.exercise_keys(batch, lesson) for lesson in lessons}
    rows = _matrix_rows(batch, lessons, keys, folders)
    first = rows if len(rows) <= SHOWN_STUDENTS else rows[:SHOWN_WITHOUT_SCRIPT]
    needy, ungraded = numbers.students_needing_help(students), numbers.ungraded_items(batch)
    modules = numbers.missing_module_counts(batch)
    shares = [student.share for student in students if student.max_score]
    return pages.render_template(
        "class.html",
        headline=_class_headline(batch, len(students)),
        lessons=[(lesson, titles.lesson(lesson), keys[lesson]) for lesson in lessons],
        titles=titles,
        found=found,
        bars=plots.bar_chart(
            [(exercise.key, _bar_segments(exercise)) for exercise in found],
            "Verdicts by exercise. The numbers are in the table that follows.",
        ),
        segments={exercise.key: _bar_segments(exercise) for exercise in found},
        meanings=plots.BAR_PARTS,
        histogram=plots.histogram(shares, _describe_distribution(shares)),
        distribution=_describe_distribution(shares),
        mistakes=[(one, _who_made_it(one)) for one in numbers.common_mistakes(batch)[:SHOWN_MISTAKES]],
        hardest=numbers.hardest_exercises(found),
        help=needy[:SHOWN_HELP],
        more_help=max(0, len(needy) - SHOWN_HELP),
        ungraded=ungraded[:SHOWN_UNGRADED],
        more_ungraded=max(0, len(ungraded) - SHOWN_UNGRADED),
        missing_modules=modules[:SHOWN_MODULES],
        more_modules=max(0, len(modules) - SHOWN_MODULES),
        script=pages.load_script("class.js"),
        signs=dict(zip(_DIGITS.values(), _SIGNS.values())),
        rows=first,
        by_hand=BY_HAND if any(map(_is_by_hand, batch.submissions)) else "",
        more_rows=len(rows) - len(first),
        data=_rows_as_data(rows, lessons),
        legend=[status for status in STATUS_STYLES if any(exercise.counts.get(status) for exercise in found)],
        similar=list(similar)[:SHOWN_PAIRS],
        more_similar=max(0, len(similar) - SHOWN_PAIRS),
        batch=batch,
        tiers=", ".join(sorted({submission.isolation for submission in batch.submissions})),
    )


def _class_headline(batch: Batch, students: int) -> str:
    graded = sum(submission.status is SubmissionStatus.GRADED for submission in batch.submissions)
    missing = sum(submission.status is SubmissionStatus.MISSING for submission in batch.submissions)
    handed_in = format_count(len(batch.submissions) - missing, "notebook")
    parts = [format_count(students, "student"), f"{graded} of {handed_in} marked"]
    return ", ".join([*parts, f"{missing} missing"] if missing else parts)


def _bar_segments(exercise: ExerciseNumbers) -> list[int]:
    """The counts of students for `plots.BAR_PARTS`, in that order."""
    ended = exercise.students - exercise.count(Status.PASSED, Status.WRONG, Status.NOT_ATTEMPTED)
    return [exercise.count(Status.PASSED), exercise.count(Status.WRONG), ended, exercise.count(Status.NOT_ATTEMPTED)]


def _describe_distribution(shares: Sequence[float]) -> str:
    if not shares:
        return "Nobody has been marked yet."
    ordered = sorted(shares)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    full = sum(share > 1 - 1e-9 for share in shares)
    return (
        f"Half of the class has {100 * middle:.0f} % of the points or more; the lowest is {100 * ordered[0]:.0f} %, "
        f"the highest {100 * ordered[-1]:.0f} %. {full} of {len(shares)} reached all points."
    )


def _who_made_it(mistake: CommonMistake) -> str:
    shown = ", ".join(shorten_text(name, 40) for name in mistake.students[:SHOWN_NAMES])
    more = len(mistake.students) - SHOWN_NAMES
    return shown + (f" and {more} more" if more > 0 else "")


class LessonView(NamedTuple):
    """A lesson of one student in the matrix: the points, or a word for why there are none, and a digit per exercise."""

    points: str
    digits: str


@dataclass(frozen=True)
class MatrixRow:
    """One student in the matrix. The points of a lesson link to a page in `folder`."""

    student: str
    folder: str
    score: str
    lessons: list[LessonView]


def _matrix_rows(
    batch: Batch, lessons: Sequence[str], keys: Mapping[str, Sequence[str]], folders: Mapping[str, str]
) -> list[MatrixRow]:
    return [
        MatrixRow(
            student=shorten_text(student, 60),
            folder=quote(folders[student]),
            score=" of ".join(map(format_points, numbers.sums_of_points(found.values()))),
            lessons=[_lesson_view(found.get(lesson), keys[lesson]) for lesson in lessons],
        )
        for student, found in numbers.lessons_by_student(batch).items()
    ]


def _lesson_view(submission: SubmissionResult | None, keys: Sequence[str]) -> LessonView:
    if submission is None:
        return LessonView(points="", digits=_DIGITS[None] * len(keys))
    found = {exercise.key: exercise for exercise in submission.exercises}
    score = f"{format_points(submission.score)} of {format_points(submission.max_score)}"
    score += f" {BY_HAND}" if _is_by_hand(submission) else ""
    return LessonView(
        points=score if found or submission.decided else _STATES.get(submission.status, ""),
        digits="".join(_DIGITS[_cell_kind(found.get(key))] for key in keys),
    )


def _is_by_hand(submission: SubmissionResult) -> bool:
    """Whether a teacher has given points for the lesson or an exercise of it."""
    return submission.decided or any(exercise.decided for exercise in submission.exercises)


def _cell_kind(exercise: ExerciseResult | None) -> Status | str | None:
    if exercise is None:
        return None
    return "partly" if exercise.status is Status.WRONG and exercise.score > 0 else exercise.status


def _rows_as_data(rows: Sequence[MatrixRow], lessons: Sequence[str]) -> dict[str, object]:
    """All rows as data for `class.js`. Equal views of a lesson are shared, so that a row takes about 80 bytes."""
    views: dict[str, int] = {}
    lines = [
        (
            *(row.student, row.folder, row.score),
            *(views.setdefault(f"{view.digits} {view.points}", len(views)) for view in row.lessons),
        )
        for row in rows
    ]
    files = [f"{quote(lesson)}.html" for lesson in lessons]
    return {"size": SHOWN_STUDENTS, "signs": list(_SIGNS.values()), "files": files, "views": list(views), "rows": lines}
