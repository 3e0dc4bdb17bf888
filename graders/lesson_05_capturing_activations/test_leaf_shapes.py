"""Exercise 05-leaf-shapes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import ALL, SILENT, Circumstances, Mistake, Seen, exercise, expect
from graders.lesson_05_capturing_activations.judging import (
    BEFORE_THE_CALLERS_HOOK,
    LATE_BINDING,
    MISTAKES,
    Layers,
    Twin,
    filled_keys,
    leaves,
    net_of,
    ran_once_as_it_is,
    result_of,
    run_of,
    scrambled,
    stays,
    stays_when_the_model_raises,
    walk,
    went_on,
)
from graders.lesson_05_capturing_activations.shared import IN_PLACE, ByHand, Deeper, Shift, observed, plain_tuple


@exercise(
    "05-leaf-shapes",
    points=2,
    minutes=20,
    difficulty=2,
    title="The output shape of every layer",
    hints=(
        "A module without children is one for which `list(module.children())` is empty.",
        "`model.named_modules()` yields the modules of all levels with their full names, each module once, under its "
        "first name.",
        "Write into the dict when the hook fires. A key that is there already keeps its place when its value is "
        "written again.",
    ),
    why=(
        "`named_modules()` goes through all levels and gives each module once, under its first name; a module "
        "without children is one for which `children()` yields nothing. The hook writes when the module runs, so "
        "the order comes by itself. One function and `functools.partial` would do as well."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ALL, "grad": ALL, "mode": ALL, "frozen": ALL, "output": ALL, "follower": ALL,
            "passing": ALL, "registered": ALL, "layers": ALL, "hooks": ALL, "hooked": ALL, "call": ALL,
            "grad_mode": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "rank": "the outputs of the layers have 0 to 4 dimensions in each model",
            "place": "the input is a leaf, or data",
            "values": "only shapes are asked for",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "tied": "parameters are not looked at",
            "named": "no module is named",
            "backward": "it runs no backward pass",
        },
        own={"x_is": ("data", "a leaf"), "model": ("large", "a layer"), "batches": ("as many", "fewer")},
        pairs=[("hooks", "hooked")],
        impossible=[
            lambda hooks, hooked: hooks == "none" and hooked != "root",
            lambda model, hooks: model == "a layer" and hooks != "watching",
            lambda model, hooked: model == "a layer" and hooked != "root",
            lambda model, mode: model == "a layer" and mode != "train",
            lambda model, output: model == "a layer" and output != "tensor",
        ],
        constants={"values": "full"},
    ),
)  # fmt: skip
class TestLeafShapes:
    """Write `leaf_shapes(model, x)`. Run the model on `x` and return a dict with one entry for every module in
    `model.named_modules()` that has no children (`list(module.children())` is empty) and is called in this run. The key
    is its name there. The value is the shape of its output, as it left the module, as a tuple of ints.

    - The keys stand in the order of first calls. None of these modules calls another one.
    - A module that is called more than once shows the shape of its last call.
    - Nothing else appears: no module that is not called, and none that `named_modules()` does not know. The model
      itself may be such a module without children.
    - The outputs of these modules are tensors; those of others may be anything.
    - The model goes on with the outputs themselves, as it does without you.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(6, 4), nn.ReLU()))` and
    `x = torch.ones(1, 2, 3)` the result is `{"0": (1, 6), "1.0": (1, 4), "1.1": (1, 4)}`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, output, follower, passing, registered, **case):
        draws = Layers(rng, case)
        stem, body, norm, shift, stack, again, empty, twin, pool, head, mean, unused, inner, act = rng.names(14)
        in_place = [IN_PLACE] if follower == "in-place" else []
        inside = scrambled(
            rng, {act: ["tanh"], inner: draws.target(), shift: draws.shift(registered)}, [inner, act, shift]
        )
        children = {
            stem: ["sequential", {"0": draws.plain(), "1": ["sequential", {"0": ["tanh"], "1": draws.plain()}]}],
            body: ["net", inside, [inner, *in_place, act, shift], output, passing],
            norm: draws.norm(),
            stack: ["list", {"0": draws.plain(), "1": ["sequential", {"0": ["identity"], "1": ["relu"]}]}],
            empty: ["sequential", {}],
            pool: ["narrow"],
            head: ["flatten"],
            mean: ["mean"],
        }
        steps = [f"{stack}.0", stem, norm, body, pool, *in_place, empty, f"{stack}.1", again, pool, head, mean]
        shared = ["net", {twin: ["same", f"{body}.{act}"]}, [twin], output, passing]
        spec = [
            "net",
            {**scrambled(rng, children, steps), again: shared, unused: draws.plain()},
            steps,
            output,
            passing,
        ]
        first_name = f"{stem}.1.0"
        breaks = body
        if case["model"] == "a layer":
            spec, first_name, breaks = draws.plain(), "", ""
        net = net_of(spec, [first_name], case)
        net["cut"] = first_name if case["hooks"] == "replacing" else None
        later = draws.x(case["layout"], batch=3 if case["batches"] == "as many" else 2)
        return {
            "net": net,
            "run": run_of(case, breaks, rounds=3),
            "pool": pool,
            "unused": unused,
            "x": draws.x(case["layout"]),
            "later": later,
        }

    def alive(net, x, later, model):
        shapes = shapes_of_leaves(net, x)
        defined = [name for name in leaves(net["spec"]) if name in shapes]
        return model == "a layer" or (list(shapes) != defined and shapes != shapes_of_leaves(net, x, last=False))

    def oracle(net, x):
        twin = Twin(net)
        return [[call.y for call in twin.run(x)], twin.statistics]

    def probe(student, net, x, later, run):
        seen = observed(lambda model, named, t: student.leaf_shapes(model, t), net, "0", x, later, **run)
        example = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(6, 4), nn.ReLU()))
        seen["example"] = student.leaf_shapes(example, torch.ones(1, 2, 3))
        seen["made deeper"] = student.leaf_shapes(nn.Sequential(Shift(1.0), Deeper()), torch.ones(3, 2))
        seen["an empty child"] = student.leaf_shapes(nn.Sequential(nn.Sequential(), nn.Tanh()), torch.ones(1, 2))
        by_hand = ByHand()
        seen["no call"], seen["runs by hand"] = student.leaf_shapes(by_hand, torch.ones(1, 2)), by_hand.runs
        return seen | {
            key: {name: plain_tuple(shape) for name, shape in seen[key].items()}
            for key in ("result", "later", "afterwards", "example", "made deeper", "an empty child")
            if isinstance(seen.get(key), dict)
        }

    mistakes = (
        Mistake(
            "only-sequential-recursed",
            lambda seen, net, x, model: (
                SILENT
                if model == "a layer"
                else len(seen["result"]) > 1
                and set(seen["result"].keys) <= {name for name, _ in walk(net["spec"])}
                and not all(any(name in seen["result"].keys for name in group) for group in in_blocks(net, x) if group)
            ),
            "Layers inside a custom block or a `ModuleList` are missing: you looked only at the top level, or went "
            "down only into some kinds of container. `model.named_modules()` yields the modules of all levels.",
        ),
        Mistake(
            "containers-included",
            lambda seen, net, x: (
                set(shapes_of_leaves(net, x)) < set(seen["result"].keys)
                and set(seen["result"].keys) - set(shapes_of_leaves(net, x)) <= containers(net)
            ),
            "You hooked containers, too: modules that have children of their own (they may output anything). "
            "Register only on modules whose `children()` are empty.",
            raises="object has no attribute 'shape'",
        ),
        Mistake(
            "definition-order",
            lambda seen, net, x: (
                seen["result"].keys == [name for name in leaves(net["spec"]) if name in shapes_of_leaves(net, x)]
            ),
        ),
        Mistake(
            "late-binding",
            lambda seen, model: SILENT if model == "a layer" else len(filled_keys(seen["result"])) == 1,
            LATE_BINDING,
        ),
        Mistake(
            "uncalled-included",
            lambda seen, unused: unused in seen["result"].keys and len(filled_keys(seen["result"])) > 1,
            "Your dict lists a module that the model never calls. Make an entry only when the hook fires.",
        ),
        Mistake(
            "only-first-call",
            lambda seen, net, x: seen["result"].value == shapes_of_leaves(net, x, last=False),
            "A module that runs more than once shows the shape of its last call here, and yours shows the first. "
            "Write the entry again each time the hook fires.",
        ),
        Mistake(
            "before-the-callers-hook",
            lambda seen, net, x: (
                net["hooks"] == "replacing"
                and net["cut"] is not None
                and seen["result"].value == shapes_of_leaves(net, x, cut=False)
            ),
            BEFORE_THE_CALLERS_HOOK,
        ),
        *MISTAKES,
    )

    def test_every_layer_has_its_shape(seen, net, x, later, call):
        for key, t in (("result", x), ("afterwards", x), *([("later", later)] if call != "once" else [])):
            expected = shapes_of_leaves(net, t)
            found = result_of(seen, key)
            expect(found).has_keys(*expected)
            for name, shape in expected.items():
                expect(found[name]).equals(shape)

    def test_a_later_layer_that_works_in_place_changes_no_shape(seen):
        found = Seen(
            seen["made deeper"].value, "the result for a layer before one that calls `unsqueeze_` on its output"
        )
        expect(found).equals({"0": (3, 2), "1": (1, 3, 2)})

    def test_the_keys_are_in_order_of_first_calls(seen, net, x):
        for key in ("result", "afterwards"):
            expect(result_of(seen, key)).has_keys(*shapes_of_leaves(net, x), ordered=True)

    def test_the_model_runs_once_as_it_is(seen, net, x):
        ran_once_as_it_is(seen, net, x)

    def test_an_empty_container_is_a_child_and_a_leaf(seen):
        path = "the result for `nn.Sequential(nn.Sequential(), nn.Tanh())`"
        expect(Seen(seen["an empty child"].value, path)).equals({"0": (1, 2), "1": (1, 2)})

    def test_a_layer_that_is_not_called_does_not_appear(seen):
        path = "the result for a model that takes the weight of its only layer and does not call it"
        expect(Seen(seen["no call"].value, path)).equals({})
        expect(Seen(seen["runs by hand"].value, "the runs of this model")).equals(1)

    def test_the_model_goes_on_with_the_outputs_themselves(seen):
        went_on(seen)

    def test_nothing_of_the_caller_changes(seen):
        stays(seen)

    def test_it_holds_when_the_model_raises(seen):
        stays_when_the_model_raises(seen)

    def test_the_example_comes_out(seen):
        expect(seen["example"]).equals({"0": (1, 6), "1.0": (1, 4), "1.1": (1, 4)})


def shapes_of_leaves(
    net: dict[str, Any], x: Tensor, *, last: bool = True, cut: bool = True
) -> dict[str, tuple[int, ...]]:
    """Name to shape: keys by first call, the shape of the last; with `cut` false as before the caller's hooks."""
    inner = leaves(net["spec"])
    found: dict[str, tuple[int, ...]] = {}
    for call in Twin(net).run(x):
        if call.name in inner and (last or call.name not in found):
            missing = 1 if call.name == net["cut"] and not cut else 0
            found[call.name] = tuple(size + missing * (not dim) for dim, size in enumerate(call.y.shape))
    return found


def containers(net: dict[str, Any]) -> set[str]:
    """The names of the modules with children."""
    return {name for name, _ in walk(net["spec"])} - set(leaves(net["spec"]))


def in_blocks(net: dict[str, Any], x: Tensor) -> list[list[str]]:
    """The layers that run inside a custom block, and those inside a `ModuleList`."""
    kinds = {name: spec[0] for name, spec in walk(net["spec"])}
    nested = [name for name in shapes_of_leaves(net, x) if "." in name]
    return [[name for name in nested if kinds[name.split(".")[0]] == kind] for kind in ("net", "list")]
