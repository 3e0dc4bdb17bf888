"""Every observation of every story is told as a program that prints what the story showed."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graders.core import course
from graders.probing.known_state import known_state, seed_torch
from graders.scenes.results import copy_value
from graders.scenes.story import Draw, Seen
from graders.scenes.story import told as told_helper
from graders.scenes.watch import Watch
from graders.verdict.program_lines import Line, Untold, code_of
from graders.verdict.scene_exercise import SceneExercise, find_scene_exercise
from graders.verdict.telling import Until, observations_of, tell
from graders.wire.data import Changes, encode

LONGEST = 20
"""The most lines of a story."""
WHICH = {"plainest": slice(1), "others": slice(1, None, 3)}
"""Which of an exercise's cases are told: in an ordinary run the plainest, in a slow one every third of the others."""
TOLD = [exercise.key for exercise in course.every_exercise()]


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


@pytest.mark.parametrize("which", ["plainest", pytest.param("others", marks=pytest.mark.slow)])
@pytest.mark.parametrize("key", TOLD)
def test_each_program_prints_what_its_story_showed(key: str, which: str) -> None:
    exercise = find_scene_exercise(key)
    for draw in dataclasses.replace(exercise, cases=exercise.cases[WHICH[which]]).draws(7):
        reference = exercise.comparison.stage.programs[0].function
        for number, name, value in observations(exercise, draw, reference):
            if isinstance(value, Changes):
                assert value.found == () or told(exercise, draw, reference, number, Until(name, value.found[0]))
                continue
            lines = told(exercise, draw, reference, number, Until(name))
            (shown,) = printed(lines, exercise.name, reference)
            assert encode(copy_value(shown)) == encode(value), (draw["case"], name, "\n".join(lines))
            assert not re.search(r"\bdraw\b", "\n".join(lines))


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
        (torch.tensor([-math.inf, math.nan]), "torch.tensor([-torch.inf, torch.nan])"),
        ((1, [None, "a"]), "(1, [None, 'a'])"),
        ((2.5,), "(2.5,)"),
        ((math.inf, math.nan), '(float("inf"), float("nan"))'),
    ],
)
def test_a_drawn_value_as_code(value: Any, code: str) -> None:
    assert code_of(value) == code


@pytest.mark.parametrize("value", [nn.Linear(1, 1), torch.ones(1, requires_grad=True), object(), {1}])
def test_what_has_no_code_is_not_told(value: Any) -> None:
    with pytest.raises(Untold):
        code_of(value)


def of_a_model(call: Any, draw: Draw, case: Any) -> Seen:
    """A model whose layers depend on the case."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if case.layer == "norm":
                self.norm = nn.BatchNorm1d(2)
            self.head = nn.Linear(2, 1)

        def forward(self, x: Tensor) -> Any:
            h = self.norm(x) if case.layer == "norm" else x
            return self.head(h)

    torch.manual_seed(draw.choice(range(9)))
    model = Net()
    if draw.is_double:
        model.double()
    x = draw.tensor(2, 2)
    h = 2 * x
    yield "twice x", h
    yield "the output", model(x).detach()


CLASS = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.head = nn.Linear(2, 1)
    def forward(self, x):
        h = self.norm(x)
        return self.head(h)"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_model_is_told_as_a_class_with_the_layers_of_its_case(dtype: str) -> None:
    case = SimpleNamespace(layer="norm", dtype=dtype)
    lines = tell(of_a_model, "look", abs, {"draw": Draw(3, case), "case": case}, Until("the output")).lines
    *most, x, last = lines
    double = ["model.double()"] * (dtype == "float64")
    assert most == [*CLASS.splitlines(), "torch.manual_seed(6)", "model = Net()", *double]
    assert (x[:18], last) == ("x = torch.tensor([", "print(model(x).detach())")


@told_helper
def a_tensor_of_one(draw: Draw, case: Any) -> Any:
    """A tensor that the helper calls `t`."""
    t = draw.tensor(1)
    t = t.neg()
    return t


def of_two_tensors(call: Any, draw: Draw, case: Any) -> Seen:
    """Two tensors of one helper."""
    a = a_tensor_of_one(draw, case)
    b = a_tensor_of_one(draw, case)
    yield "the difference", a - b


def test_what_a_helper_returns_has_the_name_that_the_story_gives_it() -> None:
    case = SimpleNamespace(dtype="float32")
    lines = tell(of_two_tensors, "look", abs, {"draw": Draw(3, case), "case": case}, Until("the difference")).lines
    assert [line.partition("(")[0] for line in lines] == [
        "a = torch.tensor",
        "a = a.neg",
        "b = torch.tensor",
        "b = b.neg",
        "print",
    ]
    assert lines[-1] == "print(a - b)"


@told_helper
def turned_round(w: Tensor) -> Tensor:
    """The tensor itself, under another name."""
    v = w.neg_()
    return v


def of_a_helper_alone(call: Any) -> Seen:
    """Nobody uses what the helper returns."""
    w = torch.ones(2)
    turned_round(w)
    yield "w", w


def test_what_a_helper_returns_and_nobody_uses_is_no_line() -> None:
    lines = tell(of_a_helper_alone, "look", abs, {}, Until("w")).lines
    assert lines == ("w = torch.ones(2)", "v = w.neg_()", "print(w)")


def of_a_watch_and_a_handle(call: Any, draw: Draw) -> Seen:
    """What comes after a look at a watch may fail."""
    t = torch.ones(2)
    before = Watch(t=t)
    handle = call(t)
    yield "by the call", before.differences()
    handle.sum()
    yield "after it", before.differences()


def test_a_line_after_a_watch_may_be_the_one_that_failed() -> None:
    last = inspect.getsourcelines(of_a_watch_and_a_handle)[1] + 6
    program = tell(of_a_watch_and_a_handle, "look", abs, {"draw": None}, Until(line=last))
    assert program.lines == ("t = torch.ones(2)", "handle = look(t)", "handle.sum()")


@told_helper
def asked(call: Any, t: Any) -> Any:
    """Ask for something twice as large."""
    doubled = t + t
    return call(doubled)


def of_two_calls(call: Any) -> Seen:
    """The same helper calls the function twice."""
    t = torch.ones(2)
    one = asked(call, t)
    u = t - 3
    other = asked(call, u)
    yield "both", (one, other)


def test_of_two_calls_by_one_helper_it_ends_with_the_one_that_failed() -> None:
    line, first = (inspect.getsourcelines(function)[1] for function in (asked, of_two_calls))
    ends = [tell(of_two_calls, "look", abs, {}, Until(line=line + 4, from_line=first + own)) for own in (3, 5)]
    assert [program.lines for program in ends] == [
        ("t = torch.ones(2)", "doubled = t + t", "one = look(doubled)"),
        (
            "t = torch.ones(2)",
            "doubled = t + t",
            "one = look(doubled)",
            "u = t - 3",
            "doubled = u + u",
            "other = look(doubled)",
        ),
    ]


def test_a_branch_that_is_not_taken_is_left_out_of_a_class() -> None:
    case = SimpleNamespace(layer="none", dtype="float32")
    lines = tell(of_a_model, "look", abs, {"draw": Draw(3, case), "case": case}, Until("the output")).lines
    assert list(lines[3:7]) == CLASS.replace("self.norm(x)", "x").splitlines()[4:]


@pytest.mark.parametrize(
    ("line", "stores", "uses"),
    [
        ("a, b = [f(q) for q in c]", {"a", "b"}, {"c", "f"}),
        ("w.register_hook(lambda grad: s * grad)", set(), {"s", "w"}),
        (CLASS, {"Net"}, {"nn", "super"}),
        ("def fails(*args):\n    h = error\n    raise h", {"fails"}, {"error"}),
        ("for p in ps:\n    p.grad = z", {"p"}, {"p", "ps", "z"}),
    ],
)
def test_the_names_of_a_line(line: str, stores: set[str], uses: set[str]) -> None:
    assert Line(line).names == (stores, uses)
