"""How results look in a notebook: HTML where it is shown, plain text everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from graders.core.exercise import Exercise
from graders.core.results import ExerciseResult, Status
from graders.core.text import plural, points


@dataclass(frozen=True)
class Panel:
    """A message in two forms that say the same."""

    text: str
    html: str

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.html}


def show(panel: Panel) -> None:
    """Display in a notebook or a terminal IPython; print elsewhere."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        ipython.display.display(panel)
    else:
        print(panel.text)


# Word and sign say what the colour says. The colours have enough contrast on white and on near-black.
_LOOKS = {
    Status.PASSED: ("✓", "Passed", "#2e9e5b"),
    Status.WRONG: ("✗", "Not yet right", "#d9534f"),
    Status.NOT_ATTEMPTED: ("·", "Not attempted yet", "#8a8f98"),
}
_OTHER = ("!", "", "#d08a1d")


def result(exercise: Exercise, found: ExerciseResult) -> Panel:
    """The verdict, the diagnosed mistake, and each check with its numbers."""
    sign, word, colour = _LOOKS.get(found.status, _OTHER)
    word = word or {Status.RAISED: "An exception was raised"}.get(found.status, found.status.value)
    headline = f"{sign} {word}: {exercise.title}"
    score = f"{points(found.score)} of {plural_points(found.max_score)}"
    judged = found.status in (Status.PASSED, Status.WRONG)
    rows = [("✓" if one.passed else "✗", one.name, one.message) for one in found.checks] if judged else []
    advice = _advice(exercise, found)
    show_message = bool(found.message) and (found.mistake is not None or not judged)
    lines = [f"{headline} ({score})"]
    if show_message:
        lines += ["", found.message]
    lines += [f"  {mark} {name}" + (f"\n      {_indent(text)}" if text else "") for mark, name, text in rows]
    if advice:
        lines += ["", advice]
    body = f"<p style='margin:.4em 0'>{code(found.message)}</p>" if show_message else ""
    if rows:
        body += "<ul style='list-style:none;margin:.4em 0;padding:0'>" + "".join(_row(*row) for row in rows) + "</ul>"
    if advice:
        body += f"<p style='margin:.4em 0 0'>{code(advice)}</p>"
    return Panel("\n".join(lines), _card(colour, headline, score, body))


def _advice(exercise: Exercise, found: ExerciseResult) -> str:
    if found.status is Status.PASSED:
        return f'The worked answer: `solution("{exercise.key}")`'
    if found.status is Status.NOT_ATTEMPTED:
        return f'Write your answer in place of the last line of the stub. A hint: `hint("{exercise.key}")`'
    return f'A hint: `hint("{exercise.key}")`'


def plural_points(value: float) -> str:
    """Points with their noun, as in 1 point, 0.5 points."""
    return f"{points(value)} point{'' if value == 1 else 's'}"


def _indent(text: str) -> str:
    return text.replace("\n", "\n      ")


def _row(mark: str, name: str, text: str) -> str:
    word = "holds" if mark == "✓" else "does not hold"
    colour = "#2e9e5b" if mark == "✓" else "#d9534f"
    first, _, rest = text.partition("\n")
    detail = f"<br><span style='margin-left:1.5em'>{code(first)}</span>" if text else ""
    detail += f"<pre style='margin:.3em 0 .3em 1.5em'>{escape(rest)}</pre>" if rest else ""
    return (
        f"<li style='margin:.15em 0'><span style='color:{colour}' role='img' aria-label='{word}'>{mark}</span> "
        f"{escape(name)}{detail}</li>"
    )


def _card(colour: str, headline: str, aside: str, body: str) -> str:
    return (
        f"<div role='status' style='border-left:4px solid {colour};padding:.5em .9em;margin:.3em 0'>"
        f"<strong>{code(headline)}</strong> <span style='opacity:.75'>{escape(aside)}</span>{body}</div>"
    )


def code(text: str) -> str:
    """Escaped text in which `backticked` parts are set as code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # an odd backtick: leave the text as it is
        return escape(text)
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def hint(exercise: Exercise, given: int) -> Panel:
    """Hint number `given`, counted from 0 and starting over after the last."""
    index = given % len(exercise.hints)
    title = f"Hint {index + 1} of {len(exercise.hints)}"
    text = exercise.hints[index]
    more = index + 1 < len(exercise.hints)
    after = (
        f'More: `hint("{exercise.key}")`'
        if more
        else f'That was the last one. The answer: `solution("{exercise.key}")`'
    )
    body = f"<p style='margin:.4em 0'>{code(text)}</p><p style='margin:.4em 0 0;opacity:.75'>{code(after)}</p>"
    return Panel(f"{title}: {text}\n{after}", _card("#4a7fd6", title, exercise.title, body))


def solution(exercise: Exercise, source: str) -> Panel:
    """The worked answer."""
    title = f"Worked answer: {exercise.title}"
    body = f"<pre style='margin:.4em 0'>{escape(source)}</pre>"
    return Panel(f"{title}\n\n{source}", _card("#4a7fd6", title, exercise.key, body))


def not_yet(exercise: Exercise) -> Panel:
    """What `solution` says the first time, before the exercise is passed."""
    text = f'Try once more first, or take a hint: `hint("{exercise.key}")`. To see the answer anyway, ask again.'
    title = "The worked answer opens when your check has passed"
    return Panel(f"{title}. {text}", _card("#4a7fd6", title, "", f"<p style='margin:.4em 0'>{code(text)}</p>"))


def note(text: str) -> Panel:
    """A plain message."""
    return Panel(text, _card(_OTHER[2], text, "", ""))


def progress(exercises: Sequence[Exercise], record: Mapping[str, str]) -> Panel:
    """Every lesson with its exercises, the points, and what is next."""
    done = [one for one in exercises if record.get(one.key) == Status.PASSED.value]
    total = sum(one.points for one in exercises)
    reached = sum(one.points for one in done)
    left = [one for one in exercises if one not in done]
    following = f"Next: {left[0].key}, {left[0].title}" if left else "All exercises are passed."
    title = f"{plural(len(done), 'exercise')} of {len(exercises)} passed"
    score = f"{points(reached)} of {plural_points(total)}"
    lines, items = [f"{title} ({score})"], []
    for lesson in dict.fromkeys(one.lesson for one in exercises):
        lines.append(f"{lesson}")
        rows = []
        for one in (one for one in exercises if one.lesson == lesson):
            status = Status(record.get(one.key, Status.NOT_ATTEMPTED.value))
            sign, word, colour = _LOOKS.get(status, _OTHER)
            lines.append(f"  {sign} {one.key}  {one.title} ({plural_points(one.points)})")
            rows.append(
                f"<li><span style='color:{colour}' role='img' aria-label='{word or status.value}'>{sign}</span> "
                f"<code>{one.key}</code> {code(one.title)} ({plural_points(one.points)})</li>"
            )
        items.append(f"<p style='margin:.5em 0 .1em'>{lesson}</p><ul style='list-style:none;margin:0;padding:0'>"
                     + "".join(rows) + "</ul>")  # fmt: skip
    body = "".join(items) + f"<p style='margin:.5em 0 0'>{code(following)}</p>"
    return Panel("\n".join([*lines, following]), _card("#4a7fd6", title, score, body))
