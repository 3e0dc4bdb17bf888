"""Finds the causes of a wrong answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from graders.core.difference import Difference, Kind
from graders.core.exercise import Exercise, Inputs
from graders.core.expect import Seen
from graders.core.explanations import (
    LEFT_FROM_EARLIER,
    Explanation,
    Findings,
    explain_by_circumstance,
    explain_by_kind,
    explain_by_observation,
    explain_missing_result,
)
from graders.core.raised import explain_exception
from graders.core.transcript import Outcome
from graders.core.wrong_keys import NOTHING_RECORDED, explain_keys
from graders.core.wrong_types import explain_none, explain_wrong_type
from graders.verdict.outliving import outlives_a_call


def diagnose_answer(
    exercise: Exercise,
    draws: Sequence[Inputs],
    outcomes: Sequence[Outcome],
    differences: Mapping[str, Sequence[Difference | None]] = {},
    plainer: Mapping[str, Any] = {},
) -> Findings:
    """Up to two causes of a wrong answer.

    `differences` has for each check, by its sentence, the first difference in each case, or None where it holds. Known
    mistakes of the exercise explain most, so they are tried first, then the exception or the kind of the differences,
    then the circumstances in which they occur, and at last the observation that shows first: its circumstances, and a
    wrong type, which may follow from anything. `plainer` is one more case in which the answer fails, if one is known.
    """
    found = exercise.explain(draws, outcomes)
    ended = next((outcome for outcome in outcomes if outcome.seen is None), None)
    if ended is not None and not found.causes:
        cause = explain_exception(ended.error, ended.message, ended.line)
        return Findings((cause,)) if cause else found
    failing = [check for check, by_case in differences.items() if any(by_case)]
    left = {check: found.left.get(check) or [one for one in differences[check] if one] for check in failing}
    left = {check: met for check, met in left.items() if check not in (*found.evidence, *found.follows)}
    if failing and failing[0] in left:
        every = [one for check in failing for one in differences[check] if one]
        if not found.causes and outlives_a_call(outcomes) and Kind.HOOK_LEFT not in {one.kind for one in every}:
            return Findings((LEFT_FROM_EARLIER,), (failing[0],), frozenset(failing[1:]))
        whole = explain_by_kind(every) or explain_wrong_type(every)
        if whole:
            return Findings((whole,), (failing[0],), frozenset(failing[1:]))
    for check in failing:
        if len(found.causes) == 2 or check not in left:
            continue
        cause = _cause_of(left[check], differences[check])
        known = [one.id for one in found.causes]
        if known and cause is NOTHING_RECORDED:
            continue  # it follows from them
        if cause and cause.id not in known:
            found = _with_cause(found, cause, check, left)
        elif not found.causes:
            break  # what shows first has no name, and what shows later may follow from it
    if found.causes or not failing:
        return found
    cases = [index for index in range(len(outcomes)) if any(by_case[index] for by_case in differences.values())]
    circumstance = explain_by_circumstance(exercise.cases, cases, plainer)
    if circumstance:
        return Findings((circumstance,), (failing[0],), frozenset(failing[1:]))
    first = [one for one in differences[failing[0]] if one]
    at_once = failing[0] == next(iter(differences)) and _shows_at_once(differences[failing[0]], outcomes, failing[0])
    observation = None if at_once else explain_by_observation(first)  # before that, nothing is known to be right
    observation = observation or explain_wrong_type(first) or explain_none(first) or explain_by_kind(first)
    return replace(found, causes=(observation,), evidence=(failing[0],)) if observation else found


def _with_cause(found: Findings, cause: Explanation, check: str, left: Mapping[str, Sequence[Difference]]) -> Findings:
    """One more cause, which `check` shows. Other checks of the same kind follow from it."""
    also = {other for other, met in left.items() if other != check and _has_id(_cause_of(met, met), cause.id)}
    return replace(
        found, causes=(*found.causes, cause), evidence=(*found.evidence, check), follows=found.follows | also
    )


def _shows_at_once(differences: Sequence[Difference | None], outcomes: Sequence[Outcome], check: str) -> bool:
    """Whether the first observation of this check differs already, in some case."""
    for one, outcome in zip(differences, outcomes):
        names = [name for name in (outcome.seen or Seen(None))[check].keys if type(name) is str]
        met = [name for name in names if one and one.where.startswith(name)]
        if met and max(met, key=len) == names[0]:
            return True
    return False


def _cause_of(differences: Sequence[Difference], by_case: Sequence[Difference | None]) -> Explanation | None:
    """What all these differences of a check are about. `by_case` has None where the check holds."""
    missing = explain_missing_result(differences) if all(by_case) else None  # None may be right where it holds
    return explain_by_kind(differences) or missing or explain_keys(differences) or _failed_line(differences)


def _failed_line(differences: Sequence[Difference]) -> Explanation | None:
    """What made a line of the caller fail, as in "a line of the caller failed with TypeError: ..."."""
    error, _, message = differences[0].note.partition(" failed with ")[2].partition(": ")
    return explain_exception(error, message) if message else None


def _has_id(cause: Explanation | None, id: str) -> bool:
    return cause is not None and cause.id == id
