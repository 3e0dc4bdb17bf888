"""Asks and judges in this process, without a box: for `check` in a notebook, and for authors, who trust their code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graders.core.exercise import Exercise, Inputs
from graders.core.expect import Seen
from graders.core.results import ExerciseResult, Status
from graders.core.seeds import new_seed
from graders.core.transcript import Outcome, printed_text, raised_outcome
from graders.probing.asking import answer_probe
from graders.probing.known_state import known_state
from graders.verdict.judge_exercise import answer_holds, judge_exercise
from graders.wire.data import DataError, arrays_to_tensors, decode, encode


def check_namespace(
    exercise: Exercise,
    namespace: Mapping[str, Any],
    seed: int | None = None,
    *,
    draws: list[Inputs] | None = None,
    with_program: bool = True,
) -> ExerciseResult:
    """The result of an exercise for the definitions in `namespace`, run in this process.

    `seed` None draws a new one. `draws` are those of `seed`, if the caller has made them already. Nothing that the
    answer prints is shown. `with_program` is as in `judge_exercise`.
    """
    seed = new_seed() if seed is None else seed
    return mark_answer(exercise, namespace, seed, draws, with_program=with_program)[0]


def probe_outcomes(exercise: Exercise, namespace: Mapping[str, Any], seed: int, draws: list[Inputs]) -> list[Outcome]:
    """The outcome of the probe on each of these draws of a seed, with the definitions in `namespace`."""
    with known_state(seed):
        return _run_probe(exercise, namespace, seed, draws)


def is_right_answer(exercise: Exercise, namespace: Mapping[str, Any], seed: int, draws: list[Inputs]) -> bool:
    """Whether the definitions in `namespace` pass on these draws of a seed."""
    with known_state(seed):
        return answer_holds(exercise, draws, _run_probe(exercise, namespace, seed, draws))


def mark_answer(
    exercise: Exercise,
    namespace: Mapping[str, Any],
    seed: int,
    draws: list[Inputs] | None = None,
    *,
    with_program: bool = True,
) -> tuple[ExerciseResult, list[Outcome]]:
    """The result of an exercise as `check` finds it, and the outcome of the probe on each draw.

    Everything runs in a known state, so that a mode the notebook left switched on changes neither draws nor verdict.
    """
    with known_state(seed):
        draws = exercise.draws(seed) if draws is None else draws
        outcomes = _run_probe(exercise, namespace, seed, draws)
        ask = lambda draw: _run_probe(exercise, namespace, seed, [draw])[0]  # noqa: E731 - one line
        return judge_exercise(exercise, draws, outcomes, with_program=with_program, ask=ask), outcomes


def _run_probe(exercise: Exercise, namespace: Mapping[str, Any], seed: int, draws: list[Inputs]) -> list[Outcome]:
    """The outcome of the probe on each draw. An exception or a time limit ends the run, and stands for the rest."""
    outcomes: list[Outcome] = []
    for draw in draws:
        tree, body = encode(draw)  # the probe gets a copy, so that its changes don't reach the judge
        found = answer_probe(exercise.probe, namespace, arrays_to_tensors(decode(tree, body)), seed)
        outcomes.append(_outcome_of_answer(found.head, found.body))
        if outcomes[-1].seen is None:  # one message is enough, and a time limit should not be waited for again
            break
    return outcomes + [outcomes[-1]] * (len(draws) - len(outcomes))


def _outcome_of_answer(head: dict[str, Any], body: bytes) -> Outcome:
    if head["type"] != "seen":
        return raised_outcome(head)
    try:
        return Outcome(seen=Seen(decode(head["tree"], body)), printed=printed_text(head))
    except DataError as error:
        return Outcome(status=Status.OVER_LIMIT, message=str(error))
