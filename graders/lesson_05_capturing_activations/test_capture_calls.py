"""Exercise 05-capture-calls."""

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
    RETURNED_A_LIST,
    Call,
    Layers,
    Twin,
    all_close,
    find,
    lookalike,
    net_of,
    of_any_shape,
    ran_once_as_it_is,
    result_of,
    run_of,
    scrambled,
    stays,
    stays_when_the_model_raises,
    varied,
    went_on,
)
from graders.lesson_05_capturing_activations.shared import (
    IN_PLACE,
    asked_meanwhile,
    asked_of_any_shape,
    asked_of_varied,
    observed,
    share_memory,
)


@exercise(
    "05-capture-calls",
    points=2,
    minutes=15,
    difficulty=2,
    title="Every call of one module",
    hints=(
        "One module can run several times in one forward pass. A variable, or a dict entry, holds only one output.",
        "The hook fires once for each call, in order: append a copy to a list.",
        "Make the list inside your function. A list at the top of the cell, or as a default argument, is one list for "
        "all calls of your function.",
    ),
    why=(
        "A hook runs once for each call of its module, so appending to a list keeps all of them, in order; the "
        "list is made inside the function, so each call of yours has its own. An object with `__call__` that holds "
        "the list would do as well."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ALL, "grad": ALL, "values": ALL, "mode": ALL, "frozen": ALL, "named": ALL,
            "output": ALL, "follower": ALL, "passing": ALL, "registered": ALL, "layers": ALL, "hooks": ALL,
            "hooked": ALL, "call": ALL, "grad_mode": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "rank": "the model says which: the inputs have 2 or 4 dimensions",
            "place": "the input is a leaf, or data",
            "number": "no number is an argument",
            "collection": "the outputs are one: how many calls is an axis of its own",
            "tied": "parameters are not looked at",
            "backward": "it runs no backward pass",
        },
        own={"x_is": ("data", "a leaf"), "calls": (0, 1, 2, 6)},
        pairs=[("hooks", "hooked")],
        impossible=[
            lambda hooks, hooked: hooks == "none" and hooked != "root",
            lambda named, calls: named == "root" and calls != 1,
            lambda named, output: named == "root" and output != "tensor",
            lambda named, calls: named == "second name" and calls < 2,
            lambda hooks, hooked, calls: hooks == "replacing" and hooked == "named" and calls == 0,
            lambda layers, calls: layers == "activation" and calls < 2,
            lambda layers, named: layers == "activation" and named == "first",
        ],
    ),
)  # fmt: skip
class TestCaptureCalls:
    """Write `capture_calls(model, name, x)`. Run the model on `x` and return a list with the output of every call of
    the module `name` in this run, in the order of the calls. `name` is any name that `model.get_submodule` knows: it
    may be the second name of a module, and `""` is the model itself.

    - Every call counts, whichever name the model uses for it. If there is none, the list is empty. No module runs
      inside a call of itself.
    - The outputs are `float32` or `float64` tensors. Each entry has the values, the shape and the dtype of its output,
      and no graph (rule 6).
    - Each call of your function makes a new list.
    - The model goes on with the outputs themselves, as it does without you.

    **Example.** With `act = nn.ReLU()`, `model = nn.Sequential(nn.Flatten(), act, nn.Flatten(), act)` and
    `x = torch.tensor([[-1., 2.]])`, `capture_calls(model, "1", x)` returns `[tensor([[0., 2.]]), tensor([[0., 2.]])]`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, named, calls, output, follower, passing, registered, **case):
        draws = Layers(rng, case)
        target, again, shift, norm, body, inner, other, plain = rng.names(8)
        in_place = [IN_PLACE] if follower == "in-place" else []
        kept = ["in-place", 1.5] if case["layers"] == "activation" else draws.target()
        children = {plain: draws.plain(), shift: draws.shift(registered), norm: draws.norm()}
        around = [plain, shift, norm]
        if named == "nested":
            inside = scrambled(rng, {inner: kept, other: draws.plain()}, [other, inner])
            children[body] = ["net", inside, [inner, *in_place, other], output, passing]
            path, rounds = f"{body}.{inner}", [body] * calls
        else:
            children |= {target: kept, again: ["same", target]}
            path = {"root": "", "second name": again}.get(named, target)
            rounds = [step for index in range(calls) for step in ((target, again)[index % 2], *in_place)]
        steps = {"first": [*rounds, *around], "last": [*around, *rounds]}.get(named, [plain, shift, *rounds, norm])
        others = lookalike(path) if path else {}
        spec = ["net", {**others, **scrambled(rng, children, steps)}, steps, output, passing]
        return {
            "net": net_of(spec, [path], case),
            "name": path,
            "run": run_of(case, norm, rounds=3),
            "x": draws.x(case["layout"]),
            "later": draws.x(case["layout"]),
            "shaped": draws.of_any_shape(),
            "plain": draws.plain_x(),
        }

    def alive(net, name, x, later, named):
        outputs, others = captured(net, name, x), captured(net, name, later)
        return apart(*outputs, *(-0.5 * y for y in outputs), *others)

    def oracle(net, name, x, later):
        twin = Twin(net)
        return [[call.y for call in twin.run(t)] for t in (x, later)] + [twin.statistics]

    def probe(student, net, name, x, later, shaped, plain, run):
        others = asked_of_any_shape(student.capture_calls, shaped)
        seen = observed(student.capture_calls, net, name, x, later, **run)
        in_a_call = asked_meanwhile(student.capture_calls, "0")
        seen["in a call"] = [found[:6] if isinstance(found, list) else found for found in in_a_call]
        seen["of any shape"] = [list(found) if isinstance(found, list) else found for found in others]
        act = nn.ReLU()
        example = nn.Sequential(nn.Flatten(), act, nn.Flatten(), act)
        seen["example"] = student.capture_calls(example, "1", torch.tensor([[-1.0, 2.0]]))
        found = {key: seen[key] for key in ("result", "later", "afterwards", "example") if key in seen}
        lists = [entry for entry in found.values() if isinstance(entry, list)]
        seen["one list"] = len({id(entry) for entry in lists}) < len(lists)
        # A list that all calls share grows; no right one is as long.
        seen |= {key: entry[:20] if isinstance(entry, list) else entry for key, entry in found.items()}
        of_varied = asked_of_varied(student.capture_calls, plain)
        seen["of varied"] = [found[:6] if isinstance(found, list) else found for found in of_varied]
        seen["one memory"] = any(share_memory(found) for found in (seen["result"], *of_varied))
        handed_on = student.capture_calls(nn.Identity(), "", plain)
        seen["handed on"] = handed_on[:6] if isinstance(handed_on, list) else handed_on
        seen["memory of x"] = share_memory([*handed_on, plain]) if isinstance(handed_on, list) else False
        return seen

    mistakes = (
        Mistake(
            "only-last-call",
            lambda seen, net, name, x: any(
                close(seen["result"], last) for last in (captured(net, name, x)[-1:], captured(net, name, x)[-1])
            ),
        ),
        Mistake(
            "global-store",
            lambda seen: seen["one list"].value is True,
            "Your list outlives the call: every call of your function hands out the same list. Make a new list inside "
            "the function.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, net, name, x: any(close(seen["result"], late) for late in overwritten(captured(net, name, x))),
        ),
        Mistake(
            "stored-the-input",
            lambda seen, net, name, x, calls: (
                close(seen["result"], [call.x for call in calls_of(net, name, x)]) if calls else SILENT
            ),
            "You took the input of the module. The task asks for its `output`. (`args` may be empty, too: somebody may "
            "call the module with `module(input=x)`.)",
            raises="tuple index out of range",
        ),
        Mistake(
            "registered-twice",
            lambda seen, net, name, x, calls: (
                close(seen["result"], [y for y in captured(net, name, x) for _ in range(2)]) if calls else SILENT
            ),
            "Every call is there twice, because your hook was registered twice on the same module. It has two names, "
            "but it is one object: register once, on `model.get_submodule(name)`.",
        ),
        *MISTAKES,
        RETURNED_A_LIST,
        Mistake(
            "before-the-callers-hook",
            lambda seen, net, name, x: (
                net["hooks"] == "replacing"
                and find(net["spec"], name)[0] in net["watched"]
                and close(seen["result"], [y / FACTOR for y in captured(net, name, x)])
            ),
            BEFORE_THE_CALLERS_HOOK,
        ),
    )

    def test_every_call_is_captured_in_order(seen, net, name, x, later, call):
        for key in ("result", "afterwards"):
            all_close(result_of(seen, key), captured(net, name, x))
        if call != "once":
            all_close(result_of(seen, "later"), captured(net, name, later, after=x if call == "again" else None))

    def test_they_have_the_shape_of_any_output(seen, shaped):
        for found, output in of_any_shape(seen, shaped):
            all_close(found, [output])

    def test_each_is_a_copy_of_its_own_shape_and_dtype(seen, plain):
        for found in exactly(2, seen["of varied"]):
            all_close(Seen(found.value, "the result for a layer that hands on its input"), varied(plain))
        expect(seen["one memory"]).is_false("two entries of your list share their memory")
        all_close(Seen(seen["handed on"].value, "the result for nn.Identity itself"), [plain])
        expect(seen["memory of x"]).is_false("the entry for nn.Identity itself shares its memory with `x`")

    def test_each_result_is_a_list_of_its_own(seen):
        expect(seen["one list"]).is_false("two calls of your function returned the same list")

    def test_a_call_inside_a_call_changes_nothing(seen):
        for found, (number, whose) in paired(seen["in a call"], ((3.0, "outer"), (2.0, "inner"))):
            found = Seen(found.value, f"the result of the {whose} call")
            all_close(found, [torch.full((1, 2), number)])

    def test_the_model_runs_once_as_it_is(seen, net, x):
        ran_once_as_it_is(seen, net, x)

    def test_the_model_goes_on_with_the_outputs_themselves(seen):
        went_on(seen)

    def test_nothing_of_the_caller_changes(seen):
        stays(seen)

    def test_it_holds_when_the_model_raises(seen):
        stays_when_the_model_raises(seen)

    def test_the_example_comes_out(seen):
        all_close(seen["example"], [torch.tensor([[0.0, 2.0]])] * 2)


def calls_of(net: dict[str, Any], name: str, x: Tensor, after: Tensor | None = None) -> list[Call]:
    """The calls of a module, under any of its names; `after` a run on another input."""
    twin = Twin(net)
    if after is not None:
        twin.run(after)
    return [call for call in twin.run(x) if call.name == find(net["spec"], name)[0]]


def captured(net: dict[str, Any], name: str, x: Tensor, after: Tensor | None = None) -> list[Tensor]:
    """The outputs of these calls."""
    return [call.y for call in calls_of(net, name, x, after)]


def overwritten(outputs: list[Tensor]) -> list[list[Tensor]]:
    """What becomes of references: each output multiplied in place, or all of them the last one, in one memory."""
    scaled = [-0.5 * y for y in outputs]
    return [scaled, [*scaled[-1:]] * len(scaled), [*outputs[-1:]] * len(outputs)] if len(outputs) > 1 else [scaled]
