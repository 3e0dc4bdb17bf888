"""Exercise 08-count-hook-calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
    CallersHooks,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    came_through,
    changes,
    exercise,
    expect,
    fill_grads,
    in_mode,
    laid_out,
    nothing_changed,
    paired,
    prepared,
    refuse,
)
from graders.lesson_08_event_order.judging import KEPT, expect_grad, plain_grads
from graders.lesson_08_event_order.shared import OLD, Activation, Dropout, Signs, build, dot_grads

Spec = dict[str, Any]
ORDERS = {
    "plain": [0, "dropout", "activation", 1],
    "twice": [0, "dropout", "activation", 0, 1],
    "last": [0, "dropout", "activation", 1, 0],
}
"""Which module stands where; 0 is the one that is counted."""
LATER = 2
"""The number of passes in calls that follow the first."""


def make_stack(spec: Spec, mode: str, told: Tensor | None = None) -> nn.Sequential:
    """A Sequential with the drawn names; its dropout draws, or multiplies by what it is told."""
    parts: list[nn.Module] = [build({"kind": "linear", **values}) for values in spec["layers"]]
    if spec["nested"]:
        parts[0] = nn.Sequential(parts[0], nn.Tanh())
    if spec["frozen"]:
        parts[0].requires_grad_(False)
    others = {"dropout": Dropout(told), "activation": Activation()}
    chosen = [others[part] if part in others else parts[part] for part in ORDERS[spec["order"]]]
    return in_mode(nn.Sequential(OrderedDict(zip(spec["names"], chosen))), mode)


def stack_that_stops_gradients(spec: Spec) -> nn.Sequential:
    """A Sequential whose first module has an output that requires grad, and gives no gradient to its input."""
    first, last = spec["layers"]
    return nn.Sequential(Signs(first["weight"]), nn.Tanh(), build({"kind": "linear", **last}))


def with_hooks(model: nn.Sequential, hooks: str, hooked: str) -> CallersHooks:
    """The hooks of the caller: on the model, on the module that is counted, or on a parameter."""
    callers = CallersHooks(hooks)
    if hooked == "parameter":
        name, parameter = next((name, p) for name, p in model.named_parameters() if p.requires_grad)
        return callers.on_parameter(parameter, name)
    return callers.on_module(model if hooked == "root" else model[0], "the module")


def calls_of_a_pass(spec: Spec, needs: str, ckpt: bool) -> list[str]:
    """The calls of the two hooks on the first module in one pass, in their order, from the rules.

    Backward once for each use, unless the module neither has anything to learn nor an input that requires
    grad. Forward once for each use, and once more for each when the checkpoint runs it again, which is the
    first thing in backward. The second run stops as soon as it has all that it needs, which is inside the
    last module: its hook does not fire.
    """
    order = ORDERS[spec["order"]]
    uses = order.count(0)
    again = uses - (order[-1] == 0)
    return ["fwd"] * (uses + again * ckpt) + ["bwd"] * (uses * (needs == "grad" or not spec["frozen"]))


def hook_calls(spec: Spec, needs: str, n: int, ckpt: bool) -> dict[str, int]:
    """How often the two hooks on the first module are called in `n` passes."""
    calls = calls_of_a_pass(spec, needs, ckpt)
    return {kind: n * calls.count(kind) for kind in ("fwd", "bwd")}


@exercise(
    "08-count-hook-calls",
    points=2,
    minutes=20,
    difficulty=2,
    title="Count hook calls, with and without checkpoint",
    hints=(
        "Count, do not compute: let each hook add 1, and run the model.",
        "With `ckpt=True` the forward part of the model runs a second time during backward: the recomputation.",
        "Remove both handles in `finally`. Register them once, before the first pass.",
    ),
    why=(
        "The hooks count, so you need not know how often the recomputation calls a module, and the `with` block "
        "removes both even if a pass raises. Two global hooks that ignore every module but `model[0]` would do as "
        "well, and so would a new pair of hooks for each pass."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": (1, 2, 3), "layout": ("contiguous", "transposed", "slice"), "values": ALL,
            "place": ("leaf", "non-leaf"), "grad": ALL, "mode": ALL, "frozen": ALL, "hooks": ALL, "hooked": ALL,
            "call": ("again",), "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "number": "`n` is a count, an axis of its own",
            "collection": "there is no collection among the arguments",
            "tied": "a module that stands in two places is an axis of its own",
            "named": "it is `model[0]` whose hooks count",
            "output": "the model returns a tensor, of which `sum()` is taken",
            "follower": "full backward hooks forbid in-place layers behind a module",
            "passing": "an `nn.Sequential` calls its parts by position",
            "registered": "all that an `nn.Sequential` calls is registered",
            "layers": "hooks are called for layers of any type",
            "grad_mode": "`backward()` needs a graph",
            "backward": "the function runs the passes itself",
        },
        own={"ckpt": (False, True), "needs": ("grad", "no grad"), "order": tuple(ORDERS), "n": (0, 1, 5)},
        pairs=[("ckpt", "needs"), ("ckpt", "frozen"), ("ckpt", "order"), ("ckpt", "n"), ("ckpt", "mode")],
        impossible=[
            lambda needs, place: needs == "no grad" and place == "non-leaf",
            lambda needs, grad: needs == "no grad" and grad == "filled",
            # The recomputation would not stop inside the last module.
            lambda frozen, order: frozen == "part" and order == "last",
            lambda hooks, hooked: hooks == "replacing" and hooked == "root",
            lambda hooks, order: hooks == "replacing" and order == "last",
        ],
    ),
)  # fmt: skip
class TestCountHookCalls:
    """Write `count_hook_calls(model, x, n, ckpt)`. `model` is an `nn.Sequential`. Run `n` passes: each is one forward
    pass, and then `sum().backward()` on its result. The forward pass is `model(x)` when `ckpt` is `False`, and
    `checkpoint(model, x, use_reentrant=False)` from `torch.utils.checkpoint` when `ckpt` is `True`. `n` may be 0.

    Return `{"fwd": ..., "bwd": ...}` with two integers for all `n` passes together: how often a forward hook on
    `model[0]` is called, and how often a full backward hook on it.

    `model[0]` may stand a second time in `model`, its parameters may be frozen, and it may let no gradient through to
    its input, as `Positive` in the text. Something in the model or `x` requires grad. The `.grad` of the parameters,
    and of `x` if it requires grad, accumulates over the `n` passes. A dropout layer drops the same entries in the
    recomputation as in the forward pass.

    **Example.** For `model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))`, `n = 3` and `ckpt = False`
    the result is `{"fwd": 3, "bwd": 3}`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, dtype, rank, values, frozen, order):
        layers = [
            {"weight": rng.tensor(3, 3, low=-1, high=1, dtype=dtype, values=values), "bias": rng.tensor(3, dtype=dtype)}
            for _ in range(2)
        ]
        names = rng.names(len(ORDERS[order]))
        spec = {"layers": layers, "names": names, "order": order, "frozen": frozen == "part"}
        spec["nested"] = rng.choice((True, False))
        return {"spec": spec, "x": rng.tensor(*(2, 2, 3)[-rank:], dtype=dtype, values=values)}

    def alive(spec, x, needs, mode, hooks, hooked):
        return any(grad.abs().max() > 0.01 for grad in true_grads(spec, x, needs, mode, hooks, hooked, None).values())

    def oracle(spec, x, needs, mode, hooks, hooked):
        return true_grads(spec, x, needs, mode, hooks, hooked, torch.ones(x.shape))

    def probe(student, spec, x, n, ckpt, layout, place, grad, mode, hooks, hooked, needs, failure, failing_run):
        def stack():
            model = make_stack(spec, mode)
            with_hooks(model, hooks, hooked)
            return model

        def failing(hook_of):
            model, planned = stack(), Failure(failure, failing_run)
            hook_of(model)(planned.strike)
            witness = Witness(model=model, x=given)
            became = planned.during(lambda: student.count_hook_calls(model, given, LATER, ckpt))
            return {"failure": became, "changed": witness.changes()}

        leaf = prepared(x, layout=layout, grad=grad, old=OLD) if needs == "grad" else laid_out(x, layout)
        given = leaf.view_as(leaf) if place == "non-leaf" else leaf
        model = stack()
        if grad == "filled":
            fill_grads(model, OLD)
        needed, calls = [], []
        model.register_forward_pre_hook(lambda module, args: needed.append(args[0].requires_grad))
        model[0].register_forward_hook(lambda *_: calls.append("fwd"))
        model[0].register_full_backward_hook(lambda *_: calls.append("bwd"))
        witness = Witness(model=model, x=given)
        counts = student.count_hook_calls(model, given, n, ckpt)
        seen = {
            "counts": dict(counts) if isinstance(counts, dict) else counts,
            "input_needs_grad": needed[:5],
            "model_calls": len(needed),
            "callers_calls": calls[:200],
            "factors": list(model[1].factors[:40]),
            "drawn": list(model[1].drawn[:40]),
            "grads": dot_grads(model, leaf),
            "changed": witness.changes(),
        }
        calls.clear()
        counts = student.count_hook_calls(model, given, LATER, ckpt)
        seen["later_calls"] = calls[:200]
        seen["later counts"] = dict(counts) if isinstance(counts, dict) else counts
        stopping = stack_that_stops_gradients(spec)
        counts = student.count_hook_calls(stopping, given, LATER, ckpt)
        seen["counts of one that stops"] = dict(counts) if isinstance(counts, dict) else counts
        seen["in forward"] = failing(lambda model: model[1].register_forward_pre_hook)
        seen["in backward"] = failing(
            lambda model: next(p for p in model.parameters() if p.requires_grad).register_hook
        )
        inner: list[Any] = []
        example = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
        outer = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        outer[1].register_forward_hook(
            lambda *_: inner.append(student.count_hook_calls(example, torch.ones(1, 2), 1, False))
        )
        seen["in a call"] = [student.count_hook_calls(outer, torch.ones(1, 2), 2, False), *inner[:1]]
        counts = student.count_hook_calls(example, torch.ones(1, 2), 3, False)
        return {**seen, "example": dict(counts) if isinstance(counts, dict) else counts}

    mistakes = (
        Mistake(
            "ignored-checkpoint",
            lambda seen, spec, needs, n, ckpt: (
                both(seen, n, lambda passes: hook_calls(spec, needs, passes, False))
                and seen["later_calls"].value == LATER * calls_of_a_pass(spec, needs, False)
                if ckpt
                else SILENT
            ),
            "You ran `model(x)` although `ckpt` is `True`. Then the forward pass has to be "
            "`checkpoint(model, x, use_reentrant=False)`, and the counts change.",
        ),
        Mistake(
            "assumed-one-call",
            lambda seen, spec, needs, n, ckpt: (
                both(seen, n, lambda passes: {"fwd": passes, "bwd": passes})
                and seen["counts of one that stops"].value == {"fwd": LATER, "bwd": LATER}
                and (hook_calls(spec, needs, 1, ckpt) != {"fwd": 1, "bwd": 1} or needs == "grad")
                and seen["later_calls"].value == LATER * calls_of_a_pass(spec, needs, ckpt)
            ),
            "You returned one call for each pass. But checkpoint runs the forward again during backward, a module can "
            "be used twice in one pass, and backward may skip one. Count the calls of hooks on `model[0]`, which stay "
            "until `backward()` has run.",
        ),
        Mistake(
            "doubled-both",
            lambda seen, spec, needs, n, ckpt: (
                hook_calls(spec, needs, 1, ckpt) != {"fwd": 2, "bwd": 2}
                and not both(seen, n, lambda passes: hook_calls(spec, needs, passes, ckpt))
                and (
                    both(seen, n, lambda passes: {"fwd": 2 * passes, "bwd": 2 * passes})
                    or both(
                        seen,
                        n,
                        lambda passes: {
                            kind: times * hook_calls(spec, needs, passes, ckpt)[kind]
                            for kind, times in (("fwd", 1), ("bwd", 2))
                        },
                    )
                )
                if ckpt
                else SILENT
            ),
            "You doubled both numbers for the checkpoint. Only the forward part runs again; the backward pass, and "
            "with it the full backward hook, runs once.",
        ),
        Mistake(
            "one-pass-only",
            lambda seen, spec, needs, n, ckpt: (
                seen["later counts"].value == hook_calls(spec, needs, 1, ckpt)
                and any(seen["counts"].value == hook_calls(spec, needs, passes, ckpt) for passes in (1, min(n, 1)))
            ),
            "These are the calls of one pass. Asked are those of all `n` passes together.",
        ),
        Mistake(
            "exchanged",
            lambda seen, spec, needs, n, ckpt: (
                both(seen, n, lambda passes: exchanged(hook_calls(spec, needs, passes, ckpt)))
                and seen["counts of one that stops"].value == exchanged(stopped(needs, ckpt))
            ),
            "You exchanged the two numbers: `fwd` is how often the forward hook is called, `bwd` how often the full "
            "backward hook is.",
        ),
        Mistake(
            "not-in-recomputation",
            lambda seen, spec, needs, n, ckpt: (
                both(
                    seen,
                    n,
                    lambda passes: {
                        "fwd": hook_calls(spec, needs, passes, False)["fwd"],
                        "bwd": hook_calls(spec, needs, passes, True)["bwd"],
                    },
                )
                and seen["later_calls"].value == LATER * calls_of_a_pass(spec, needs, True)
                if ckpt
                else SILENT
            ),
            "You do not count the calls in the recomputation. It runs in `backward()`, and until then the forward hook "
            "has to stay on `model[0]`.",
        ),
        Mistake(
            "kept-from-call-to-call",
            lambda seen, spec, needs, ckpt: (
                grown(seen["counts"], seen["later counts"], hook_calls(spec, needs, LATER, ckpt))
                and grown(seen["later counts"], seen["counts of one that stops"], stopped(needs, ckpt))
            ),
            KEPT,
        ),
        Mistake(
            "registered-every-pass",
            lambda seen, spec, needs, n, ckpt: both(
                seen,
                n,
                lambda passes: {
                    kind: count * (passes + 1) // 2 for kind, count in hook_calls(spec, needs, passes, ckpt).items()
                },
            ),
            "You register the hooks again in each pass, so that the first pass counts once, the second twice, and so "
            "on. Register once, before the loop, or remove the hooks at the end of each pass.",
        ),
        Mistake(
            "no-graph",
            raises="does not require grad and does not have a grad_fn",
            message="The result of the model has no graph. With `use_reentrant=True`, `checkpoint` makes none when `x` "
            "requires no grad, and under `no_grad` there is none either: write "
            "`checkpoint(model, x, use_reentrant=False)`.",
        ),
        Mistake(
            "changed-the-input",
            lambda seen, needs, n: (
                SILENT
                if n == 0
                else len(seen["input_needs_grad"]) > 0
                and all(flag.value is not (needs == "grad") for flag in seen["input_needs_grad"])
            ),
            "The model received an input that differs from `x` in `requires_grad`. That changes which modules a "
            "gradient passes, and so the counts: give `x` to the model as it is.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, spec, needs, n, ckpt: (
                seen["counts"].value == hook_calls(spec, needs, n, ckpt)
                and len(changes(seen["changed"], "hook-left *")) > 0
            ),
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                not changes(seen["changed"], "hook-left *")
                and any(changes(seen[where]["changed"], "hook-left *") for where in ("in forward", "in backward"))
            ),
            "When the model or one of its hooks raises, your `remove()` calls are skipped. Put them into `finally`, or "
            "use the handles as context managers.",
        ),
    )

    def test_the_calls_are_counted(seen, spec, needs, n, ckpt):
        counted(seen["counts"], hook_calls(spec, needs, n, ckpt), f"the counts for n = {n}")
        later = f"the counts of a later call, for n = {LATER}"
        counted(seen["later counts"], hook_calls(spec, needs, LATER, ckpt), later)
        stops = "the counts where `model[0]` lets no gradient through"
        counted(seen["counts of one that stops"], stopped(needs, ckpt), stops)
        counted(seen["example"], {"fwd": 3, "bwd": 3}, "the counts of the example")

    def test_the_passes_ran_as_asked(seen, spec, x, needs, n, ckpt, mode, hooks, hooked, grad):
        calls = Seen(seen["callers_calls"].value, "the calls of the caller's hooks on model[0]")
        expect(calls).timeline(n * calls_of_a_pass(spec, needs, ckpt))
        runs = n * (2 if ckpt else 1)
        if seen["model_calls"].value != runs:
            refuse(f"`model` itself is to be called {runs} times, and it was called {seen['model_calls'].value} times")
        factors = dropped(seen["factors"], seen["drawn"], x, n, ckpt)
        names = [*(name for name, _ in make_stack(spec, mode).named_parameters()), "x"]
        total: dict[str, Tensor] = {}
        for factor in factors:
            for name, gradient in true_grads(spec, x, needs, mode, hooks, hooked, factor).items():
                total[name] = total.get(name, torch.zeros_like(gradient)) + gradient
        if grad == "filled":
            parameters = {**dict(make_stack(spec, mode).named_parameters()), "x": x.clone().requires_grad_()}
            for name, p in parameters.items():
                if p.requires_grad:
                    total[name] = total.get(name, torch.zeros_like(p)).detach() + OLD
        for name in names:
            expect_grad(seen["grads"], name, total.get(name), grad)

    def test_a_call_inside_a_call_changes_nothing(seen):
        for found, (count, whose) in paired(seen["in a call"], ((2, "outer"), (1, "inner"))):
            counted(found, {"fwd": count, "bwd": count}, f"the counts of the {whose} call")

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["grad-filled *", "grad-changed *"])

    def test_all_is_in_order_when_something_raises(seen):
        for where in ("in forward", "in backward"):
            came_through(seen[where]["failure"], "the model" if where == "in forward" else "a hook in backward")
            nothing_changed(seen[where]["changed"], but=["grad-filled *", "grad-changed *"], when="after an exception")


def both(seen: Seen, n: int, count: Callable[[int], dict[str, int]]) -> bool:
    """Whether both calls, for `n` passes and for `LATER`, returned what `count` gives for these."""
    return seen["counts"].value == count(n) and seen["later counts"].value == count(LATER)


def stopped(needs: str, ckpt: bool) -> dict[str, int]:
    """How often the two hooks are called in `LATER` passes on a first module that lets no gradient through."""
    return {"fwd": LATER * (2 if ckpt else 1), "bwd": LATER * (needs == "no grad")}


def grown(before: Seen, after: Seen, by: dict[str, int]) -> bool:
    """Whether the counts after a call are those before it, and more by those of the call."""
    counts = before.value
    return isinstance(counts, dict) and after.value == {kind: counts.get(kind, 0) + more for kind, more in by.items()}


def exchanged(counts: dict[str, int]) -> dict[str, int]:
    """Each number under the other name."""
    return {"fwd": counts["bwd"], "bwd": counts["fwd"]}


def counted(seen: Seen, expected: dict[str, int], which: str) -> None:
    """A dict with these two whole numbers. `which` says in words which one it is."""
    seen = Seen(seen.value, which)
    expect(seen).has_keys(*expected)
    for kind, count in expected.items():
        expect(seen[kind]).equals(count)


def dropped(factors: Seen, drawn: Seen, x: Tensor, n: int, ckpt: bool) -> list[Tensor]:
    """By what the dropout multiplied in each pass; it drew the same numbers in the recomputation."""
    factors = Seen(factors.value, "the dropout layer")
    expect(factors).has_length(n * (2 if ckpt else 1), "calls of the dropout layer")
    found = []
    for factor in factors:
        if factor.tensor is None or factor.tensor.shape != x.shape:
            expect(factor).fail("the dropout layer got an input of another shape")
        found.append(factor.tensor)
    if ckpt:
        numbers = [entry.tensor for entry in drawn]
        for first, again in zip(numbers[::2], numbers[1::2]):
            if first is None or again is None or not torch.equal(first, again):
                expect(factors).fail(
                    "the recomputation dropped other entries than the forward pass: `checkpoint` puts the random state "
                    "back, unless it is told not to"
                )
    return found[:: 2 if ckpt else 1]


def true_grads(
    spec: Spec, x: Tensor, needs: str, mode: str, hooks: str, hooked: str, told: Tensor | None
) -> dict[str, Tensor]:
    """The gradients of one plain pass in which the dropout multiplies by `told`."""
    model = make_stack(spec, mode, torch.ones(x.shape) if told is None else told)
    with_hooks(model, hooks, hooked)
    return plain_grads(model, x, needs == "grad")
