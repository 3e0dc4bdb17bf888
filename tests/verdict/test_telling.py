"""Every observation of every story is told as a program that prints what the story showed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from graders.core import course
from graders.probing.known_state import known_state, seed_torch
from graders.scenes.results import copy_value
from graders.scenes.story import StoryScene
from graders.verdict.program_lines import Untold, code_of
from graders.verdict.scene_exercise import SceneExercise, find_scene_exercise
from graders.verdict.telling import Until, observations_of, tell
from graders.wire.data import Changes, encode

LONGEST = 20
"""The most lines of a story."""
TOLD = [
    exercise.key
    for exercise in course.every_exercise()
    if isinstance(find_scene_exercise(exercise.key).scene, StoryScene)
]


def observations(exercise: SceneExercise, draw: dict[str, Any], reference: Any) -> Iterator[tuple[int, str, Any]]:
    """The number of each story, and the name and the value of each of its observations, with the reference."""
    scene: Any = exercise.scene
    for number, (_, story) in enumerate(scene.stories):
        with known_state(draw["seed"]):
            seed_torch(draw["seed"])
            for name, value in story(reference, **scene.arguments(story, draw["seed"], draw["case"])):
                yield number, name, copy_value(value)


def told(exercise: SceneExercise, draw: dict[str, Any], reference: Any, number: int, until: Until) -> list[str]:
    scene: Any = exercise.scene
    story = scene.stories[number][1]
    with known_state(draw["seed"]):
        seed_torch(draw["seed"])
        given = scene.arguments(story, draw["seed"], draw["case"])
        return list(tell(story, exercise.name, reference, given, until).lines)


def printed(lines: list[str], name: str, reference: Any) -> list[Any]:
    """What a program prints in a fresh namespace with torch, nn and the learner's function alone."""
    shown: list[Any] = []
    with known_state(1):
        exec("\n".join(lines), {"torch": torch, "nn": nn, name: reference, "print": shown.append})
    return shown


@pytest.mark.parametrize("key", TOLD)
def test_each_program_prints_what_its_story_showed(key: str) -> None:
    exercise = find_scene_exercise(key)
    for draw in exercise.draws(7):
        reference = exercise.comparison.stage.programs[0].function
        for number, name, value in observations(exercise, draw, reference):
            if isinstance(value, Changes):
                assert value.found == () or told(exercise, draw, reference, number, Until(name, value.found[0]))
                continue
            lines = told(exercise, draw, reference, number, Until(name))
            (shown,) = printed(lines, exercise.name, reference)
            assert encode(copy_value(shown)) == encode(value), (draw["case"], name, "\n".join(lines))
            assert "draw" not in "\n".join(lines)


@pytest.mark.parametrize("key", TOLD)
def test_a_story_is_short_and_says_what_it_promises(key: str) -> None:
    scene: Any = find_scene_exercise(key).scene
    for _, story in scene.stories:
        assert story.__doc__
        assert story.__doc__.endswith(".")
        assert len(inspect.getsource(story).splitlines()) <= LONGEST + 2  # the definition and the docstring
        assert len(set(observations_of(story))) == len(observations_of(story)) > 0
    names = [(promise, name) for promise, story in scene.stories for name in observations_of(story)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (torch.tensor([0.3, -1.7]), "torch.tensor([0.3, -1.7])"),
        (torch.tensor(0.3, dtype=torch.float64), "torch.tensor(0.3, dtype=torch.float64)"),
        (torch.tensor([1, 2]), "torch.tensor([1, 2])"),
        ((1, [None, "a"]), "(1, [None, 'a'])"),
        ((2.5,), "(2.5,)"),
    ],
)
def test_a_drawn_value_as_code(value: Any, code: str) -> None:
    assert code_of(value) == code


@pytest.mark.parametrize("value", [nn.Linear(1, 1), torch.ones(1, requires_grad=True), object(), {1}])
def test_what_has_no_code_is_not_told(value: Any) -> None:
    with pytest.raises(Untold):
        code_of(value)
