"""Diagnosis: which known mistake do these numbers match?"""

from __future__ import annotations

from collections.abc import Sequence

from graders.core.exercise import Draw, Exercise, Mistake, call_by_name
from graders.run.transcript import Outcome


def diagnose(exercise: Exercise, draws: Sequence[Draw], outcomes: Sequence[Outcome]) -> list[Mistake]:
    """The mistakes that explain the most of these failing draws; usually one, none when nothing matches.

    `draws` and `outcomes` belong together, and only draws that failed are given.
    """
    counts = [sum(_matches(mistake, draw, outcome) for draw, outcome in zip(draws, outcomes))
              for mistake in exercise.mistakes]  # fmt: skip
    most = max(counts, default=0)
    return [mistake for mistake, count in zip(exercise.mistakes, counts) if count == most > 0]


def _matches(mistake: Mistake, draw: Draw, outcome: Outcome) -> bool:
    if outcome.seen is None:
        text = f"{outcome.error}: {outcome.message}"
        return any(part in text for part in mistake.raises)
    if mistake.recognise is None:
        return False
    try:
        return bool(call_by_name(mistake.recognise, draw, outcome.seen))
    except Exception:
        # A recogniser does arithmetic on a wrong answer, which may be of any type and shape. One that
        # cannot be computed does not match; that each recognises its own mistake is proved by tests.
        return False
