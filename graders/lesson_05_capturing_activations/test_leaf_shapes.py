"""Exercise 05-leaf-shapes."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graders.authoring import HOOK_MISTAKES, Mistake, exercise, expect, model_unchanged, no_hook_left
from graders.lesson_05_capturing_activations.judging import (
    LATE_BINDING,
    all_names,
    block,
    conv,
    defined_order,
    filled_keys,
    linear,
    outputs,
    ran_once,
    trace,
)
from graders.lesson_05_capturing_activations.shared import Observer, build, plain_tuple, when_it_raises


@exercise(
    "05-leaf-shapes",
    points=2,
    title="The output shape of every layer",
    hints=(
        "A module without children is one for which `list(module.children())` is empty.",
        "`model.named_modules()` yields the modules of all levels with their full names, each module once, under its "
        "first name.",
        "Write into the dict when the hook fires. A key that is there already keeps its place when its value is "
        "written again.",
    ),
)
class TestLeafShapes:
    """Write `leaf_shapes(model, x)`. Run `model(x)` exactly once, to its end. Return a dict with one entry for every
    module without children that is called in this run. The key is the name of the module in `model.named_modules()`,
    which is the first one if it has several. The value is the shape of its output, as a tuple of ints.

    - The keys stand in the order of first calls.
    - A module that is called more than once shows the shape of its last call.
    - A module that is not called does not appear.
    - All outputs are tensors. The model may have custom blocks, `nn.Sequential` and `nn.ModuleList`, nested.

    Each module keeps its mode (training or eval), and the parameters and their `.grad` stay. Hooks that were there
    before stay and fire as usual. No hook of yours is left, even when the model raises an exception; the exception
    comes through.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(6, 4), nn.ReLU()))` and
    `x = torch.ones(1, 2, 3)` the result is `{"0": (1, 6), "1.0": (1, 4), "1.1": (1, 4)}`.
    """

    def draw(rng):
        stem, body, layers, pool, again, flat, head, unused, inner, act = rng.names(10)
        n, classes = rng.integer(1, 3), rng.integer(3, 6)
        relu = ["relu", True]
        children = {
            stem: ["sequential", [conv(rng), ["sequential", [relu, conv(rng)]]]],
            body: block(rng, [inner, act], {inner: conv(rng), act: relu}),
            layers: ["list", [conv(rng), conv(rng)]],
            pool: ["pool", 2],
            again: ["same", pool],
            flat: ["flatten"],
            head: linear(rng, 8, classes),
            unused: linear(rng, 2, 2),
        }
        order = [stem, pool, body, f"{layers}.1", f"{layers}.0", again, flat, head]
        return {
            "spec": block(rng, order, children),
            "unused": unused,
            "deep": [f"{body}.{inner}", f"{body}.{act}", f"{layers}.1", f"{layers}.0"],
            "pool": pool,
            "x": rng.tensor(n, 2, 8, 8),
        }

    def alive(spec, x):
        shapes = shapes_of_leaves(spec, x)
        return list(shapes) != defined_order(spec, list(shapes))

    def probe(student, spec, unused, deep, pool, x):
        witness = Observer(build(spec), deep[0], pool)
        result = student.leaf_shapes(witness.model, x)
        if isinstance(result, dict):
            result = {name: plain_tuple(shape) for name, shape in result.items()}
        seen = {"result": result, **witness.report()}
        return seen | when_it_raises(lambda: build(spec), lambda model: student.leaf_shapes(model, x))

    mistakes = (
        Mistake(
            "only-sequential-recursed",
            lambda seen, spec, deep, x: (
                len(seen["result"]) > 1
                and set(seen["result"].keys) <= set(shapes_of_leaves(spec, x)) | containers(spec)
                and any(not set(group) & set(seen["result"].keys) for group in (deep[:2], deep[2:]))
            ),
            "Layers inside a custom block or a `ModuleList` are missing: you looked only at the top level, or went "
            "down only into some kinds of container. `model.named_modules()` yields the modules of all levels.",
        ),
        Mistake(
            "containers-included",
            lambda seen, spec, x: (
                set(shapes_of_leaves(spec, x)) < set(seen["result"].keys)
                and set(seen["result"].keys) - set(shapes_of_leaves(spec, x)) <= containers(spec)
            ),
            "Your dict also lists containers: modules that have children of their own. "
            "Register only on modules whose `children()` are empty.",
        ),
        Mistake(
            "definition-order",
            lambda seen, spec, x: seen["result"].keys == defined_order(spec, list(shapes_of_leaves(spec, x))),
        ),
        Mistake("late-binding", lambda seen: len(filled_keys(seen["result"])) == 1, LATE_BINDING),
        Mistake(
            "uncalled-included",
            lambda seen, unused: unused in seen["result"].keys and len(filled_keys(seen["result"])) > 1,
            "Your dict lists a module that the model never calls. Make an entry only when the hook fires.",
        ),
        Mistake(
            "only-first-call",
            lambda seen, spec, pool, x: (
                seen["result"].value == {**shapes_of_leaves(spec, x), pool: tuple(outputs(spec, x, pool)[0].shape)}
            ),
            "A module that runs more than once shows the shape of its last call here, and yours shows the first. "
            "Write the entry again each time the hook fires.",
        ),
        *HOOK_MISTAKES,
    )

    def test_every_layer_has_its_shape(seen, spec, x):
        expected = shapes_of_leaves(spec, x)
        expect(seen["result"]).has_keys(*expected)
        for name, shape in expected.items():
            expect(seen["result"][name]).equals(shape)

    def test_the_keys_are_in_order_of_first_calls(seen, spec, x):
        expect(seen["result"]).has_keys(*shapes_of_leaves(spec, x), ordered=True)

    def test_the_model_runs_once(seen):
        ran_once(seen, callers_hooks=4)

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def shapes_of_leaves(spec: list[Any], x: Tensor) -> dict[str, tuple[int, ...]]:
    """Name to shape: keys by first call, the shape of the last."""
    calls = [call for call in trace(spec, x) if call.kind not in ("block", "sequential")]
    return {call.name: tuple(call.y.shape) for call in calls}


def containers(spec: list[Any]) -> set[str]:
    """The names of the modules with children."""
    names = set(all_names(spec))
    return {
        name for name in names if any(other != name and other.startswith(f"{name}." if name else "") for other in names)
    }
