"""Observations that somebody forged, for every check and every recogniser of the course.

Whatever an answer sends, a check holds or says why not, and a recogniser answers or gives up: an answer that makes the
judge fail would be nobody's fault, and so never marked.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from graders.author.answers import answers_to
from graders.core import course
from graders.core.exercise import Draw, Exercise, call_by_name
from graders.core.expect import Mismatch, Seen
from graders.judge.diagnose import diagnose
from graders.run.transcript import Outcome
from graders.wire.threads import one_thread
from tests.observations import anything_odd, forgeries, observed, part_by_part, shortened

MANY = pytest.mark.parametrize("count", [12, pytest.param(100, marks=pytest.mark.slow)])
SECONDS = 5.0
"""Of a core, for one forgery and all that is asked of it."""
SEED = 1000
CHANGES = ("changed", "in the end", "left", "flags", "hooks afterwards", "shares", "graphs", "state hooks", "fired")
"""How the names of lists begin in which one entry less is no fault: changes, of which none are wanted, and events."""
EVIDENCE = {
    "07-activation-grad": {"in a hook"},
    "10-saliency-map": {"result"},
    "10-guided-backprop": {"hooked", "result"},
    "10-guided-grad-cam": {"example", "result"},
}
"""What tells only which mistake it was, or is there only for some answers or draws."""


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """One, as the judge has it: on a busy machine, two that wait for each other take three times as long."""
    with one_thread():
        yield


@MANY
@pytest.mark.parametrize("key", [exercise.key for exercise in course.every_exercise()])
def test_no_observation_makes_a_check_fail_in_its_own_way(key: str, count: int) -> None:
    exercise = course.find_exercise(key)
    rng, asked = random.Random(key), 0
    draws = exercise.draws(SEED)
    draws = rng.sample(draws, min(3, len(draws)))
    solution, *others = answers_to(exercise).every
    seen = [value for answer in (solution, *others[-2:]) for value in observed(exercise, answer, draws, SEED)]
    assert seen
    # No place is left to chance, but what stands there instead is: a few of the odd things, or an empty list alone.
    orderly = part_by_part(seen[0], [anything_odd] * 5 if count > 12 else [lambda rng: []], rng)
    for value in itertools.chain(orderly, forgeries(seen, count, rng)):
        draw, started = rng.choice(draws), time.process_time()
        for check in exercise.checks:
            try:
                call_by_name(check.run, draw, Seen(value))
            except Mismatch:
                pass
            except Exception as error:
                raise AssertionError(f"{check.name}: {repr(value)[:400]}") from error
        diagnose(exercise, [draw], [Outcome(seen=Seen(value))])
        asked += len(exercise.checks) + len(exercise.mistakes)
        assert time.process_time() - started < SECONDS
    print(f"{key}: {asked} questions about {count} forged observations")


@pytest.mark.parametrize("key", [exercise.key for exercise in course.every_exercise()])
def test_what_is_missing_from_an_observation_does_not_pass(key: str) -> None:
    """A check that a probe no longer feeds, or that ends where a list ends, would pass every answer."""
    exercise = course.find_exercise(key)
    unnoticed: set[str] | None = None
    for draw in exercise.draws(SEED):
        (value,) = observed(exercise, answers_to(exercise).every[0], [draw], SEED)
        passed = {
            name
            for name, shorter in shortened(value)
            if not name.startswith(CHANGES) and name not in EVIDENCE.get(key, ()) and holds(exercise, draw, shorter)
        }
        unnoticed = passed if unnoticed is None else unnoticed & passed
        if not unnoticed:
            return
    raise AssertionError(f"no check asks for all of this: {unnoticed}")


def holds(exercise: Exercise, draw: Draw, value: Any) -> bool:
    """Whether every check holds for this observation."""
    try:
        for check in exercise.checks:
            call_by_name(check.run, draw, Seen(value))
    except Mismatch:
        return False
    return True
