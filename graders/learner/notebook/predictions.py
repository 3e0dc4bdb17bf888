"""`guess` and `compare`: write down a prediction before the code runs, and see it next to what came out.

Predictions are never marked. Like an exercise, each has a key, so that it stays the same one in whatever order the
cells run, and after the kernel was restarted.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graders.core import course
from graders.core.results import Status
from graders.core.status_styles import STATUS_STYLES
from graders.core.text import clean_text
from graders.learner.notebook import html, record, render
from graders.learner.notebook.agreement import describe_briefly, first_list_difference, guess_agrees
from graders.learner.notebook.render import Panel, Prose

_guesses: dict[str, dict[str, Any]] = {}
"""The guesses since the kernel started: the guessed values by name, for each prediction's key."""


@dataclass(frozen=True)
class ComparisonRow:
    """One value: its name, the guess and what PyTorch showed, as text. `right` is None if nothing was guessed."""

    name: str
    yours: str
    theirs: str
    right: bool | None
    note: str = ""


def guess(key: Any = "", /, *unnamed: Any, **values: Any) -> None:
    """Write down what you think will come out before you run the next cell: `guess("01-four-gradients", w=5, x=2)`.

    A value left as `...` is no guess, and you may leave all of them. None of this is marked.
    """
    made = {name: value for name, value in values.items() if not _is_left_open(value)}
    if not isinstance(key, str) or not key or not all(map(_is_left_open, unnamed)):
        example = key if isinstance(key, str) and key else "01-four-gradients"
        render.show_note(f'Give each guess by name, after the key: `guess("{example}", w=5)`.')
        return
    _guesses[key] = made
    if not made:
        return
    known = course.all_prediction_keys()
    if key not in known and (near := difflib.get_close_matches(key, known, 1, 0.75)):
        render.show_note(f'There is no prediction "{clean_text(key)}". Did you mean "{near[0]}"?')
        return
    said = "; ".join(f"{name} = {describe_briefly(value)}" for name, value in made.items())
    print(clean_text(f"Noted: {said}. Now run the next cell."))


def compare(key: str, /, **values: Any) -> None:
    """Show what you guessed under this key, if you did, next to `values`, which is what came out; and then, why."""
    if made := _guesses.get(key):
        _show_comparison(key, made, values)
    if why := course.explanation(str(key)):
        render.display_panel(Prose(why))


def _show_comparison(key: str, made: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    rows = [_comparison_row(name, made, value) for name, value in values.items()]
    right = all(row.right for row in rows)
    with record.edit_record() as notes:
        guessed = any(row.right is not None for row in rows)
        first = notes.keep_prediction(key, right) if guessed else right
    render.display_panel(comparison_panel(rows, _other_names(list(made), list(values)), counted=first == right))
    render.show_note(notes.trouble)


def _is_left_open(value: Any) -> bool:
    """Whether a guess was left as the notebook had it, at `...`."""
    return value is ... or (isinstance(value, str) and value.strip() in ("", "..."))


def _comparison_row(name: str, made: Mapping[str, Any], value: Any) -> ComparisonRow:
    if name not in made:
        return ComparisonRow(name, "–", describe_briefly(value), None)
    right = guess_agrees(made[name], value)
    note = ""
    if not right and (parted := first_list_difference(made[name], value)):
        place, yours, theirs = parted
        note = f"`{name}`: the first difference is at number {place}, {yours} in yours, {theirs} in what came out."
    return ComparisonRow(name, describe_briefly(made[name]), describe_briefly(value), right, note)


def _other_names(guessed: Sequence[str], compared: Sequence[str]) -> list[str]:
    """A note if some guesses have names that `compare` does not have; otherwise empty."""
    if set(guessed) <= set(compared):
        return []
    yours, theirs = (", ".join(f"`{name}`" for name in names) or "nothing" for names in (guessed, compared))
    return [f"You guessed {yours}; `compare` has {theirs}. Give both the same names."]


def comparison_panel(rows: Sequence[ComparisonRow], notes: Sequence[str] = (), *, counted: bool = True) -> Panel:
    """The guesses next to what came out. `counted` is False if the first guess, which counts, had another verdict."""
    guessed = [row.right for row in rows if row.right is not None]
    look, rest = html.INFO, ""
    if not guessed:
        title = "Your guess has other names"
    elif all(guessed) and len(guessed) == len(rows):
        look, title = STATUS_STYLES[Status.PASSED], "As you predicted"
    elif any(guessed):
        title, rest = f"{sum(guessed)} of {len(rows)} as you predicted", "Read on for the rest."
    else:
        title, rest = "Not this time", "Read on to see why."
    says = [*(row.note for row in rows if row.note), *notes, *([rest] if rest else [])]
    aside = "" if counted else "your first guess counts"
    header = f"{look.sign} {title}" + (f" ({aside})" if aside else "")
    lines = [f"  {_row_sign(row)} {row.name}: {_row_sentence(row)}" for row in rows]
    table = html.table(
        ("your guess", "what came out", ""),
        [((row.name, row.yours, row.theirs, _row_sign(row)), False) for row in rows],
    )
    body = table + "".join(map(html.paragraph, says))
    return Panel("\n".join([header, *lines, *says]), html.card(look, title, "", aside, body))


def _row_sign(row: ComparisonRow) -> str:
    return STATUS_STYLES[Status.PASSED].sign if row.right else " "


def _row_sentence(row: ComparisonRow) -> str:
    if row.right is None:
        return row.theirs
    return row.theirs if row.right and row.yours == row.theirs else f"you have {row.yours}; it is {row.theirs}"
