"""Exercise 05-capture-many."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    FACTOR,
    SILENT,
    Circumstances,
    Mistake,
    Seen,
    apart,
    changes,
    close,
    exercise,
    expect,
    paired,
)
from graders.lesson_05_capturing_activations.judging import (
    BEFORE_THE_CALLERS_HOOK,
    LATE_BINDING,
    MISTAKES,
    Layers,
    Twin,
    in_a_row,
    lookalike,
    net_of,
    of_any_shape,
    ran_once_as_it_is,
    result_of,
    run_of,
    same_numbers,
    scrambled,
    stays,
    stays_when_the_model_raises,
    walk,
    went_on,
)
from graders.lesson_05_capturing_activations.shared import (
    IN_PLACE,
    asked_in_a_row,
    asked_meanwhile,
    asked_of_any_shape,
    observed,
    share_memory,
)


@exercise(
    "05-capture-many",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="The outputs of several layers in one run",
    hints=(
        "Register one hook for each name before you run the model. All of them write into the same dict.",
        "Each hook must know its own name. Bind it when you define the hook: `def hook(module, args, output, "
        "name=name):`, or use `functools.partial`.",
        "A dict keeps the order in which its keys were first written. Write a key only when its hook fires.",
    ),
    why=(
        "The dict is filled while the model runs, so its keys come in the order of execution. `name=name` binds "
        "each name at once; `functools.partial` does that, too, and one hook for all layers would do that looks up "
        "its module in a dict from modules to names."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ALL, "grad": ALL, "values": ALL, "collection": ALL, "mode": ALL, "frozen": ALL,
            "named": ("first", "last", "nested"), "output": ALL, "follower": ALL, "passing": ALL, "registered": ALL,
            "layers": ALL, "hooks": ALL, "hooked": ALL, "call": ALL, "grad_mode": ALL, "failure": ALL,
            "failing_run": ALL,
        },
        excludes={
            "rank": "the model says which: the inputs have 2 or 4 dimensions",
            "place": "the input is a leaf, or data",
            "number": "no number is an argument",
            "tied": "parameters are not looked at",
            "backward": "it runs no backward pass",
        },
        own={"x_is": ("data", "a leaf"), "container": ("not named", "named")},
        pairs=[("hooks", "hooked"), ("collection", "container"), ("collection", "follower")],
        impossible=[
            lambda hooks, hooked: hooks == "none" and hooked != "root",
            lambda hooks, hooked, collection: hooked == "named" and hooks == "replacing" and collection == "empty",
            lambda collection, container: collection == "empty" and container == "named",
            lambda collection, failure: collection == "empty" and failure == "KeyboardInterrupt",
            lambda passing, container, output: passing == "keyword" and container == "named" and output != "tensor",
        ],
    ),
)  # fmt: skip
class TestCaptureMany:
    """Write `capture_many(model, names, x)`. Run the model on `x` and return a dict that maps each name in the list
    `names` to the output of that submodule. The keys stand in the order in which the submodules ran.

    - `names` is in any order, may be empty, and may hold a name twice. It never holds `""`, the model itself.
    - In this run each named submodule is called once, its output is a `float32` or `float64` tensor, and none of them
      contains another.
    - The results have the values, the shapes and the dtypes of these outputs, and no graph (rule 6).
    - The model goes on with the outputs themselves, as it does without you.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `capture_many(model, ["1", "0"], x)` returns `{"0": tensor([[-1., 2.]]), "1": tensor([[0., 2.]])}`, with the keys in
    this order.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, named, collection, container, output, follower, passing, registered, **case):
        draws = Layers(rng, case)
        first, shift, norm, stem, body, inner, behind, last, unused = rng.names(9)
        in_place = [IN_PLACE] if follower == "in-place" else []
        inside = scrambled(rng, {behind: ["tanh"], inner: draws.target("counting")}, [inner, behind])
        children = {
            first: draws.plain(),
            shift: draws.shift(registered),
            norm: draws.norm(),
            stem: ["sequential", {"0": draws.plain(), "1": ["in-place", -0.5] if in_place else ["gelu"]}],
            body: ["net", inside, [inner, *in_place, behind], output, passing],
            last: draws.target(),
            unused: draws.plain(),
        }
        steps = [first, *in_place, shift, norm, stem, *in_place, body, last, *in_place]
        inner_name = f"{body}.{inner}"
        of_stem = stem if container == "named" else f"{stem}.0"
        target = {"first": first, "last": last, "nested": of_stem if container == "named" else inner_name}[named]
        some = [first, norm, of_stem, inner_name, last]
        names = {
            "empty": [],
            "one": [of_stem if container == "named" else target],
            "many": rng.shuffled(some),
            "repeated": rng.shuffled([*dict.fromkeys([target, of_stem, inner_name]), target]),
        }[collection]
        others = {key: child for name in some for key, child in lookalike(name).items()}
        spec = ["net", {**others, **scrambled(rng, children, steps)}, steps, output, passing]
        return {
            "net": net_of(spec, names, case),
            "names": names,
            "run": run_of(case, body),
            "x": draws.x(case["layout"]),
            "later": draws.x(case["layout"]),
            "shaped": draws.of_any_shape(),
            "plain": draws.plain_x(),
        }

    def alive(net, names, x, later, mode):
        expected, others = captured(net, names, x), captured(net, names, later)
        run, defined = list(expected), defined_order(net, names)
        orders_differ = len(run) < 4 or (run != defined and names not in (run, defined) and names[-1] != run[-1])
        each = list(expected.values())
        return orders_differ and apart(*each, *(-0.5 * y for y in each), *others.values())

    def oracle(net, names, x, later):
        twin = Twin(net)
        return [[call.y for call in twin.run(t)] for t in (x, later)] + [twin.statistics]

    def probe(student, net, names, x, later, shaped, plain, run):
        others = asked_of_any_shape(lambda model, name, t: student.capture_many(model, [name], t), shaped)
        seen = observed(student.capture_many, net, names, x, later, **run)
        seen["in a call"] = asked_meanwhile(student.capture_many, ["0"])
        (row,) = asked_in_a_row(student.capture_many, [["1", "3", "2"]], plain)
        seen |= {"of any shape": others, "in a row": row}
        seen["one memory"] = share_memory(row)
        example = nn.Sequential(nn.Flatten(), nn.ReLU())
        return {**seen, "example": student.capture_many(example, ["1", "0"], torch.tensor([[-1.0, 2.0]]))}

    mistakes = (
        Mistake(
            "late-binding",
            lambda seen, names: len(set(names)) > 1 and seen["result"].keys == names[-1:],
            LATE_BINDING,
        ),
        Mistake(
            "repr-keys",
            lambda seen, net, names: (
                any(str(key).startswith(PRINTED) for key in seen["result"].keys)
                or (set(seen["result"].keys) == set(names) and share_a_value(seen["result"], names))
            ),
            "You used the printed form of a module, or its class, as its key. Layers with equal settings print alike, "
            "so one overwrote the other. Only the name is unique: use it as the key.",
        ),
        *MISTAKES,
        Mistake(
            "one-run-per-name",
            lambda seen, names: (
                seen["runs"].value in (len(names), len(set(names)))
                and not changes(seen["changed"], "hook-left *", "hook-removed *")
            ),
            "You ran the model once for each name. Register all hooks first, and run it a single time: every hook "
            "writes its own entry.",
            rather_than=("ran-more-than-once",),
            everywhere=True,
        ),
        Mistake(
            "stored-alias",
            lambda seen, net, names, x, follower: (
                (overwritten(seen["result"], captured(net, names, x)) and seen["goes on"].value is True)
                if follower == "in-place"
                else SILENT
            ),
        ),
        Mistake(
            "given-order",
            lambda seen, net, names, x: (
                seen["result"].keys == list(dict.fromkeys(names))
                and close(seen["result"], captured(net, names, x))
                and seen["runs"].value == 1
            ),
            "The keys stand in the order of `names`. The order asked for is that of execution: write a key into the "
            "dict only when its hook fires.",
        ),
        Mistake(
            "definition-order",
            lambda seen, net, names, x: (
                seen["result"].keys == defined_order(net, names) and close(seen["result"], captured(net, names, x))
            ),
        ),
        Mistake(
            "before-the-callers-hook",
            lambda seen, net, names, x: (
                net["hooks"] == "replacing"
                and set(names) & set(net["watched"]) != set()
                and all(
                    close(seen["result"][name], y / FACTOR if name in net["watched"] else y)
                    for name, y in captured(net, names, x).items()
                )
            ),
            BEFORE_THE_CALLERS_HOOK,
        ),
    )

    def test_every_named_output_is_returned(seen, net, names, x, later, call):
        for key in ("result", "afterwards"):
            same_outputs(result_of(seen, key), captured(net, names, x))
        if call != "once":
            same_outputs(result_of(seen, "later"), captured(net, names, later, after=x if call == "again" else None))

    def test_they_have_the_shape_of_any_output(seen, shaped):
        for found, output in of_any_shape(seen, shaped):
            same_outputs(found, {"1": output})

    def test_each_is_a_copy_of_what_a_layer_hands_on(seen, plain):
        found = Seen(seen["in a row"].value, "the result for layers that hand on their input")
        same_outputs(found, {"1": in_a_row(plain), "2": in_a_row(plain), "3": -0.5 * in_a_row(plain)})
        expect(seen["one memory"]).is_false("two entries of your dict share their memory")

    def test_the_keys_are_in_order_of_execution(seen, net, names, x):
        for key in ("result", "afterwards"):
            expect(result_of(seen, key)).has_keys(*captured(net, names, x), ordered=True)

    def test_a_call_inside_a_call_changes_nothing(seen):
        for found, (number, whose) in paired(seen["in a call"], ((3.0, "outer"), (2.0, "inner"))):
            found = Seen(found.value, f"the result of the {whose} call")
            same_outputs(found, {"0": torch.full((1, 2), number)})

    def test_the_model_runs_once_as_it_is(seen, net, x):
        ran_once_as_it_is(seen, net, x)

    def test_the_model_goes_on_with_the_outputs_themselves(seen):
        went_on(seen)

    def test_nothing_of_the_caller_changes(seen):
        stays(seen)

    def test_it_holds_when_the_model_raises(seen):
        stays_when_the_model_raises(seen)

    def test_the_example_comes_out(seen):
        expect(seen["example"]).has_keys("0", "1", ordered=True)
        same_outputs(seen["example"], {"0": torch.tensor([[-1.0, 2.0]]), "1": torch.tensor([[0.0, 2.0]])})


PRINTED = ("Conv2d", "Linear", "Tanh", "BatchNorm", "Counting", "Sequential")
"""How the printed forms of modules begin, and the names of their classes."""


def captured(net: dict[str, Any], names: list[str], x: Tensor, after: Tensor | None = None) -> dict[str, Tensor]:
    """Name to output, in the order of execution; `after` a run on another input."""
    twin = Twin(net)
    if after is not None:
        twin.run(after)
    return {call.name: call.y for call in twin.run(x) if call.name in names}


def same_outputs(seen: Seen, expected: dict[str, Tensor]) -> None:
    """A dict with these outputs, in any order."""
    expect(seen).has_keys(*expected)
    for name, value in expected.items():
        same_numbers(seen[name], value)


def defined_order(net: dict[str, Any], names: list[str]) -> list[str]:
    """These names in the order of `named_modules()`."""
    return [name for name, _ in walk(net["spec"]) if name in names]


def overwritten(seen: Seen, expected: dict[str, Tensor]) -> bool:
    """Whether some of the outputs are what the in-place step behind the module made of them, and the others right."""
    late = [close(seen[name], -0.5 * y) for name, y in expected.items()]
    return any(late) and all(after_it or close(seen[name], y) for after_it, (name, y) in zip(late, expected.items()))


def share_a_value(seen: Seen, names: list[str]) -> bool:
    """Whether the same tensor is under two names."""
    found = [seen[name].tensor for name in dict.fromkeys(names)]
    return any(
        a is not None and b is not None and a.shape == b.shape and torch.equal(a, b)
        for index, a in enumerate(found)
        for b in found[:index]
    )
