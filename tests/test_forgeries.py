"""Observations that somebody forged, for every check and every recogniser of the course.

Whatever an answer sends, a check holds or says why not, and a recogniser answers or gives up: an answer that makes the
judge fail would be nobody's fault, and so never marked.
"""

from __future__ import annotations

import random
import time

import pytest

from graders.author.prove import answers_to
from graders.core import course
from graders.core.exercise import call_by_name
from graders.core.expect import Mismatch, Seen
from graders.judge.diagnose import diagnose
from graders.run.transcript import Outcome
from tests.observations import forgeries, observed

MANY = pytest.mark.parametrize("count", [25, pytest.param(2000, marks=pytest.mark.slow)])
SECONDS = 5.0
"""Of a core, for one forgery and all that is asked of it."""
SEED = 1000


@MANY
@pytest.mark.parametrize("lesson", course.lessons())
def test_no_observation_makes_a_check_fail_in_its_own_way(lesson: str, count: int) -> None:
    asked = 0
    for exercise in course.exercises(lesson):
        rng, draws = random.Random(exercise.key), exercise.draws(SEED)
        solution, *others = answers_to(exercise)
        seen = [value for answer in (solution, *others[-2:]) for value in observed(exercise, answer, draws, SEED)]
        assert seen
        for value in forgeries(seen, count, rng):
            draw, started = rng.choice(draws), time.process_time()
            for check in exercise.checks:
                try:
                    call_by_name(check.run, draw, Seen(value))
                except Mismatch:
                    pass
                except Exception as error:
                    raise AssertionError(f"{exercise.key}, {check.name}: {value!r}") from error
                asked += 1
            diagnose(exercise, [draw], [Outcome(seen=Seen(value))])
            asked += len(exercise.mistakes)
            assert time.process_time() - started < SECONDS
    print(f"{lesson}: {asked} questions about forged observations")
