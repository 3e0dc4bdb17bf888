"""Render the summary of a batch that a teacher reads in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median_low

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from graders.core.results import Batch, Status, SubmissionResult, SubmissionStatus
from graders.core.status_styles import STATUS_STYLES
from graders.core.terminal import plain_line
from graders.core.text import format_count, format_points, shorten_text
from graders.report.class_numbers import missing_module_counts, sums_of_points
from graders.submissions.student_names import is_plain_name, lookalike_names, name_sort_key

FEW_LESSONS = 3
"""The most lessons that fit side by side into a terminal with a mark for each exercise."""

SHOWN_MODULES = 8
"""The most missing modules that are named; a count stands for the others."""

LONG_SECONDS = 20.0
"""A notebook that takes less time than this, in seconds, is not worth a line."""


def render(batch: Batch, *, brief: bool = False) -> Group:
    """A table of points by student and lesson, a legend of its marks, and lines on what went wrong.

    With `brief`, wrong answers and missing notebooks are left to the pages; what somebody has to look at stays.
    """
    if why := _one_reason(batch):
        return Group(
            plain_line(("Nothing was graded, all for one reason: ", "bold yellow"), why), *_footer_lines(batch)
        )
    lessons = sorted({submission.lesson for submission in batch.submissions})
    students = sorted({submission.student for submission in batch.submissions}, key=name_sort_key)
    if len(lessons) <= FEW_LESSONS:
        table, marked = _student_table(batch, students, lessons, marks=True), True
    elif len(students) == 1:
        table, marked = _lesson_table(batch, students[0], lessons), True
    else:
        table, marked = _student_table(batch, students, lessons, marks=False), False
    used = {exercise.status for submission in batch.submissions for exercise in submission.exercises} if marked else ()
    legend = "   ".join(f"{STATUS_STYLES[status].sign} {status.value}" for status in Status if status in used)
    return Group(
        table,
        *([legend] if legend else []),
        *_mistake_lines(batch),
        *_attention_lines(batch, brief),
        *_missing_module_lines(batch),
        *_slowest_lines(batch),
        *_footer_lines(batch),
    )


def _one_reason(batch: Batch) -> str:
    """The one reason why nothing at all was graded; empty if something was, or if there are several reasons."""
    reasons = {one.message for one in batch.submissions if one.status is SubmissionStatus.NOT_GRADED}
    whole = all(submission.status is SubmissionStatus.NOT_GRADED for submission in batch.submissions)
    return reasons.pop() if whole and len(reasons) == 1 else ""


def _student_table(batch: Batch, students: Sequence[str], lessons: Sequence[str], *, marks: bool) -> Table:
    """A table with a row for each student. If there are many lessons, their columns are named by number."""
    table = Table(title="Points by student and lesson", title_justify="left")
    if len(lessons) > FEW_LESSONS:  # a frame would take space that the names need
        table.box, table.collapse_padding = box.SIMPLE, True
    table.add_column("student", overflow="fold")
    for lesson in lessons:
        table.add_column(lesson if len(lessons) <= FEW_LESSONS else lesson[:2], overflow="fold")
    table.add_column("points", justify="right")
    for student in students:
        found = {submission.lesson: submission for submission in batch.submissions if submission.student == student}
        cells = (_points_or_status(found.get(lesson), marks=marks) for lesson in lessons)
        table.add_row(shorten_text(student, 40), *cells, _sum_of_points(found.values()))
    return table


def _lesson_table(batch: Batch, student: str, lessons: Sequence[str]) -> Table:
    """A table with a row for each lesson of one student."""
    found = {submission.lesson: submission for submission in batch.submissions}
    table = Table(title=f"Points of {shorten_text(student, 40)}", title_justify="left", show_footer=True)
    table.add_column("lesson", "all lessons", overflow="fold")
    table.add_column("exercises")
    table.add_column("points", _sum_of_points(found.values()), justify="right")
    for lesson in lessons:
        table.add_row(lesson, _verdict_marks(found[lesson]), _sum_of_points([found[lesson]]))
    return table


def _sum_of_points(submissions: Iterable[SubmissionResult]) -> str:
    return " of ".join(map(format_points, sums_of_points(submissions)))


def _verdict_marks(submission: SubmissionResult, after: str = "") -> RenderableType:
    """A mark for each exercise, followed by `after`; if the notebook was not graded, its status."""
    if submission.status is not SubmissionStatus.GRADED:
        return plain_line((submission.status.value, "yellow"))
    styles = [STATUS_STYLES[exercise.status] for exercise in submission.exercises]
    return plain_line(*((style.sign, style.style) for style in styles), after)


def _points_or_status(submission: SubmissionResult | None, *, marks: bool = False) -> RenderableType:
    """The points of a submission, after its `marks` if asked for, or its status; empty if there is none."""
    if submission is None:
        return ""
    points = format_points(submission.score)
    if submission.decided and submission.status is not SubmissionStatus.GRADED:
        return points
    graded_alone = submission.status is SubmissionStatus.GRADED and not marks
    return points if graded_alone else _verdict_marks(submission, f"  {points}")


def _mistake_lines(batch: Batch) -> Iterator[str]:
    found = Counter(
        (exercise.key, mistake)
        for submission in batch.submissions
        for exercise in submission.exercises
        for mistake, _ in exercise.mistakes
    )
    if found:
        yield from ("", "Recognised mistakes")
    for (key, mistake), count in found.most_common(8):
        yield f"  {key}: {mistake} ({format_count(count, 'student')})"


def _attention_lines(batch: Batch, brief: bool) -> Iterator[str]:
    """A short message for each notebook that was not graded, and then for each exercise that did not pass."""
    always_shown = (Status.NOT_GRADED, Status.SUSPECT)
    lines = [
        f"  {_student_and_lesson(submission)}: {submission.status.value}. {submission.message}"
        for submission in batch.submissions
        if not (submission.decided or submission.status is SubmissionStatus.GRADED)
        and not (brief and submission.status is SubmissionStatus.MISSING)
    ]
    for submission in batch.submissions:
        # A notebook that was not graded has had its one message already.
        for exercise in submission.exercises if submission.status is SubmissionStatus.GRADED else ():
            if exercise.decided or submission.decided:
                continue
            if exercise.note or exercise.status in always_shown or (exercise.status is not Status.PASSED and not brief):
                verdict = exercise.mistake or exercise.status.value
                why = exercise.note or exercise.message
                lines.append(f"  {_student_and_lesson(submission)}: {exercise.key} {verdict}. {why}")
    lines += _name_lines(batch)
    if lines:
        yield from ("", "What somebody should look at" if brief else "What went wrong")
        yield from lines


def _missing_module_lines(batch: Batch) -> Iterator[str]:
    if wanted := missing_module_counts(batch):
        named = ", ".join(f"{name} ({format_count(count, 'student')})" for name, count in wanted[:SHOWN_MODULES])
        more = f" and {len(wanted) - SHOWN_MODULES} more" if len(wanted) > SHOWN_MODULES else ""
        yield from ("", f"Not installed here: {named}{more}. Lines that need them were left out; all others were run.")
        yield ("To add a package: python -m pip install NAME, with the Python that runs hookwork; then mark again.")


def _name_lines(batch: Batch) -> Iterator[str]:
    """Warnings about names that look like another student's, or that have characters nobody can see."""
    students = {submission.student for submission in batch.submissions}
    for group in lookalike_names(students):
        names = ", ".join(repr(shorten_text(student, 60)) for student in group)
        yield f"  {names}: different students whose names look alike."
    for student in sorted(students):
        if not is_plain_name(student):
            yield f"  {shorten_text(student, 60)!r}: the name has spaces (␣) or characters that cannot be seen."


def _slowest_lines(batch: Batch) -> Iterator[str]:
    """The notebooks that took far longer than others, if any did."""
    seconds = [submission.seconds for submission in batch.submissions if submission.seconds]
    if not seconds:
        return
    usual = median_low(seconds)
    much = max(LONG_SECONDS, 3 * usual)
    slow = sorted(
        (submission for submission in batch.submissions if submission.seconds >= much),
        key=lambda submission: -submission.seconds,
    )
    if slow:
        named = "; ".join(f"{_student_and_lesson(submission)}: {submission.seconds:.0f} s" for submission in slow[:3])
        yield from ("", f"Took longest: {named} (half of all took {usual:.0f} s or less)")


def _student_and_lesson(submission: SubmissionResult) -> str:
    return f"{shorten_text(submission.student, 40)}, {submission.lesson[:2]}"


def _footer_lines(batch: Batch) -> Iterator[str]:
    tiers = sorted({submission.isolation for submission in batch.submissions if submission.isolation})
    left_out = sum(not submission.graded for submission in batch.submissions)
    ungraded = (
        f"; {format_count(left_out, 'submission')} not graded, which is not the learners' fault" if left_out else ""
    )
    yield ""
    yield (
        f"{format_count(len(batch.submissions), 'submission')}; {_describe_seeds(batch)}"
        f"torch {batch.torch}; isolation {', '.join(tiers) or '–'}{ungraded}"
    )


def _describe_seeds(batch: Batch) -> str:
    """The seed of the inputs, or how many there are, since each later command has its own; empty if nothing ran."""
    ran = [submission for submission in batch.submissions if submission.exercises]
    seeds = {batch.seed if submission.seed is None else submission.seed for submission in ran}
    if len(seeds) > 1:
        return f"{len(seeds)} seeds, each page names its own; "
    return f"seed {seed} (repeat with --seed {seed}); " if (seed := next(iter(seeds), None)) is not None else ""
