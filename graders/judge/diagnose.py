"""Diagnosis: what explains the failing draws?

A headline stands only when its own evidence agrees on every draw that fails and nothing else explains them as well.
Nothing depends on the order in which an exercise lists its mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence

from graders.core.difference import Difference
from graders.core.exercise import SILENT, Draw, Exercise, Mistake, call_by_name
from graders.core.explanations import Explanation, by_circumstance, by_kind
from graders.run.transcript import Outcome


def diagnose(
    exercise: Exercise,
    draws: Sequence[Draw],
    outcomes: Sequence[Outcome],
    differences: Sequence[Sequence[Difference | None]] = (),
) -> Explanation | None:
    """What explains an answer that is not right; None when nothing does, or several things do.

    The sequences have an entry for each case; in `differences` that is what each check met there, None where it holds.
    Where a probe did not come to its end, only how it ended is evidence.

    What has to be explained is the first check that does not hold, wherever it does not: it is the task itself, or
    else the condition that stands first. An example that fails along with it in every case says nothing more.

    The numbers of an exercise say most, so its own mistakes come first. Else the kind of the differences says what is
    wrong, or the circumstances in which they occur when it is wrong.
    """
    if (told := exercise.explain(draws, outcomes)) is not None:
        return told
    met = [difference for found in differences for difference in found if difference]
    unseen = [index for index, outcome in enumerate(outcomes) if outcome.seen is None]
    leading = unseen or _failing_the_first(differences)
    cases = list(zip(draws, outcomes))
    holding = [case for index, case in enumerate(cases) if index not in leading and case[1].seen is not None]
    own = _standing(exercise.mistakes, [cases[index] for index in leading], holding)
    if len(own) > 1:  # what explains a part of the differences only yields to what explains them all
        kinds = {difference.kind for difference in met}
        own = [mistake for mistake in own if not mistake.kinds or kinds <= set(mistake.kinds)]
    if len(own) == 1:
        return Explanation(own[0].id, own[0].message)
    failing = [index for index, found in enumerate(differences) if any(found)]
    return by_kind(met) or by_circumstance(exercise.tried, failing)


def _failing_the_first(differences: Sequence[Sequence[Difference | None]]) -> list[int]:
    """The cases in which that check does not hold which is the first of those that fail anywhere."""
    failing = [[index for index, found in enumerate(by_case) if found] for by_case in zip(*differences)]
    return next(filter(None, failing), [])


def _standing(
    mistakes: Sequence[Mistake], failing: Sequence[tuple[Draw, Outcome]], holding: Sequence[tuple[Draw, Outcome]]
) -> list[Mistake]:
    """The mistakes that no draw contradicts and that explain most of those that fail."""
    counts = {}
    for mistake in mistakes:
        said = [_matches(mistake, draw, outcome) for draw, outcome in failing]
        elsewhere = [_matches(mistake, draw, outcome) for draw, outcome in holding if mistake.everywhere]
        if False not in said + elsewhere and (count := said.count(True)):
            counts[mistake.id] = count
    own = [mistake for mistake in mistakes if counts.get(mistake.id) == max(counts.values(), default=0)]
    special = {name for mistake in own for name in mistake.rather_than}
    return [mistake for mistake in own if mistake.id not in special]


def _matches(mistake: Mistake, draw: Draw, outcome: Outcome) -> bool | None:
    """Whether this draw shows the mistake; None when it cannot show it."""
    if outcome.seen is None:
        text = f"{outcome.error}: {outcome.message}"
        return any(part in text for part in mistake.raises)
    if mistake.recognise is None:
        return False
    try:
        found = call_by_name(mistake.recognise, draw, outcome.seen)
        return None if found is SILENT else bool(found)
    except Exception:
        # A recogniser does arithmetic on a wrong answer, which may be of any type and shape. One that
        # cannot be computed does not match; that each recognises its own mistake is proved by tests.
        return False
