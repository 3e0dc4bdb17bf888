"""Lay out what the learner's commands show in a terminal: functions from results to objects that rich can print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.syntax import Syntax
from rich.table import Table

from graders.core import course
from graders.core.difference import Difference
from graders.core.effort import describe_effort
from graders.core.exercise import Exercise
from graders.core.results import CheckResult, ExerciseResult, Status, SubmissionResult
from graders.core.status_styles import STATUS_STYLES, check_style
from graders.core.terminal import plain_line, plain_lines
from graders.core.text import format_count, format_points
from graders.learner.notebook.render import choose_hint, describe_other_checks, describe_way, format_point_count
from graders.learner.notebook.standing import Standing

_CODE = "bold"


def backticks_to_code(text: str, style: str = "") -> RenderableType:
    """`text` with `backticked` parts in bold; if a backtick is unpaired, all of them stay as they are."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return plain_line(text, style=style)
    return plain_line(*((part, _CODE if index % 2 else "") for index, part in enumerate(parts)), style=style)


def result_screen(found: SubmissionResult, only: str | None = None, *, more: bool = False) -> Group:
    """A notebook's verdicts in a table, and below it what is not right yet.

    `only` is the key of the single exercise to show. For a recognised mistake, one check is shown, or all with `more`.
    """
    title = plain_line((course.lesson_title(found.lesson), "bold"), f"  {found.file}")
    if not found.exercises:
        return Group(title, backticks_to_code(f"{found.status.value}: {found.message}", "yellow"))
    shown = [exercise for exercise in found.exercises if only in (None, exercise.key)]
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for exercise in shown:
        look = STATUS_STYLES[exercise.status]
        reached = f"{format_points(exercise.score)} of {format_point_count(exercise.max_score)}"
        sign, word = plain_line((look.sign, look.style)), plain_line((look.word, look.style))
        table.add_row(sign, exercise.key, word, plain_line((reached, "dim")))
    parts: list[RenderableType] = [title, table]
    for exercise in shown:
        untouched = exercise.status is Status.NOT_ATTEMPTED and exercise.defined
        if exercise.note or (exercise.status is not Status.PASSED and not untouched):
            parts += ["", _explain_exercise(exercise, more)]
    return Group(*parts)


def _explain_exercise(found: ExerciseResult, more: bool) -> Group:
    """What is wrong with one exercise: the mistake and the check that shows it best, or all checks."""
    look = STATUS_STYLES[found.status]
    parts: list[RenderableType] = [plain_line((f"{look.sign} {found.key}", f"bold {look.style}"))]
    judged = found.status is Status.WRONG
    messages = found.messages if found.mistake is not None or not judged else ()
    parts += [_indented(backticks_to_code(text)) for text in (*messages, found.note) if text]
    shown = () if not judged else found.checks if more else found.telling_checks
    if len(shown) == 1 and found.mistake and not more:  # without its name, which would only repeat the message
        parts.append(_indented(_describe_failure(shown[0])))
    else:
        parts += [_indented(_check_lines(check)) for check in shown]
    if found.program:
        parts += ["", "  Run this below your answer to see it:", "", _code_lines(found.program), ""]
    if found.printed:
        parts.append(_indented(Group("Your function printed:", _indented(plain_lines(found.printed)))))
    if found.status not in (Status.NOT_GRADED, Status.PASSED):
        parts.append(_indented(backticks_to_code(f"A hint: `hookwork hint {found.key}`", "dim")))
    if judged and (rest := [check for check in found.checks if check not in shown]):
        note = f"{describe_other_checks(rest)}: `hookwork check {found.key} --more`"
        parts.append(_indented(backticks_to_code(note, "dim")))
    return Group(*parts)


def _indented(part: RenderableType, columns: int = 2) -> Padding:
    return Padding(part, (0, 0, 0, columns))


def _code_lines(source: str) -> RenderableType:
    """Code as it is, at the left edge and never broken, so that it can be copied; printed with `crop=False`."""
    lines = plain_lines(source.rstrip())
    lines.no_wrap, lines.overflow = True, "ignore"
    return lines


def _check_lines(check: CheckResult) -> RenderableType:
    look = check_style(check)
    name = plain_line((look.sign, look.style), " ", check.row)
    told = check.message and not check.follows
    return Group(name, _indented(_describe_failure(check), 4)) if told else name


def _describe_failure(check: CheckResult) -> RenderableType:
    return _describe_difference(check.difference) if check.difference else plain_lines(check.message)


def _describe_difference(found: Difference) -> RenderableType:
    """A difference in two columns, expected and seen, or if it has none, its sentence."""
    if not found.expected and not found.timelines:
        return backticks_to_code(found.sentence)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("", "expected", "yours"):
        table.add_column(name, overflow="fold")
    if not found.timelines:
        table.add_row(plain_line(found.place), plain_line(found.expected), plain_line(found.seen))
        return Group(table, backticks_to_code(found.note)) if found.note else table
    for row in found.timelines.rows:
        cells = (plain_line("→ first difference" if row.first else ""), plain_line(row.expected), plain_line(row.seen))
        table.add_row(*cells, style="bold red" if row.first else None)
    return Group(backticks_to_code(found.sentence), table)


def next_exercise_line(standing: Standing) -> RenderableType:
    """One line that says what comes next and how many points there are so far."""
    score = f"{format_points(standing.score)} of {format_point_count(standing.max_score)} in all"
    if standing.next is None:
        return backticks_to_code(f"You have passed every exercise on your way: {score}.", "green")
    return backticks_to_code(
        f"Next: `{standing.next.key}`, {standing.next.title} ({standing.next.lesson}.ipynb). {score}."
    )


def progress_screen(standing: Standing, folder: Path) -> Group:
    """All lessons with their exercises and points, and the exercises of the next lesson by name."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    columns = [("", "left"), ("lesson", "left"), ("exercises", "left"), ("points", "right")]
    for name, justify in [*columns, ("predictions", "left")] if standing.predictions else columns:
        table.add_column(name, justify=justify)  # type: ignore[arg-type]  # rich has a Literal here
    current = standing.next.lesson if standing.next else ""
    for stem, lesson in standing.lessons.items():
        signs = plain_line(
            *((STATUS_STYLES[done.status].sign, STATUS_STYLES[done.status].style) for done in lesson.exercises)
        )
        reached = f"{format_points(lesson.score)} of {format_points(lesson.max_score)}"
        cells = ("→" if stem == current else "", course.lesson_title(stem), signs, reached)
        right = f"{sum(lesson.predictions.values())} of {len(lesson.predictions)}" if lesson.predictions else ""
        table.add_row(*cells, *([right] if standing.predictions else []))
    prediction_summary = f", {standing.prediction_summary}" if standing.prediction_summary else ""
    score = f", {format_points(standing.score)} of {format_point_count(standing.max_score)}{prediction_summary}  "
    passed = f"{format_count(standing.passed, 'exercise')} of {len(standing.exercises)} passed"
    head = plain_line((passed, "bold"), score, (str(folder), "dim"))
    bar = ProgressBar(total=standing.max_score, completed=standing.score, width=60)
    way = describe_way(standing, "hookwork progress --way core")
    ways = [backticks_to_code(way, "dim")] if way else []
    return Group(head, Padding(bar, 0), table, *_current_lesson(standing), *ways, next_exercise_line(standing))


def _current_lesson(standing: Standing) -> Iterator[RenderableType]:
    """The exercises of the next lesson; nothing if all have passed."""
    if standing.next is None:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for done in standing.lessons[standing.next.lesson].exercises:
        look, exercise = STATUS_STYLES[done.status], done.exercise
        untouched = done.status is Status.NOT_ATTEMPTED
        says = (untouched and describe_effort(exercise)) or look.word  # the effort, until there is a verdict
        table.add_row(plain_line((look.sign, look.style)), exercise.key, exercise.title, plain_line((says, look.style)))
    yield ""
    yield plain_line((f"Lesson {course.lesson_title(standing.next.lesson)}", "bold"))
    yield table
    yield ""


def hint_panel(exercise: Exercise, given: int) -> Panel:
    """The hint to show when `given` have been shown before."""
    commands = (f"hookwork {name} {exercise.key}" for name in ("hint", "solution"))
    title, text, after = choose_hint(exercise, given, *commands)
    return _titled_panel(f"{title}: {exercise.title}", backticks_to_code(text), backticks_to_code(after, "dim"))


def solution_screen(exercise: Exercise, source: str) -> Group:
    """The worked answer, and below it why it is done this way. It has no frame, so that it can be copied."""
    coloured = Syntax("", "python", background_color="default").highlight(source)
    coloured.rstrip()
    coloured.no_wrap, coloured.overflow = False, "fold"
    reasons = ("", backticks_to_code(exercise.why)) if exercise.why else ()
    return Group(plain_line((f"Worked answer: {exercise.title}", "bold")), "", coloured, *reasons)


def not_yet_panel(exercise: Exercise) -> Panel:
    """What `hookwork solution` says the first time, if the exercise has not passed yet."""
    text = f"Try once more first, or take a hint: `hookwork hint {exercise.key}`. To see the answer anyway, ask again."
    return _titled_panel("The worked answer opens when your check has passed", backticks_to_code(text))


def _titled_panel(title: str, *parts: RenderableType) -> Panel:
    return Panel(Group(*parts), title=plain_line((title, "bold")), title_align="left", border_style="blue", width=None)
