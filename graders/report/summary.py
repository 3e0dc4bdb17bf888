"""The summary that a teacher reads in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import Group
from rich.table import Table
from rich.text import Text

from graders.core.looks import LOOKS
from graders.core.results import Batch, Status, SubmissionResult, SubmissionStatus
from graders.core.text import clean, plural, points


def render(batch: Batch, *, brief: bool = False) -> Group:
    """Students by lessons with points, the meaning of the marks, and whatever could not be graded.

    With `brief` what went wrong is left to the pages, except for what somebody has to look at.
    """
    table = Table(title="Points by student and lesson", title_justify="left", expand=False)
    lessons = sorted({one.lesson for one in batch.submissions})
    table.add_column("student", overflow="fold")
    for lesson in lessons:
        # The whole course fits a terminal only by its numbers.
        table.add_column(lesson if len(lessons) <= 3 else lesson[:2], overflow="fold")
    table.add_column("points", justify="right")
    students = sorted({one.student for one in batch.submissions})
    for student in students:
        found = {one.lesson: one for one in batch.submissions if one.student == student}
        cells = [_cell(found.get(lesson)) for lesson in lessons]
        total, most = (sum(getattr(one, name) for one in found.values()) for name in ("score", "max_score"))
        table.add_row(Text(clean(student, 40)), *cells, f"{points(total)} of {points(most)}")
    used = {exercise.status for one in batch.submissions for exercise in one.exercises}
    legend = "   ".join(f"{LOOKS[status].sign} {status.value}" for status in Status if status in used)
    return Group(table, Text(legend), *_mistakes(batch), *_attention(batch, brief), _footer(batch))


def _cell(submission: SubmissionResult | None) -> Text:
    if submission is None:
        return Text("")
    if submission.status is not SubmissionStatus.GRADED:
        return Text(submission.status.value, "yellow")
    cell = Text()
    for exercise in submission.exercises:
        cell.append(LOOKS[exercise.status].sign, LOOKS[exercise.status].style)
    cell.append(f"  {points(submission.score)}")
    return cell


def _mistakes(batch: Batch) -> Iterator[Text]:
    """What several people got wrong in the same way."""
    found = Counter(
        (exercise.key, exercise.mistake) for one in batch.submissions for exercise in one.exercises if exercise.mistake
    )
    if found:
        yield Text("\nRecognised mistakes")
    for (key, mistake), count in found.most_common(8):
        yield Text(f"  {key}: {mistake} ({plural(count, 'student')})")


def _attention(batch: Batch, brief: bool) -> Iterator[Text]:
    """What is not full marks, one short message for each exercise; whole notebooks first."""
    ours = (Status.NOT_GRADED, Status.SUSPECT)
    lines = [
        Text(f"  {_who(one)}: {one.status.value}. {clean(one.message)}")
        for one in batch.submissions
        if one.status is not SubmissionStatus.GRADED and not (brief and one.status is SubmissionStatus.MISSING)
    ]
    for one in batch.submissions:
        # One reason is enough for a notebook that could not be run.
        for exercise in one.exercises if one.status is SubmissionStatus.GRADED else ():
            if exercise.status in ours or (exercise.status is not Status.PASSED and not brief):
                verdict = exercise.mistake or exercise.status.value
                lines.append(Text(f"  {_who(one)}: {exercise.key} {verdict}. {clean(exercise.message)}"))
    if lines:
        yield Text("\nWhat somebody should look at" if brief else "\nWhat went wrong")
        yield from lines


def _who(submission: SubmissionResult) -> str:
    return f"{clean(submission.student, 40)}, {submission.lesson[:2]}"


def _footer(batch: Batch) -> Text:
    tiers = sorted({one.isolation for one in batch.submissions if one.isolation})
    left_out = sum(not one.graded for one in batch.submissions)
    ungraded = f"; {plural(left_out, 'submission')} not graded, which is not the learners' doing" if left_out else ""
    return Text(
        f"\n{plural(len(batch.submissions), 'submission')}; seed {batch.seed} (repeat with --seed {batch.seed}); "
        f"torch {batch.torch}; isolation {', '.join(tiers) or '–'}{ungraded}"
    )
