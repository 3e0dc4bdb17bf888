"""Show results in a notebook: as HTML where that can be displayed, as plain text everywhere else."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graders.core.effort import describe_effort
from graders.core.exercise import Exercise
from graders.core.results import CheckResult, ExerciseResult, Status
from graders.core.rules import Rule
from graders.core.status_styles import STATUS_STYLES, check_style
from graders.core.text import format_count, format_points
from graders.core.transcript import Outcome
from graders.core.ways import EVERYTHING, WAYS
from graders.learner.notebook import html
from graders.learner.notebook.standing import ExerciseStanding, Standing
from graders.marking.replaying import Replayed
from graders.verdict.judge_exercise import what_was_raised

PRINTED = "Your function printed:"
HOW_TO_GO_ON = (
    "It stops where your function and your hooks begin. Type `p x` to see a variable `x`, `n` to run the next line, "
    "`c` to go on, `q` to end."
)


@dataclass(frozen=True)
class Panel:
    """A message in two forms that say the same."""

    text: str
    html: str

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.html}


@dataclass(frozen=True)
class Prose:
    """Markdown, as in the text cells of a lesson."""

    text: str

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self.text, "text/markdown": self.text}


def display_panel(panel: Panel | Prose) -> None:
    """Display a panel or prose in a notebook or IPython; print its text elsewhere."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        ipython.display.display(panel)
    else:
        print(panel.text)


def result_panel(
    exercise: Exercise,
    found: ExerciseResult,
    outcome: Outcome | None = None,
    after: Sequence[str] = (),
    *,
    more: bool = False,
) -> Panel:
    """The verdict, and each check with its numbers. For recognised mistakes, only the checks that show them.

    `outcome` is that of the last probe, which knows the line and the call that raised an exception. `after` has
    sentences on what to do next. With `more`, nothing is folded.
    """
    look = STATUS_STYLES[found.status]
    score = f"{format_points(found.score)} of {format_point_count(found.max_score)}"
    judged = found.status in (Status.PASSED, Status.WRONG)
    checks = found.checks if judged else ()
    lead = found.telling_checks if judged else ()
    rest = tuple(check for check in checks if check not in lead)
    messages = found.messages if found.mistake is not None or not judged else ()
    places: Sequence[tuple[str, str]] = ()
    if found.status is Status.RAISED and outcome is not None:
        places = _exception_places(outcome)
        messages = messages if found.mistake is not None else (what_was_raised(exercise, outcome),)
    lines = [
        f"{look.sign} {look.word}: {exercise.title} ({score})",
        *(part for message in messages for part in ("", message)),
    ]
    lines += [f"  {label}: {text}" for label, text in places]
    shown = f'Run this below your answer to see it, or call `replay("{exercise.key}")`:' if found.program else ""
    program = ["", shown, "", *found.program.rstrip().split("\n")] if shown else []
    lines += [*program, *([""] if program and checks else [])] if messages else []
    lines += [_check_text(check) for check in (checks if more else lead)]
    if rest and not more:
        lines += [f'  {describe_other_checks(rest)}: `check("{exercise.key}", more=True)`']
    lines += [] if messages else program
    lines += ["", PRINTED, *(f"  {line}" for line in found.printed.split("\n"))] if found.printed else []
    lines += ["", *after] if after else []
    body = "".join(map(html.paragraph, messages))
    body += "".join(html.paragraph(f"{label}:") + html.preformatted_text(text, wrapped=True) for label, text in places)
    code = html.paragraph(shown) + html.preformatted_text(found.program.rstrip(), wrapped=True) if shown else ""
    listed = html.item_list(map(_check_html, lead)) if lead else ""
    body += code + listed if messages else listed + code  # right below the sentence that it shows
    if rest:
        others = html.item_list(map(_check_html, rest))
        body += html.folded_details(f"More: {describe_other_checks(rest)}", others, opened=more)
    body += html.paragraph(PRINTED) + html.preformatted_text(found.printed, wrapped=True) if found.printed else ""
    body += html.link_lessons("".join(map(html.paragraph, after)))
    return Panel("\n".join(lines), html.card(look, look.word, exercise.title, score, body))


def describe_other_checks(rest: Sequence[CheckResult]) -> str:
    """The line for checks that are folded away, as in "6 other checks, 4 of them not judged"."""
    failed = sum(not check.passed for check in rest)
    of_them = "none of them wrong" if not failed else f"{failed} of them not judged"
    return format_count(len(rest), "other check") + (f", {of_them}" if len(rest) > 1 else "")


def _exception_places(outcome: Outcome) -> list[tuple[str, str]]:
    """The line that raised an exception and the call it happened in, each with a label; a part may be missing."""
    where, _, line = outcome.line.partition(": ")
    places = [(f"Your code, {where}", line or where), ("The call", outcome.call)]
    return [(label, text) for label, text in places if text]


def _check_text(check: CheckResult) -> str:
    look = check_style(check)
    detail = f"\n{check.message}".replace("\n", "\n      ") if check.message and not check.follows else ""
    return f"  {look.sign} {check.row}{detail}"


def _check_html(check: CheckResult) -> str:
    holds = "not judged" if check.follows else "holds" if check.passed else "does not hold"
    line = f"{html.status_badge(check_style(check), holds)} {html.backticks_to_code(check.row)}"
    if check.follows or not check.message:
        return line
    detail = html.describe_difference(check.difference) if check.difference else html.paragraph(check.message)
    return f"{line}<div style='margin:0 0 0 1.9em'>{detail}</div>"


def next_steps(exercise: Exercise, found: ExerciseResult, draws: int, course: Standing) -> list[str]:
    """Sentences on what to do after a check. `draws` is the number of sets of inputs that were tried."""
    hint = f'A hint: `hint("{exercise.key}")`'
    if found.status is Status.NOT_ATTEMPTED:
        return [f"Write your answer in place of the last line of the stub. {hint}"]
    if found.status is not Status.PASSED:
        return [hint]
    says = [f"It held on {format_count(draws, 'set')} of inputs drawn just now; run the check again for new ones."]
    says += [f'Compare with the worked answer: `solution("{exercise.key}")`']
    lesson = course.lessons.get(exercise.lesson)
    if lesson is not None and lesson.next is None:
        says.append(
            f"This lesson is done: {format_points(lesson.max_score)} of {format_point_count(lesson.max_score)}."
        )
    if (following := course.next_after(exercise.key)) is not None:
        where = "" if following.lesson == exercise.lesson else f" in {following.lesson}.ipynb"
        return [*says, f"Next: `{following.key}`{where}, {following.title}"]
    way = course.on_way
    if left := len(way.exercises) - way.passed:
        return [*says, f"That was the last one. Still open: {format_count(left, 'exercise')}, see `progress()`"]
    whole = "on your way" if course.way else "of the course"
    return [*says, f"That was the last one: every exercise {whole} is passed."]


def format_point_count(value: float) -> str:
    """Points with their noun, as in "1 point" and "0.5 points"."""
    return f"{format_points(value)} point{'' if value == 1 else 's'}"


def choose_hint(exercise: Exercise, given: int, more: str, answer: str) -> tuple[str, str, str]:
    """The hint to show when `given` have been shown before: its title, its text, and what may be called next.

    After the last one, they start over. `more` and `answer` are the calls or commands for the next hint and the answer.
    """
    index, count = given % len(exercise.hints), len(exercise.hints)
    after = f"More: `{more}`" if index + 1 < count else f"That was the last one. The answer: `{answer}`"
    return f"Hint {index + 1} of {count}", exercise.hints[index], after


def hint_panel(exercise: Exercise, given: int) -> Panel:
    """The hint to show when `given` have been shown before."""
    title, text, after = choose_hint(exercise, given, f'hint("{exercise.key}")', f'solution("{exercise.key}")')
    body = html.paragraph(text) + html.paragraph(after)
    return Panel(f"{title}: {text}\n{after}", html.card(html.INFO, title, exercise.title, "", body))


def solution_panel(exercise: Exercise, source: str) -> Panel:
    """The worked answer and why it is done this way."""
    text = f"Worked answer: {exercise.title}\n\n{source}" + (f"\n\n{exercise.why}" if exercise.why else "")
    body = html.preformatted_text(source) + html.paragraph(exercise.why)
    return Panel(text, html.card(html.INFO, "Worked answer", exercise.title, exercise.key, body))


def not_yet_panel(exercise: Exercise) -> Panel:
    """What `solution` says the first time, if the exercise has not passed yet."""
    text = f'Try once more first, or take a hint: `hint("{exercise.key}")`. To see the answer anyway, ask again.'
    title = "The worked answer opens when your check has passed"
    return Panel(f"{title}. {text}", html.card(html.INFO, title, "", "", html.paragraph(text)))


def nothing_to_replay_panel(exercise: Exercise, *, defined: bool, checked: bool) -> Panel:
    """What `replay` says if it has nothing to run: the learner has defined nothing, or no check has shown a program."""
    if not defined:
        return note_panel(f"There is no `{exercise.name}` yet. Run the cell that defines it.")
    if checked:
        return note_panel("Your last refused check showed no program: the numbers in its verdict are all there is.")
    return note_panel(
        f'There is nothing to replay yet. Run `check("{exercise.key}")`: if it refuses your answer, '
        "it may show a program."
    )


def replayed_panel(exercise: Exercise, found: Replayed) -> Panel:
    """What to make of what a program printed."""
    if found.as_expected:
        return note_panel(f'As expected. Now run `check("{exercise.key}")` again, which tries more.')
    title = "Not as expected yet"
    parts = [("", found.error), ("Expected:", found.expected or "no exception")]
    again = f'To stop in your function: `replay("{exercise.key}", stop=True)`'
    lines = [title, *(line for label, text in parts if text for line in (label, text) if line), again]
    body = "".join(html.paragraph(label) + html.preformatted_text(text, wrapped=True) for label, text in parts if text)
    return Panel("\n".join(lines), html.card(html.INFO, title, "", "", body + html.paragraph(again)))


def note_panel(text: str, more: Sequence[str] = ()) -> Panel:
    """A message without a headline; `more` are sentences below it, each a paragraph."""
    return Panel("\n".join([text, *more]), html.card(html.INFO, "", text, "", "".join(map(html.paragraph, more))))


def show_note(text: str, more: Sequence[str] = ()) -> None:
    """Display `note_panel(text, more)`; nothing if there is no text."""
    if text:
        display_panel(note_panel(text, more))


def rules_panel(every: Sequence[Rule], introduction: str) -> Panel:
    """The rules of all exercises, after an introduction."""
    title = "The rules of all exercises"
    lines = [f"{rule.number}. {rule.title} {rule.text}" for rule in every]
    text = "\n".join(textwrap.fill(line, 100, subsequent_indent="   ") for line in lines)
    body = html.paragraph(introduction) + "".join(
        html.titled_paragraph(f"{rule.number}. {rule.title}", rule.text) for rule in every
    )
    return Panel(f"{title}\n\n{introduction}\n\n{text}", html.card(html.INFO, title, "", "", body))


def progress_panel(course: Standing, titles: Mapping[str, str]) -> Panel:
    """Every lesson with its exercises and points, and what comes next. `titles` has the lessons' titles by stem."""
    last, following = "All exercises are passed.", course.next
    if following:
        last = f"Next: `{following.key}`, {following.title}, in {following.lesson}.ipynb"
    title = f"{format_count(course.passed, 'exercise')} of {len(course.exercises)} passed"
    score = f"{format_points(course.score)} of {format_point_count(course.max_score)}"
    lines = [f"{title} ({score})"]
    body = html.progress_bar(course.score, course.max_score, f"{title}, {score}")
    for stem, lesson in course.lessons.items():
        current = following is not None and following.lesson == stem
        name = titles.get(stem, stem)
        reached = f"{format_points(lesson.score)} of {format_point_count(lesson.max_score)}"
        signs = "".join(STATUS_STYLES[done.status].sign for done in lesson.exercises)
        reached += f", {lesson.prediction_summary}" if lesson.prediction_summary else ""
        lines.append(f"{'→' if current else ' '} {name}  {signs}  {reached}")
        lines += [_exercise_text(done) for done in lesson.exercises] if current else []
        badges = " ".join(map(_exercise_badge, lesson.exercises))
        label = f"<span style='display:inline-block;min-width:17em'>{html.backticks_to_code(name)}</span>"
        summary = f"{label}{badges}&ensp; {reached}"
        body += html.folded_details(summary, html.item_list(map(_exercise_html, lesson.exercises)), opened=current)
    way = describe_way(course, 'progress("core")')
    ends = [way, last] if way else [last]
    if course.prediction_summary:
        ends.insert(0, f"{course.prediction_summary}. They are yours alone: nobody marks them.")
    panel = html.card(html.INFO, title, "", score, body + html.link_lessons("".join(map(html.paragraph, ends))))
    return Panel("\n".join([*lines, *ends]), panel)


def describe_way(course: Standing, choice: str) -> str:
    """How far the learner has come on their way, or how to choose one with a call or command such as `choice`.

    Empty when nothing is left to choose for.
    """
    if not course.way or course.way == EVERYTHING:
        ways = f"Shorter ways through the course: {', '.join(WAYS[:-1])}. `{choice}` chooses one, and Next follows it."
        return ways if course.next else ""
    way = course.on_way
    return f"Your way: {course.way}, {way.passed} of {format_count(len(way.exercises), 'exercise')} passed."


def _exercise_text(done: ExerciseStanding) -> str:
    exercise = done.exercise
    return f"    {STATUS_STYLES[done.status].sign} {exercise.key}  {exercise.title} ({_points_and_effort(exercise)})"


def _points_and_effort(exercise: Exercise) -> str:
    """An exercise's points and effort, as in "1 point · 10 min · easy · core path"."""
    return " · ".join(filter(None, (format_point_count(exercise.points), describe_effort(exercise))))


def _exercise_badge(done: ExerciseStanding) -> str:
    look = STATUS_STYLES[done.status]
    return html.status_badge(look, f"{done.exercise.key}: {look.word}")


def _exercise_html(done: ExerciseStanding) -> str:
    look = STATUS_STYLES[done.status]
    text = f"`{done.exercise.key}` {done.exercise.title} ({_points_and_effort(done.exercise)})"
    return f"{html.status_badge(look, look.word)} {html.backticks_to_code(text)}"
