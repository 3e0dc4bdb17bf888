"""Observations of another seed: what was recorded once is worth nothing in the next marking."""

from __future__ import annotations

import pytest

from graders.author.answers import answers_to
from graders.core import course
from graders.core.exercise import Draw, Exercise, call_by_name
from graders.core.expect import Mismatch, Seen
from tests.observations import observed

SEEDS = (1, 2, 3)


def refusal(exercise: Exercise, draw: Draw, value: object) -> str:
    """The check that an observation does not pass under this draw; empty where all hold."""
    for check in exercise.checks:
        try:
            call_by_name(check.run, draw, Seen(value))
        except Mismatch:
            return check.name
    return ""


@pytest.mark.parametrize("key", ["06-force-kwargs", "08-predict-module-order"])
def test_an_observation_of_another_seed_is_refused_in_every_case(key: str) -> None:
    exercise = course.find_exercise(key)
    drawn = {seed: exercise.draws(seed) for seed in SEEDS}
    for answer in answers_to(exercise).right:
        seen = {seed: observed(exercise, answer, drawn[seed], seed) for seed in SEEDS}
        for recorded, values in seen.items():
            assert len(values) == len(drawn[recorded]) >= 3
            for judged, draws in drawn.items():
                refused = [bool(refusal(exercise, draw, value)) for draw, value in zip(draws, values)]
                assert refused == [judged != recorded] * len(draws), (recorded, judged)
