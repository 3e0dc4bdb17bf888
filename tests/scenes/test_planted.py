"""What is wrong with a model is not to be read beside the learner's code, by an answer that uses no hook at all."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from graders.core import course
from graders.core.exercise import Inputs
from graders.core.results import Status, SubmissionResult
from graders.marking.batch import Marking
from graders.marking.questions import Questions
from graders.sandbox.outside.box_modules import box_modules_folder
from graders.sandbox.outside.conversation import Probe, probes_for
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import WARM_TIERS, missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess
from graders.scenes import stories
from graders.submissions.finding import Submission
from graders.verdict.planting import Planted
from graders.verdict.scene_exercise import SceneExercise, find_scene_exercise
from graders.wire.data import encode
from graders.wire.draws import Rng
from tests.make_class import SETUP, hand_in
from tests.scenes.spying import SPY, Spied, spied

SEED = 5
FEW, EVERY_THIRD = slice(2), slice(None, None, 3)
WITH_PLANTS = [e.key for e in course.every_exercise() if find_scene_exercise(e.key).planted.axes]
DRAWN_NAME = re.compile(r"(n[b-z][a-z]{1,4}(net)?|\d+|weight|bias)(\.(n[b-z][a-z]{1,4}|\d+|weight|bias))*")
"""The names of modules and parameters in models of scenes, by which an answer has to call them."""
LAYERS = {
    name
    for file in Path(stories.__file__).parent.glob("*.py")
    for name in re.findall(r"self\.(\w+) = ", file.read_text("utf-8"))
}
"""The names of layers in models of stories."""
NAME_OF_A_LAYER = re.compile(r"\bself\.(\w+)|'(\w+)': ")
"""Where a planted model calls or makes a layer of its own."""


def parts_of(value: Any) -> Iterator[Any]:
    """All texts in what shows, and all plain containers of more than one entry."""
    if type(value) is str:
        yield value
    if isinstance(value, list | tuple | dict):
        if len(value) > 1 and is_plain(value):
            yield value
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from parts_of(part)


def is_plain(value: Any) -> bool:
    """Whether there are only texts and numbers in it."""
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def planted_names(draw: Inputs) -> set[str]:
    """The names of what a planted model consists of: it is there, and the answer gets it."""
    texts = [value for value in draw["case"].values() if type(value) is str]
    return {name for text in texts for names in NAME_OF_A_LAYER.findall(text) for name in names}


def is_a_name(part: Any, layers: Set[str]) -> bool:
    """Whether it is what a module, a class or a node of a graph is called. `layers` are names in a planted model."""
    return type(part) is str and (
        DRAWN_NAME.fullmatch(part) is not None
        or hasattr(nn, part)
        or part.endswith("Backward0")
        or all(name in LAYERS | layers or name.isdigit() for name in part.split(".") if name)
    )


def secrets(exercise: SceneExercise, draws: Sequence[Inputs]) -> list[list[Any]]:
    """For each case, the parts of the answer to the task that are not the same in all cases, and all planted words."""
    task, tasks = exercise.comparison.sections[0], list[list[Any]]()
    for draw in draws:
        seen = exercise.comparison.outcome(None, 0, draw).seen
        assert seen is not None
        tasks.append(list(parts_of(seen.value[task])))
    words = [case[axis] for case in exercise.cases for axis in exercise.planted.axes]
    known = [part for part in tasks[0] if all(part in parts for parts in tasks)]
    known += {
        name for case in exercise.cases for name in str(case.get("layer", "")).split(", ")
    }  # it is asked for these
    return [
        [part for part in parts if part not in known and not is_a_name(part, planted_names(draw))] + words
        for parts, draw in zip(tasks, draws, strict=True)
    ]


def leaks(folder: Path, exercises: Sequence[SceneExercise], cases: slice = slice(None)) -> dict[str, set[str]]:
    """The secrets that an answer reaches, by exercise, in these of its cases: each takes seconds."""
    exercises = [dataclasses.replace(exercise, cases=exercise.cases[cases]) for exercise in exercises]
    draws = {exercise.key: exercise.draws(SEED) for exercise in exercises}
    reached = spied(folder, [probes_for([exercise], draws, SEED) for exercise in exercises])
    found: dict[str, set[str]] = {}
    for exercise, cases in zip(exercises, reached, strict=True):
        for parts, case in zip(secrets(exercise, draws[exercise.key]), cases, strict=True):
            found.setdefault(exercise.key, set()).update(str(part) for part in parts if case.finds(part))
    return {key: parts for key, parts in found.items() if parts}


@pytest.mark.parametrize(
    "lesson",
    [
        pytest.param(lesson, marks=() if lesson[:2] in ("11", "13") else pytest.mark.slow)
        for lesson in course.lesson_stems()
    ],
)
def test_an_answer_that_looks_around_finds_nothing_of_what_it_is_asked(lesson: str, tmp_path: Path) -> None:
    assert leaks(tmp_path, [find_scene_exercise(key) for key in course.exercise_keys(lesson)], FEW) == {}


@pytest.mark.slow
@pytest.mark.parametrize("key", WITH_PLANTS)
def test_nor_where_something_else_is_planted(key: str, tmp_path: Path) -> None:
    assert leaks(tmp_path, [find_scene_exercise(key)], EVERY_THIRD) == {}


def test_a_fault_that_the_scene_knows_is_found(tmp_path: Path) -> None:
    exercise = find_scene_exercise("13-diagnose")
    told = Planted(
        axes=exercise.planted.axes,
        plant=lambda rng, case: {**exercise.planted.plant(rng, case), "fault": case["fault"]},
    )
    faults = {case["fault"] for case in exercise.cases[EVERY_THIRD]}
    assert leaks(tmp_path, [dataclasses.replace(exercise, planted=told)], EVERY_THIRD)["13-diagnose"] >= faults


TELLING = """
FOUND = [set(), set()]
def diagnose(make, x, y, loss_fn, lr):
    try:
        look_around(make, x, y, loss_fn, lr)
    except RuntimeError:
        pass
    raise LookupError([text for text in sorted(FOUND[0]) if text[::-1] in {backwards}] + ["sound" in FOUND[0]])
"""


@pytest.mark.slow
@pytest.mark.parametrize("tier", [tier for tier in WARM_TIERS if not missing_for_tier(tier, warm=True)])
def test_in_a_box_an_answer_that_looks_around_finds_no_fault_and_gets_no_point(tier: str, tmp_path: Path) -> None:
    lesson, planted = course.find_lesson("13"), find_scene_exercise("13-diagnose").planted
    faults = [fault[::-1] for fault in planted.axes["fault"] if " " in fault]  # others are words of anybody's
    answer = SPY.replace("NAME", "look_around") + TELLING.replace("{backwards}", repr(faults))
    submission = Submission("spy", lesson, hand_in(tmp_path / "spy", lesson, [SETUP, answer]))
    results = list[SubmissionResult]()
    with box_modules_folder() as box_modules, WarmProcess(box_modules) as warm:
        marking = Marking(Questions(3), BoxRunner(box_modules, tier, warm=warm), jobs=1)
        marking.start([submission], results.append)
        marking.close()
    (found,) = [exercise for exercise in results[0].exercises if exercise.key == "13-diagnose"]
    assert (found.status, found.score) == (Status.RAISED, 0)
    assert "LookupError: [True]" in found.message


def test_a_hook_and_a_frozen_layer_may_come_together_in_a_planted_model() -> None:
    exercise = find_scene_exercise("13-why-no-gradient")
    for case in exercise.cases:
        for seed in range(40 if "frozen" in case["way"] else 0):
            exec(exercise.planted.plant(Rng(seed), case)["model"], {"torch": torch, "nn": nn})


HIDDEN = {
    "a local of a caller": "return secret",
    "a closure": "return lambda: secret",
    "a default": "return lambda word=secret: None",
    "an attribute of a module": "module = torch.nn.Identity(); module.word = secret; return module",
    "a class's name": "return type(secret, (), {})()",
    "a hook of a parameter": "p = torch.nn.Parameter(torch.ones(1)); p.register_hook(lambda g: secret); return p",
    "the owner of a method": "return type('Owner', (), {'word': secret, 'method': lambda self: None})().method",
    "a key": "return {secret: 1}",
    "a function's name": "f = lambda: None; f.__qualname__ = secret; return f",
    "a global": "global word; word = secret",
}


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Spied]:
    """What is reached where a word is hidden in one place. The word is another one for each place."""
    probes, (tree, body) = list[list[Probe]](), encode({})
    for number, code in enumerate(HIDDEN.values()):
        lines = ["import torch", "def hide(secret):", f"    {code}", "def probe(student):"]
        lines += [f"    hidden = hide(''.join(('reach', '{number}')))", "    student.look(lambda: hidden)"]
        probes.append([Probe("k", "look", 0, "\n".join(lines), tree, body, 0)])
    return dict(zip(HIDDEN, (found for (found,) in spied(tmp_path_factory.mktemp("hidden"), probes)), strict=True))


@pytest.mark.parametrize("place", HIDDEN)
def test_a_word_is_found_wherever_it_is(place: str, reached: dict[str, Spied]) -> None:
    words = [f"reach{number}" for number in range(len(HIDDEN))]
    assert [word for word in words if reached[place].finds(word)] == [words[list(HIDDEN).index(place)]]
