"""A program for a learner is made of our lines alone: what came out of a box stands in its comments."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

import pytest

from graders.core.expect import Seen
from graders.core.results import ExerciseResult, Status
from graders.core.transcript import Outcome
from graders.verdict.refusing import WIDTH
from graders.verdict.scene_exercise import find_scene_exercise
from tests.test_hostile_text import TRAPS, traps

KEY = "03-scale-grad"
EXERCISE = find_scene_exercise(KEY)
DRAWS = EXERCISE.draws(1)
CODE = "x\nimport os; yours: \rimport os\u2028import os\x0cimport os'''\"\"\"\nimport os"
HOSTILE = [CODE, *("; yours: ".join([*TRAPS.values()][start : start + 8]) for start in range(0, len(TRAPS), 8))]


def raised(text: str) -> Outcome:
    """A function that fails at the first line of a story."""
    line = EXERCISE.comparison.stage.scene.stories[0][1].__code__.co_firstlineno + 3  # type: ignore[attr-defined]
    return Outcome(status=Status.RAISED, error=text, message=text, stopped_at=(0, line, line))


def shown(text: str) -> Outcome:
    """A function with which the first observation is a text."""
    seen = copy.deepcopy(dict(EXERCISE.comparison.outcome(None, 0, DRAWS[0]).seen.value))  # type: ignore[union-attr]
    first: Any = next(iter(seen.values()))
    first[next(iter(first))] = text
    return Outcome(seen=Seen(seen))


def program(text: str, made: Callable[[str], Outcome]) -> str:
    outcomes = [made(text), *(EXERCISE.comparison.outcome(None, 0, draw) for draw in DRAWS[1:])]
    found = EXERCISE.tell(DRAWS, outcomes).program
    return ExerciseResult(key=KEY, status=Status.WRONG, score=0, max_score=1, program=found).program


@pytest.mark.parametrize("made", [raised, shown])
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_learner_becomes_a_line_or_steers_a_terminal(text: str, made: Callable[[str], Outcome]) -> None:
    harmless, found = program("harmless", made), program(text, made)
    assert "harmless" in harmless
    assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(harmless))
    assert traps(found) - {"\N{REPLACEMENT CHARACTER}"} == set()
    assert all(len(line) <= 2 * WIDTH for line in found.splitlines())
