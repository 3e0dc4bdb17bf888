"""Observations that somebody forged, for every check and every recogniser of the course.

Whatever an answer sends, a check holds or says why not, and a recogniser answers or gives up: an answer that makes the
judge fail would be nobody's fault, and so never marked.
"""

from __future__ import annotations

import itertools
import random
import time

import pytest

from graders.author.answers import answers_to
from graders.core import course
from graders.core.exercise import call_by_name
from graders.core.expect import Mismatch, Seen
from graders.judge.diagnose import diagnose
from graders.run.transcript import Outcome
from tests.observations import forgeries, observed, part_by_part

MANY = pytest.mark.parametrize("count", [25, pytest.param(400, marks=pytest.mark.slow)])
SECONDS = 5.0
"""Of a core, for one forgery and all that is asked of it."""
SEED = 1000


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
    # What is changed in one place alone is not left to chance.
    orderly = part_by_part(seen[0], rng) if count > 25 else ()
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
