"""Exercise 05-capture-calls."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from torch import Tensor

from graders.authoring import (
    HOOK_MISTAKES,
    Mistake,
    Seen,
    apart,
    close,
    exercise,
    expect,
    model_unchanged,
    no_hook_left,
)
from graders.lesson_05_capturing_activations.judging import block, linear, outputs, ran_once, trace, without_graph
from graders.lesson_05_capturing_activations.shared import Observer, build, when_it_raises


@exercise(
    "05-capture-calls",
    points=2,
    title="Every call of one module",
    hints=(
        "One module can run several times in one forward pass. A variable, or a dict entry, holds only one output.",
        "The hook fires once for each call, in order: append a copy to a list.",
        "Make the list inside your function. A list at the top of the cell, or as a default argument, is one list for "
        "all calls of your function.",
    ),
    cases=({"rounds": 2}, {"rounds": 3}, {"rounds": 2}),
)
class TestCaptureCalls:
    """Write `capture_calls(model, name, x)`. `name` is the name of a submodule of `model`. Run `model(x)` exactly once,
    to its end. Return a list with the output of every call of that submodule in this run, in the order of the calls.

    A model may call the same module object several times, and may have it under a second name as well. Every call
    counts, whichever name the model used. Each output is a tensor. For a submodule that is never called, the list is
    empty.

    The entries do not require grad. They are copies: a later layer that works in place does not change them. Each call
    of your function makes a new list, and nothing that happens later changes a list that you returned before.

    Each module keeps its mode (training or eval), and the parameters and their `.grad` stay. Hooks that were there
    before stay and fire as usual. No hook of yours is left, even when the model raises an exception; the exception
    comes through.

    **Example.** With `act = nn.ReLU()`, `model = nn.Sequential(nn.Flatten(), act, nn.Flatten(), act)` and
    `x = torch.tensor([[-1., 2.]])`, `capture_calls(model, "1", x)` returns `[tensor([[0., 2.]]), tensor([[0., 2.]])]`.
    """

    def draw(rng, rounds):
        act, again, scale, unused, *layers = rng.names(4 + rounds)
        children = {name: linear(rng, 3, 3) for name in (unused, *layers)}
        children |= {act: ["relu", False], again: ["same", act], scale: ["scale", rng.choice((0.5, 2.0, 3.0))]}
        order = [step for index, layer in enumerate(layers) for step in (layer, (act, again)[index % 2], scale)]
        return {
            "spec": block(rng, order, children),
            "name": act,
            "alike": ["block", {act: ["relu", False]}, [act, act]],
            "unused": unused,
            "x": rng.tensor(2, 3),
            "later": rng.tensor(2, 3),
        }

    def alive(spec, name, x, later):
        calls = outputs(spec, x, name)
        return apart(*calls, *scaled(spec, name, x), *outputs(spec, later, name))

    def probe(student, spec, name, alike, unused, x, later):
        witness = Observer(build(spec), name)
        first = student.capture_calls(witness.model, name, x)
        seen = {"first": copied(first), **witness.report()}
        seen["later"] = copied(student.capture_calls(build(spec), name, later))
        witness.model(later)
        seen["first_afterwards"] = copied(first)
        seen["alike"] = copied(student.capture_calls(build(alike), name, x))
        try:
            seen["unused"] = copied(student.capture_calls(build(spec), unused, x))
        except (KeyError, IndexError, AttributeError, TypeError, ValueError, NameError) as error:
            seen["unused"] = f"{type(error).__name__}: {error}"[:200]
        return seen | when_it_raises(lambda: build(spec), lambda model: student.capture_calls(model, name, x))

    mistakes = (
        Mistake(
            "only-last-call",
            lambda seen, spec, name, x: any(
                close(seen["first"], last) for last in (outputs(spec, x, name)[-1:], outputs(spec, x, name)[-1])
            ),
        ),
        Mistake(
            "global-store",
            lambda seen, spec, name, x: (
                seen["hooks_left"].value == 0
                and ends_with(seen["first"], outputs(spec, x, name))
                and (
                    len(seen["first"]) > len(outputs(spec, x, name))
                    or len(seen["first_afterwards"]) != len(seen["first"])
                    or len(seen["later"]) > len(seen["first"])
                    or not close(seen["first_afterwards"], outputs(spec, x, name))
                )
            ),
            "Your list outlives the call: the second call of your function found the entries of the first. Make a new "
            "list inside the function.",
        ),
        Mistake("stored-alias", lambda seen, spec, name, x: close(seen["first"], scaled(spec, name, x))),
        Mistake(
            "stored-the-input",
            lambda seen, spec, name, x: close(seen["first"], [call.x for call in trace(spec, x) if call.name == name]),
        ),
        Mistake(
            "registered-twice",
            lambda seen, spec, name, x: close(seen["first"], [y for y in outputs(spec, x, name) for _ in range(2)]),
            "Every call is there twice, because your hook was registered twice on the same module. It has two names, "
            "but it is one object: register once, on `model.get_submodule(name)`.",
        ),
        *HOOK_MISTAKES,
    )

    def test_every_call_is_captured_in_order(seen, spec, name, x):
        expected = outputs(spec, x, name)
        expect(seen["first"]).has_length(len(expected), "outputs")
        for entry, value in zip(seen["first"], expected):
            expect(entry).close_to(value, detached=False)

    def test_the_entries_have_no_graph(seen):
        for entry in seen["first"]:
            without_graph(entry)

    def test_calls_with_equal_outputs_count_too(seen, name, alike, x):
        expected = outputs(alike, x, name)
        expect(seen["alike"]).has_length(len(expected), "outputs")
        for entry, value in zip(seen["alike"], expected):
            expect(entry).close_to(value, detached=False)

    def test_each_result_is_a_list_of_its_own(seen, spec, name, x, later):
        for key, values in (("later", outputs(spec, later, name)), ("first_afterwards", outputs(spec, x, name))):
            expect(seen[key]).has_length(len(values), "outputs")
            for entry, value in zip(seen[key], values):
                expect(entry).close_to(value, detached=False)

    def test_a_module_that_is_never_called_gives_an_empty_list(seen):
        if type(seen["unused"].value) is str:
            expect(seen["unused"]).fail(f"your function raised {seen['unused'].value}")
        expect(seen["unused"]).has_length(0, "outputs")

    def test_the_model_runs_once(seen, spec, name, x):
        ran_once(seen, callers_hooks=1 + len(outputs(spec, x, name)))

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def copied(value: Any) -> Any:
    """A list as it is at this moment; any other value as it is."""
    return list(value) if isinstance(value, list) else value


def scaled(spec: list[Any], name: str, x: Tensor) -> list[Tensor]:
    """What the in-place layer behind the module makes of each output."""
    calls = trace(spec, x)
    return [behind.y for call, behind in pairwise(calls) if call.name == name]


def ends_with(seen: Seen, expected: list[Tensor]) -> bool:
    """Whether the last entries of a list are these."""
    last = list(seen)[-len(expected) :]
    return len(last) == len(expected) and all(close(entry, y) for entry, y in zip(last, expected))
