"""Exercise 08-backward-times."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    SILENT,
    Circumstances,
    Failure,
    Meanwhile,
    Mistake,
    Seen,
    Witness,
    came_through,
    close,
    exercise,
    expect,
    fill_grads,
    in_mode,
    laid_out,
    nothing_changed,
    paired,
    prepared,
    refuse,
    snapshot,
)
from graders.lesson_08_event_order.judging import expect_grad, plain_grads
from graders.lesson_08_event_order.shared import OLD, SLOW, Clock, build, dot_grads, on_the_clock

Spec = dict[str, Any]

SHORT = 2.0**-30
"""By what times are multiplied that are shorter than a microsecond."""


def draw_model(rng, dtype, second_name):
    """A nested model of layers and blocks that take time, with random names; one is called twice, and one never.

    `second_name`: the one that is called twice has another name for the second call.
    """
    fresh = iter([name for name in rng.names(10) if name != "net"])

    def cost():
        return rng.integer(1025, 9215) / 1024  # sums of these are exact, and few have three decimals

    def leaf():
        return {
            "name": next(fresh),
            "kind": "costly",
            "weight": rng.tensor(low=-2, high=2, away=0.5, dtype=dtype),
            "cost": cost(),
        }

    def block(kinds, children, calls=None):
        calls = calls or [child["name"] for child in children]
        return {"name": next(fresh), "kind": rng.choice(kinds), "children": children, "calls": calls,
                "passing": "position", "cost": cost()}  # fmt: skip

    joins = ("chain", "residual", "sum")
    first, often, last = leaf(), leaf(), leaf()
    inner = block(joins, [leaf(), leaf()])
    again = {"name": next(fresh), "kind": "alias", "of": often["name"]} if second_name == "yes" else often
    outer = block(joins, [often, inner], calls=[often["name"], inner["name"], again["name"]])
    outer["children"] += [again] * (again is not often)
    outer["name"] += "net"
    return {**block(("chain",), [first, outer, last, leaf()], calls=[first["name"], outer["name"], last["name"]]),
            "name": "net"}  # fmt: skip


def true_times(spec: Spec, slow: str = "", others: bool = False) -> dict[str, float]:
    """The time of each module. On `slow`, hooks of the caller take time; `others` counts that for `slow`, too."""
    found: dict[str, float] = {}

    def one_call(part: Spec, name: str, times: int) -> float:
        alias = {child["name"]: child["of"] for child in part.get("children", ()) if child["kind"] == "alias"}
        called = [alias.get(call, call) for call in part.get("calls", ())]
        own = float(part.get("cost", 0))
        for child in part.get("children", ()):
            if child["kind"] == "alias":
                continue
            count = called.count(child["name"])
            own += count * one_call(child, f"{name}.{child['name']}".removeprefix("net."), times * count)
        taken = own + (4 * SLOW if name == slow else 0)  # two pre-hooks and two hooks
        found[name] = times * (taken if others else own)
        return taken

    one_call(spec, "net", 1)
    return found


@exercise(
    "08-backward-times",
    points=3,
    minutes=35,
    difficulty=3,
    title="A profiler whose spans stay nested",
    hints=(
        "Read the clock in a full backward pre-hook and in a full backward hook of each module. When does the second "
        "one fire if the input requires no grad?",
        "Give the model a tensor with the values of `x` that requires grad, if `x` does not: `x.detach()` is one that "
        "you may change. If `x` requires grad, its `.grad` has to be filled: take `x` itself.",
        "Hooks of one kind on one module fire in order. Which of yours has to be the last of its kind, which one the "
        "first? `prepend=True` makes it the first. Several calls of one module add up.",
    ),
    why=(
        "`x.detach()` can be made to require grad while `x` stays as it is, and then each full backward hook waits "
        "for what is inside its module; `prepend=True` lets it stop the clock before the hooks of others run. "
        "`x.clone()` would do as well, and an object for each module that holds its start and its sum."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "place": ("leaf", "non-leaf"), "grad": ALL,
            "mode": ALL, "frozen": ALL, "hooks": ("none", "watching"), "hooked": ("root", "named"),
            "call": ("again", "in turn"), "failure": ALL,
        },
        excludes={
            "number": "there is no number among the arguments",
            "collection": "there is no collection among the arguments",
            "tied": "the time belongs to modules",
            "named": "all modules are named in the result",
            "output": "the model returns a tensor, of which `sum()` is taken",
            "follower": "full backward hooks forbid in-place layers behind a module",
            "passing": "the contract says that it is by position",
            "registered": "global hooks are not needed here",
            "layers": "the layers have to take a time that is known",
            "grad_mode": "`backward()` needs a graph",
            "backward": "the function runs the pass itself",
            "failing_run": "there is one run",
        },
        own={"needs": ("grad", "no grad"), "second_name": ("no", "yes")},
        pairs=[("needs", "hooks"), ("needs", "frozen")],
        impossible=[
            lambda needs, place: needs == "no grad" and place == "non-leaf",
            lambda needs, grad: needs == "no grad" and grad == "filled",
        ],
    ),
)  # fmt: skip
class TestBackwardTimes:
    """Write `backward_times(model, x, clock)`. Run one forward pass and one backward pass. The `.grad` of the
    parameters, and of `x` if it requires grad, accumulates as in one `model(x).sum().backward()`. `clock()` returns the
    time, as `time.perf_counter()` does.

    Return a dict: for each name in `model.named_modules()`, how long the backward pass of this module took, with all
    that is inside it. The model itself is called `net`, and no child of it is. A module that is called several times
    gets the sum, and one that is never called gets 0.

    The time of one call begins when the gradient has arrived at the module's output, and ends when the gradient of its
    input is complete: also when `x` requires no grad. It begins after the full backward pre-hooks of others on the
    module, and ends before their full backward hooks.

    Each module gets one tensor that depends on `x`, by position, and can pass a gradient on to it. Nothing works in
    place, there are no global hooks, and some parameter requires grad.

    **Example.** For `model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))` the keys are `"net"`, `"0"` and `"1"`,
    and `"net"` has at least the time of the other two together.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, dtype, rank, layout, values, second_name):
        x = rng.tensor(*rng.shape(rank), dtype=dtype, layout=layout, values=values)
        spec = draw_model(rng, dtype, second_name)
        return {"spec": spec, "x": x, "start": rng.uniform(1, 99), "part": spec["calls"][1]}

    def alive(spec, x, needs, mode):
        model = in_mode(build(spec), mode)
        return all(gradient.abs().max() > 0.01 for gradient in plain_grads(model, x, needs == "grad").values())

    def oracle(spec, x, needs, mode):
        return plain_grads(in_mode(build(spec), mode), x, needs == "grad")

    def probe(student, spec, x, start, part, layout, place, grad, mode, frozen, hooks, hooked, needs, failure):
        def made():
            model, clock = in_mode(build(spec), mode), Clock(start)
            on_the_clock(model, clock)
            if frozen == "part":
                model.get_submodule(spec["calls"][0]).requires_grad_(False)
            if hooks != "none":
                clock.slow_hooks(model if hooked == "root" else model.get_submodule(part))
            return model, clock

        def failing(owner):
            model, clock = made()
            one = Failure(failure)
            owner(model)(one.strike)
            witness = Witness(model=model, x=given)
            became = one.during(lambda: student.backward_times(model, given, clock))
            return {"failure": became, "changed": witness.changes()}

        leaf = prepared(x, layout=layout, grad=grad, old=OLD) if needs == "grad" else laid_out(x, layout)
        given = leaf.view_as(leaf) if place == "non-leaf" else leaf
        model, clock = made()
        if grad == "filled":
            fill_grads(model, OLD)
        inputs = []
        model.register_forward_pre_hook(lambda module, args: inputs.append(snapshot(args[0])))
        witness = Witness(model=model, x=given)
        times = student.backward_times(model, given, clock)
        seen = {"times": dict(times) if isinstance(times, dict) else times, "grads": dot_grads(model, leaf)}
        seen |= {"changed": witness.changes(), "inputs": inputs[:3]}
        single = build(spec["children"][0])
        stopwatch = Clock(0.0)
        on_the_clock(single, stopwatch)
        seen["of one module"] = student.backward_times(single, given, stopwatch)
        seen["of short times"] = student.backward_times(single, given, lambda: stopwatch() * SHORT)
        times = student.backward_times(model, laid_out(x / 2, layout).requires_grad_(needs == "no grad"), clock)
        seen["of another input"] = dict(times) if isinstance(times, dict) else times
        inner: list[Any] = []
        first, second = build(spec["children"][0]), build(spec["children"][0])
        on_the_clock(first, stopwatch)
        on_the_clock(second, stopwatch)
        outer = Meanwhile(lambda: inner.append(student.backward_times(second, given, stopwatch)), first)
        seen["in a call"] = [student.backward_times(outer, given, stopwatch), *inner[:1]]
        seen["in forward"] = failing(lambda model: model.get_submodule(part).register_forward_hook)
        seen["in backward"] = failing(
            lambda model: next(p for p in model.parameters() if p.requires_grad).register_hook
        )
        return seen

    mistakes = (
        Mistake(
            "fired-at-once",
            lambda seen, needs: (
                close(seen["times" if needs == "no grad" else "of another input"]["net"], 0.0)
                and not close(seen["of another input" if needs == "no grad" else "times"]["net"], 0.0)
            ),
            "Where `x` requires no grad, the model took no time at all: its full backward hook fired at once, right "
            "after the pre-hook. It waits for the gradient of the input only if the input requires grad.",
        ),
        Mistake(
            "counted-the-hooks-of-others",
            lambda seen, spec, hooks, hooked, part: (
                others_counted(seen, spec, "net" if hooked == "root" else part) if hooks != "none" else SILENT
            ),
            "The time that hooks of others on the same module take is in your time, too. Read the clock last of all "
            "full backward pre-hooks, and first of all full backward hooks.",
        ),
        Mistake(
            "only-last-call",
            lambda seen, spec, hooks, hooked, part: (
                close(seen["times"][twice(spec)], slowed(spec, hooks, hooked, part)[twice(spec)] / 2)
                and close(seen["times"]["net"], slowed(spec, hooks, hooked, part)["net"])
            ),
            "A module that is called twice has the time of one call. Add up the times of all its calls.",
        ),
        Mistake(
            "only-its-own",
            lambda seen, spec, hooks, hooked: (
                SILENT if hooks != "none" and hooked == "named" else close(seen["times"]["net"], spec["cost"])
            ),
            "The time of the parts of a module is missing in its time: that is of its whole backward pass, with all "
            "that is inside it.",
        ),
    )

    def test_each_time_is_right(seen, spec, hooks, hooked, part):
        expected = slowed(spec, hooks, hooked, part)
        same_times(seen["times"], expected, "the times")
        same_times(seen["of another input"], expected, "the times for another x")

    def test_a_model_without_parts_has_a_time(seen, spec):
        alone = {"net": float(spec["children"][0]["cost"])}
        same_times(seen["of one module"], alone, "by a clock that starts at 0, the times of a model that is one layer")
        expected = alone["net"] * SHORT
        if not close(seen["of short times"]["net"], expected, 1e-4, 0):
            short = seen["of short times"]["net"].value
            refuse(f"the time of a model that is one layer is {expected:.4g}, and you return {short}")

    def test_a_call_inside_a_call_changes_nothing(seen, spec):
        cost = float(spec["children"][0]["cost"])
        calls = (({"net": cost, "0": cost}, "outer"), ({"net": cost}, "inner"))
        for found, (times, whose) in paired(seen["in a call"], calls):
            same_times(found, times, f"the times of the {whose} call")

    def test_it_is_one_plain_pass(seen, spec, x, needs, grad, mode, frozen):
        if len(seen["inputs"]) != 1:
            refuse(f"the model is to be called once, and it was called {len(seen['inputs'])} times")
        expect(Seen(seen["inputs"][0].value, "the input of the model")).close_to(x)
        for name, gradient in accumulated(spec, x, needs, grad, mode, frozen).items():
            expect_grad(seen["grads"], name, gradient, grad)

    def test_nothing_else_changes(seen, needs):
        allowed = [
            "grad-filled model*",
            "grad-changed model*",
            *["grad-filled x", "grad-changed x"] * (needs == "grad"),
        ]
        nothing_changed(seen["changed"], but=allowed)

    def test_all_is_in_order_when_something_raises(seen):
        for where in ("in forward", "in backward"):
            came_through(seen[where]["failure"], "the model" if where == "in forward" else "a hook in backward")
            allowed = ["grad-filled *", "grad-changed *"] if where == "in backward" else []
            nothing_changed(seen[where]["changed"], but=allowed, when="after an exception")


def slowed(spec: Spec, hooks: str, hooked: str, part: str) -> dict[str, float]:
    """The right times, with what slow hooks on a part add to what it is in."""
    return true_times(spec, "" if hooks == "none" else "net" if hooked == "root" else part)


def same_times(seen: Seen, expected: dict[str, float], which: str) -> None:
    """A dict with these numbers. `which` says in words which one it is."""
    seen = Seen(seen.value, which)
    expect(seen).has_keys(*expected)
    for name, time in expected.items():
        expect(seen[name]).close_to(time)


def others_counted(seen: Seen, spec: Spec, slow: str) -> bool:
    """Whether the time of `slow` is too long by one or both of its slow hooks on each call."""
    right, wrong = true_times(spec, slow)[slow], true_times(spec, slow, others=True)[slow]
    return any(close(seen["times"][slow], time) for time in (wrong, (right + wrong) / 2))


def twice(spec: Spec) -> str:
    """The name of the layer that is called twice."""
    outer = spec["children"][1]
    return f"{outer['name']}.{outer['calls'][0]}"


def accumulated(spec: Spec, x: Tensor, needs: str, grad: str, mode: str, frozen: str) -> dict[str, Tensor | None]:
    """What has to be in `.grad` afterwards: what was there and one pass, and None where nothing comes."""
    model = in_mode(build(spec), mode)
    if frozen == "part":
        model.get_submodule(spec["calls"][0]).requires_grad_(False)
    grads = plain_grads(model, x, needs == "grad")
    found: dict[str, Tensor | None] = {}
    for name, t in [*model.named_parameters(), ("x", x.clone().requires_grad_(needs == "grad"))]:
        before = torch.full_like(t, OLD).detach() if grad == "filled" and t.requires_grad else None
        found[name] = grads.get(name) if before is None else before + grads.get(name, 0.0)
    return found
