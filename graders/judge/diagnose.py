"""Diagnosis: what explains an answer that is not right?"""

from __future__ import annotations

from collections.abc import Sequence

from graders.core.difference import Difference
from graders.core.exercise import Exercise, Inputs
from graders.core.explanations import Explanation, explain_by_circumstance, explain_by_kind
from graders.run.transcript import Outcome


def diagnose_answer(
    exercise: Exercise,
    draws: Sequence[Inputs],
    outcomes: Sequence[Outcome],
    differences: Sequence[Sequence[Difference | None]] = (),
) -> Explanation | None:
    """What explains an answer that is not right; None when nothing does.

    The sequences have an entry for each case; in `differences` that is what each check met there, None where it holds.
    A mistake of the exercise says most, so it comes first. Else the kind of the differences says what is wrong, or the
    circumstances in which they occur.
    """
    if (told := exercise.explain(draws, outcomes)) is not None:
        return told
    met = [difference for found in differences for difference in found if difference]
    failing = [index for index, found in enumerate(differences) if any(found)]
    return explain_by_kind(met) or explain_by_circumstance(exercise.cases, failing)
