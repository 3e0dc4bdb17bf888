"""Finds an explanation for a wrong answer."""

from __future__ import annotations

from collections.abc import Sequence

from graders.core.difference import Difference
from graders.core.exercise import Exercise, Inputs
from graders.core.explanations import Explanation, explain_by_circumstance, explain_by_kind
from graders.core.transcript import Outcome


def diagnose_answer(
    exercise: Exercise,
    draws: Sequence[Inputs],
    outcomes: Sequence[Outcome],
    differences: Sequence[Sequence[Difference | None]] = (),
) -> Explanation | None:
    """An explanation for a wrong answer; None if none is found.

    The sequences have one entry for each case. An entry of `differences` has one item for each check: the difference
    that it found, or None where the check holds. A known mistake of the exercise explains most, so it is tried first,
    then the kind of the differences, then the circumstances in which they occur.
    """
    if (mistake := exercise.explain(draws, outcomes)) is not None:
        return mistake
    met = [difference for found in differences for difference in found if difference]
    failing = [index for index, found in enumerate(differences) if any(found)]
    return explain_by_kind(met) or explain_by_circumstance(exercise.cases, failing)
