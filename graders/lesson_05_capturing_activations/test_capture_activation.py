"""Exercise 05-capture-activation."""

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
    close,
    exactly,
    exercise,
    expect,
    paired,
)
from graders.lesson_05_capturing_activations.judging import (
    BEFORE_THE_CALLERS_HOOK,
    MISTAKES,
    Call,
    Layers,
    Twin,
    find,
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
    went_on,
)
from graders.lesson_05_capturing_activations.shared import (
    IN_PLACE,
    asked_in_a_row,
    asked_meanwhile,
    asked_of_any_shape,
    observed,
)


@exercise(
    "05-capture-activation",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="The output of one layer",
    hints=(
        "`model.get_submodule(name)` finds the module. Register a forward hook on it and then call `model(x)`.",
        "The hook stores `output.detach().clone()` and returns nothing. Without the clone, a later in-place layer "
        "rewrites it.",
        "The handle is a context manager: `with module.register_forward_hook(hook):` removes the hook at the end of "
        "the block, even when the model raises.",
    ),
    why=(
        "The hook copies the output before a later layer can overwrite it in place, and the `with` block removes "
        "the hook even when the model raises. `try` and `finally` with `handle.remove()` would do as well; slicing "
        "the model would not, because `forward` may do more than run its layers in turn."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ALL, "grad": ALL, "values": ALL, "mode": ALL, "frozen": ALL,
            "named": ("first", "last", "nested"), "output": ALL, "follower": ALL, "passing": ALL, "registered": ALL,
            "layers": ALL, "hooks": ALL, "hooked": ALL, "call": ALL, "grad_mode": ALL, "failure": ALL,
            "failing_run": ALL,
        },
        excludes={
            "rank": "the model says which: the inputs have 2 or 4 dimensions",
            "place": "the input is a leaf, or data",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "tied": "parameters are not looked at",
            "backward": "it runs no backward pass",
        },
        own={"x_is": ("data", "a leaf")},
        pairs=[("hooks", "hooked"), ("mode", "named")],
        impossible=[lambda hooks, hooked: hooks == "none" and hooked != "root"],
    ),
)  # fmt: skip
class TestCaptureActivation:
    """Write `capture_activation(model, name, x)`. Run the model on `x` and return the output of its submodule `name`,
    for example `"stem.0"` (never `""`, the model itself).

    - In this run the submodule is called once, and its output is a `float32` or `float64` tensor. Other parts of the
      model, and the model itself, may return anything.
    - The result has the values, the shape and the dtype of that output, and no graph (rule 6).
    - The model goes on with the output itself, as it does without you.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `capture_activation(model, "1", x)` returns `tensor([[0., 2.]])`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, named, output, follower, passing, registered, **case):
        draws = Layers(rng, case)
        first, shift, norm, body, inner, behind, last, before, after = rng.names(9)
        kinds = {
            place: draws.target("counting") if place == named else draws.plain()
            for place in ("first", "nested", "last")
        }
        in_place = [IN_PLACE] if follower == "in-place" else []
        if passing == "keyword":
            children = scrambled(rng, {behind: ["tanh"], inner: kinds["nested"]}, [inner, behind])
            inside, nested = ["net", children, [inner, *in_place, behind], output, passing], f"{body}.{inner}"
        else:
            inside = ["sequential", {"0": kinds["nested"], "1": ["in-place", -0.5] if in_place else ["tanh"]}]
            nested = f"{body}.0"
        steps = [first, *in_place, shift, norm, body, last, *in_place]
        children = {
            first: kinds["first"],
            shift: draws.shift(registered),
            norm: draws.norm(),
            body: inside,
            last: kinds["last"],
        }
        alike = ["sequential", {nested.split(".")[1]: ["tanh"]}]  # its name ends as that of the nested one
        name = {"first": first, "nested": nested, "last": last}[named]
        defined = {before: alike, **lookalike(name), **scrambled(rng, children, steps), after: alike}
        spec = ["net", defined, steps, output, passing]
        return {
            "net": net_of(spec, [name], case),
            "name": name,
            "run": run_of(case, body if named == "first" else norm),
            "x": draws.x(case["layout"]),
            "later": draws.x(case["layout"]),
            "shaped": draws.of_any_shape(),
            "plain": draws.plain_x(),
        }

    def alive(net, name, x, later, mode, named):
        call = called(net, name, x)
        others = [called(net, name, later).y, call.x, skipped(net, name, x)][: 2 if named == "first" else 3]
        if mode == "train" and named != "first":
            others.append(next(call.y for call in Twin(net, mode="eval").run(x) if call.name == name))
        return apart(call.y, -0.5 * call.y, *others)

    def oracle(net, name, x, later):
        twin = Twin(net)
        return [[call.y for call in twin.run(t) if call.name == name] for t in (x, later)] + [twin.statistics]

    def probe(student, net, name, x, later, shaped, plain, run):
        seen = observed(student.capture_activation, net, name, x, later, **run)
        seen["in a call"] = asked_meanwhile(student.capture_activation, "0")
        seen["of any shape"] = asked_of_any_shape(student.capture_activation, shaped)
        seen["in a row"] = asked_in_a_row(student.capture_activation, ["1", "2"], plain)
        example = nn.Sequential(nn.Flatten(), nn.ReLU())
        return {**seen, "example": student.capture_activation(example, "1", torch.tensor([[-1.0, 2.0]]))}

    mistakes = (
        Mistake(
            "stored-alias",
            lambda seen, net, name, x, follower: (
                (close(seen["result"], -0.5 * called(net, name, x).y) and seen["goes on"].value is True)
                if follower == "in-place"
                else SILENT
            ),
            "You stored a reference to the output, and what works in place behind the layer rewrote it. "
            "Store a copy: `output.detach().clone()`.",
        ),
        Mistake(
            "stored-the-input",
            lambda seen, net, name, x: close(seen["result"], called(net, name, x).x),
            "You took the input of the module. The task asks for its `output`. (`args` may be empty, too: somebody may "
            "call the module with `module(input=x)`.)",
            raises="tuple index out of range",
        ),
        Mistake(
            "skipped-the-model",
            lambda seen, net, name, x, named: (
                SILENT if named == "first" else seen["runs"].value == 0 and close(seen["result"], skipped(net, name, x))
            ),
            "You called the submodule on `x` itself. In the model, other layers come before it: call `model(x)`, and "
            "let a hook on the submodule record what it makes of its real input.",
        ),
        *MISTAKES,
        Mistake(
            "before-the-callers-hook",
            lambda seen, net, name, x: (
                net["hooks"] == "replacing"
                and name in net["watched"]
                and close(seen["result"], called(net, name, x).y / FACTOR)
            ),
            BEFORE_THE_CALLERS_HOOK,
        ),
    )

    def test_the_output_of_the_layer_is_returned(seen, net, name, x, call, later):
        for key in ("result", "afterwards"):
            same_numbers(result_of(seen, key), called(net, name, x).y)
        if call != "once":
            twin = Twin(net)
            if call == "again":
                twin.run(x)
            same_numbers(result_of(seen, "later"), next(call.y for call in twin.run(later) if call.name == name))

    def test_it_has_the_shape_of_any_output(seen, shaped):
        for found, output in of_any_shape(seen, shaped):
            expect(found).close_to(output)

    def test_it_is_a_copy_of_what_a_layer_hands_on(seen, plain):
        for found in exactly(2, seen["in a row"]):
            same_numbers(Seen(found.value, "the result for a layer that hands on its input"), in_a_row(plain))

    def test_a_call_inside_a_call_changes_nothing(seen):
        for found, (number, whose) in paired(seen["in a call"], ((3.0, "outer"), (2.0, "inner"))):
            found = Seen(found.value, f"the result of the {whose} call")
            same_numbers(found, torch.full((1, 2), number))

    def test_the_model_runs_once_as_it_is(seen, net, x):
        ran_once_as_it_is(seen, net, x)

    def test_the_model_goes_on_with_the_output_itself(seen):
        went_on(seen)

    def test_nothing_of_the_caller_changes(seen):
        stays(seen)

    def test_it_holds_when_the_model_raises(seen):
        stays_when_the_model_raises(seen)

    def test_the_example_comes_out(seen):
        expect(seen["example"]).close_to(torch.tensor([[0.0, 2.0]]))


def called(net: dict[str, Any], name: str, x: Tensor) -> Call:
    """The one call of a module."""
    return next(call for call in Twin(net).run(x) if call.name == name)


def skipped(net: dict[str, Any], name: str, x: Tensor) -> Tensor:
    """What the module makes of the input of the model."""
    mode = "eval" if name in Twin(net).evaluating else "train"
    watched = [""] if name in net["watched"] else []
    return called({**net, "mode": mode, "watched": watched, "spec": find(net["spec"], name)[1]}, "", x).y
