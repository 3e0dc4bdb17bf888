"""Exercise 08-trace-events."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    CallersHooks,
    Circumstances,
    Failure,
    Meanwhile,
    Mistake,
    Seen,
    Witness,
    came_through,
    changes,
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
)
from graders.lesson_08_event_order.judging import KEPT, expect_grad, plain_grads
from graders.lesson_08_event_order.shared import OLD, Attempt, build, dot_grads, now

Spec = dict[str, Any]
PART = ["subnet.net.fpre", "subnet.net.fwd"], ["subnet.net.bpre", "subnet.net.bwd"]
IN_TWO_PLACES = [
    *("net.fpre", "subnet.fpre", *PART[0], "subnet.fwd", *PART[0], "net.fwd"),
    *("net.bpre", *PART[1], "subnet.bpre", *PART[1], "subnet.bwd", "net.bwd"),
]
"""The events of a model whose part `subnet.net` is its part `two`, too."""
BROKEN_OFF = [
    *("net.fpre", "first.fpre", "second.fpre", "second.fwd", "net.fwd"),
    *("net.bpre", "second.bpre", "second.bwd", "net.bwd"),
]
"""The events of an `Attempt`."""


WITH_MORE = "linear"
"""What the model begins with where all is asked that is the same in each case."""


def draw_leaf(rng, name, dtype, kinds=("linear", "linear", "activation")):
    """The description of a module without children, 3 features to 3."""
    return {
        "name": name,
        "kind": rng.choice(kinds),
        "weight": rng.tensor(3, 3, low=-1, high=1, dtype=dtype),
        "bias": rng.tensor(3, dtype=dtype),
    }


def draw_block(rng, name, kinds, children, passing):
    """The description of a container: definition order and call order are drawn apart."""
    names = [child["name"] for child in children]
    return {
        "name": name, "kind": rng.choice(kinds), "children": rng.shuffled(children), "calls": rng.shuffled(names),
        "passing": passing,
    }  # fmt: skip


def draw_model(rng, dtype, start, shared, passing, registered):
    """A nested model with random names, which begins with a leaf of the kind `start`.

    `shared`: one module stands under two names.
    """
    names = [name for name in rng.names(14) if name != "net"]
    fresh = iter(names)
    joins = ("chain", "residual", "sum")
    leaves = [draw_leaf(rng, next(fresh), dtype) for _ in range(5)]
    first = draw_leaf(rng, next(fresh), dtype, kinds=(start,))
    inner = draw_block(rng, next(fresh), joins, leaves[:2], passing)
    outer = draw_block(rng, f"{next(fresh)}net", joins, [inner, *leaves[2:4]], passing)
    head = draw_leaf(rng, next(fresh), dtype, kinds=("linear",))
    model = draw_block(rng, "net", ("chain",), [outer, head, leaves[4]], passing)
    if shared == "yes":
        block = rng.choice((model, outer, inner))
        part, alias = rng.choice(block["children"]), next(fresh)
        block["children"] = rng.shuffled([*block["children"], {"name": alias, "kind": "alias", "of": part["name"]}])
        block["calls"] = rng.shuffled([*block["calls"], alias])
    model["children"] = rng.shuffled([*model["children"], first])
    model["calls"] = [first["name"], *model["calls"]]
    return {**model, "hidden": registered == "no"}


def rules(spec: Spec, needs: bool, name: str = "", by_keyword: bool = False) -> tuple[list[str], list[str], bool, bool]:
    """Forward events, backward events, whether the output requires grad, whether a gradient reaches the input.

    `needs` says whether the input requires grad. A module whose output requires no grad has no backward events. Its
    full backward hook fires when the gradient of its input is complete, or at once, right after the pre-hook, when no
    input requires grad; an input that is passed by keyword does not count.
    """
    label = name or "net"
    forward, backward, at, results, reaches = [], [], needs, [], spec["kind"] != "no gradient"
    parts = {part["name"]: part for part in spec.get("children", ())}
    first = first_names(spec)
    for number, call in enumerate(spec.get("calls", ())):
        part = parts[parts[call].get("of", call)]
        path = f"{name}.{first[call]}" if name else first[call]
        inside = needs if spec["kind"] == "sum" else at
        called_by_keyword = "children" in part and spec["passing"] == "keyword"
        ahead, back, at, through = rules(part, inside, path, called_by_keyword)
        forward, backward = forward + ahead, back + backward
        results.append(at)
        reaches = through if number == 0 else reaches
    gives = {"chain": at, "residual": needs or at, "sum": any(results)}.get(
        spec["kind"], spec["kind"] in ("linear", "no gradient") or needs
    )
    if gives and needs and not by_keyword:
        backward = [f"{label}.bpre", *backward, *[f"{label}.bwd"] * reaches]
    elif gives:
        backward = [f"{label}.bpre", f"{label}.bwd", *backward]
    return [f"{label}.fpre", *forward, f"{label}.fwd"], backward, gives, reaches


def first_names(spec: Spec) -> dict[str, str]:
    """For each name in a container the first name of the same module, in the order of definition."""
    first: dict[str, str] = {}
    for part in spec.get("children", ()):
        first.setdefault(part.get("of", part["name"]), part["name"])
    return {part["name"]: first[part.get("of", part["name"])] for part in spec.get("children", ())}


def timeline(spec: Spec, grad: bool) -> list[str]:
    """All events of one forward and backward pass."""
    forward, backward, *_ = rules(spec, grad)
    return forward + backward


def mirrored(spec: Spec) -> list[str]:
    """The forward events, and then their mirror image."""
    forward = rules(spec, False)[0]
    return forward + [event.replace(".fwd", ".bpre").replace(".fpre", ".bwd") for event in reversed(forward)]


def paired_off(events: list[str]) -> list[str]:
    """The events with the `bwd` of each module right after its `bpre`."""
    found = [event for event in events if not event.endswith((".bpre", ".bwd"))]
    for event in events:
        found += [event, event.replace(".bpre", ".bwd")] if event.endswith(".bpre") else []
    return found


def names_of_leaves(spec: Spec, name: str = "") -> set[str]:
    """The names of the modules without children."""
    if "children" not in spec:
        return {name}
    paths = {part["name"]: f"{name}.{part['name']}" if name else part["name"] for part in spec["children"]}
    parts = [part for part in spec["children"] if part["kind"] != "alias"]
    first = first_names(spec)
    return set().union(*(names_of_leaves(part, paths[first[part["name"]]]) for part in parts))


def second_names(spec: Spec) -> set[str]:
    """Names that are not the first of their module. No name is drawn twice in a model."""
    own = {name for name, first in first_names(spec).items() if name != first}
    return own.union(*(second_names(part) for part in spec.get("children", ())))


def bound_late(events: list[str], expected: list[str]) -> bool:
    """Whether all events are of the last kind, or those of one kind all have one name, and should not."""
    kinds = {event.rpartition(".")[2] for event in expected}
    names = [[{event.rpartition(".")[0] for event in some if event.endswith(f".{kind}")} for some in (events, expected)]
             for kind in kinds]  # fmt: skip
    return len({event.rpartition(".")[2] for event in events}) == 1 or any(len(a) == 1 < len(b) for a, b in names)


def without_second_names(events: list[str], spec: Spec) -> list[str]:
    """The events without those that carry a second name in their path."""
    second = second_names(spec)
    return [event for event in events if not second & set(event.split("."))]


def model_of(spec: Spec, mode: str, hooks: str, hooked: str, backward: bool = True) -> nn.Module:
    """The model with the hooks of the caller: on itself, on one of its parts, or on a parameter.

    Without `backward`, there are none that only watch its backward pass.
    """
    model, callers = in_mode(build(spec), mode), CallersHooks(hooks)
    if hooked == "parameter":
        name, parameter = next((name, p) for name, p in model.named_parameters() if p.requires_grad)
        callers.on_parameter(parameter, name)
    else:
        part = "" if hooked == "root" else spec["calls"][1]
        callers.on_module(model.get_submodule(part), "the module", backward=backward)
    return model


@exercise(
    "08-trace-events",
    points=2,
    minutes=25,
    difficulty=2,
    title="Trace every event of one pass",
    hints=(
        "Each module needs four hooks, and each hook appends one text to the same list.",
        "`model.named_modules()` gives every module once, with its name; the model itself has the empty name. Bind the "
        "name in the hook: `lambda *args, name=name: ...`.",
        "Register everything before the forward pass, remove everything in `finally`, and give `x` to the model as it "
        "is.",
    ),
    why=(
        "A dict from the name of an event to the method that registers its hook saves writing the same thing four "
        "times, and `event=event` binds each text at once. Four global hooks would do as well, if they look each "
        "module up in a dict of names and leave out those that are not there."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": (1, 2, 3), "layout": ("contiguous", "transposed", "slice"), "values": ALL,
            "place": ("leaf", "non-leaf"), "grad": ALL, "mode": ALL, "passing": ALL, "registered": ALL, "hooks": ALL,
            "hooked": ALL, "call": ("again", "in turn"), "failure": ALL,
        },
        excludes={
            "number": "there is no number among the arguments",
            "collection": "there is no collection among the arguments",
            "frozen": "what the model begins with is an axis of its own",
            "tied": "modules have events and parameters have none; a shared module is an axis of its own",
            "named": "no module is named",
            "output": "the model returns a tensor, of which `sum()` is taken",
            "follower": "full backward hooks forbid in-place layers behind a module",
            "layers": "what the model begins with is an axis of its own",
            "grad_mode": "`backward()` needs a graph",
            "backward": "the function runs the pass itself",
            "failing_run": "there is one run",
        },
        own={
            "needs": ("grad", "no grad"),
            "start": ("linear", "frozen", "activation", "no gradient"),
            "shared": ("no", "yes"),
        },
        pairs=[("needs", "start"), ("hooks", "needs"), ("needs", "passing"), ("needs", "shared")],
        impossible=[
            lambda needs, place: needs == "no grad" and place == "non-leaf",
            lambda needs, grad: needs == "no grad" and grad == "filled",
        ],
    ),
)  # fmt: skip
class TestTraceEvents:
    """Write `trace_events(model, x)`. Run `model(x).sum().backward()` once, with `x` as it is given, and return the
    list of events in the order in which they happen.

    An event is a text: the name of a module, a dot, and what happens: `fpre` when a forward pre-hook of the module
    fires, `fwd` for a forward hook, `bpre` for a full backward pre-hook, `bwd` for a full backward hook. Every module
    in `model.named_modules()` counts, containers too, and has its events for each of its calls. The model itself is
    called `net`, and no child of it is. A module that is called and not among them has no events.

    `x` may or may not require grad, and the first parts of the model may be frozen or have no parameters. The `.grad`
    of the parameters, and of `x` if it requires grad, accumulates as usual. Something in the model requires grad,
    nothing works in place, and no module is called in the backward pass (a checkpoint would do that).

    **Example.** For `nn.Sequential(nn.Linear(2, 1))` and an `x` that requires grad, the result is `["net.fpre",
    "0.fpre", "0.fwd", "net.fwd", "net.bpre", "0.bpre", "0.bwd", "net.bwd"]`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, dtype, rank, values, start, shared, passing, registered):
        spec = draw_model(rng, dtype, start, shared, passing, registered)
        shape = (2, 2, 3)[-rank:]
        return {"spec": spec, "x": rng.tensor(*shape, dtype=dtype, values=values), "at": rng.integer(1, 3)}

    def alive(spec, x, needs, mode, hooks, hooked):
        # Some gradients are not zero, and some container below the model has backward events.
        _, backward, gives, _ = rules(spec, needs == "grad")
        inner = names_of_leaves(spec) | {"net"}
        return (
            gives
            and any(event.rpartition(".")[0] not in inner for event in backward)
            and any(
                gradient.abs().max() > 0.01 for gradient in true_grads(spec, x, needs, mode, hooks, hooked).values()
            )
        )

    def oracle(spec, x, needs, mode, hooks, hooked):
        return true_grads(spec, x, needs, mode, hooks, hooked)

    def probe(student, spec, x, at, layout, place, grad, mode, hooks, hooked, needs, failure, start):
        def failing(owner, model):
            planned = Failure(failure)
            with owner(model)(planned.strike):
                witness = Witness(model=model, x=given)
                became = planned.during(lambda: student.trace_events(model, given))
                return {"failure": became, "changed": witness.changes()}

        leaf = prepared(x, layout=layout, grad=grad, old=OLD) if needs == "grad" else laid_out(x, layout)
        given = leaf.view_as(leaf) if place == "non-leaf" else leaf
        model = model_of(spec, mode, hooks, hooked)
        if grad == "filled":
            fill_grads(model, OLD)
        flags = []
        model.register_forward_pre_hook(lambda module, args: flags.append(args[0].requires_grad))
        witness = Witness(model=model, x=given)
        events = student.trace_events(model, given)
        seen = {"events": now(events), "input_needs_grad": flags[:5]}
        seen |= {"grads": dot_grads(model, leaf), "changed": witness.changes()}
        other = laid_out(x / 2, layout).requires_grad_(needs == "no grad")
        flags.clear()
        seen["of another input"] = now(student.trace_events(model, other))
        seen["events later"] = now(events)
        seen["another_needs_grad"] = flags[:5]
        seen["in forward"] = failing(
            lambda model: list(model.modules())[at].register_forward_hook, model_of(spec, mode, hooks, hooked)
        )
        seen["in backward"] = failing(
            lambda model: next(p for p in model.parameters() if p.requires_grad).register_hook,
            model_of(spec, mode, hooks, hooked),
        )
        if start != WITH_MORE:
            return seen
        seen["of one module"] = now(student.trace_events(nn.Linear(x.shape[-1], 2).to(x.dtype), given))
        layer = nn.Linear(x.shape[-1], x.shape[-1]).to(x.dtype)
        in_two_places = nn.Sequential(OrderedDict(subnet=nn.Sequential(OrderedDict(net=layer)), two=layer))
        seen["of two places"] = now(student.trace_events(in_two_places, x.clone().requires_grad_()))
        seen["broken off"] = now(student.trace_events(Attempt(layer), x.clone().requires_grad_()))
        example = nn.Sequential(nn.Linear(2, 1))
        seen["example"] = now(student.trace_events(example, torch.ones(1, 2, requires_grad=True)))
        inner: list[Any] = []
        ones, other = torch.ones(1, 1, requires_grad=True), nn.Sequential(nn.Linear(1, 1), nn.Tanh())
        outer = Meanwhile(lambda: inner.append(now(student.trace_events(other, ones))), nn.Linear(1, 1))
        seen["in a call"] = [now(student.trace_events(outer, ones)), *inner[:1]]
        return seen

    mistakes = (
        Mistake(
            "changed-the-input",
            lambda seen, needs: (
                len(seen["input_needs_grad"]) == len(seen["another_needs_grad"]) == 1
                and (seen["input_needs_grad"].value, seen["another_needs_grad"].value)
                != ([needs == "grad"], [needs == "no grad"])
            ),
            "The model received an input that differs from `x` in `requires_grad`. That changes the order: give `x` to "
            "the model as it is, without `requires_grad_()` and without `detach()`.",
        ),
        Mistake(
            "mirrored-forward",
            lambda seen, spec, needs: (
                len(seen["events"]) > 0
                and seen["events"].value == mirrored(spec)
                and [flag.value for flag in seen["input_needs_grad"]] == [needs == "grad"]
            ),
            "Your backward half is the mirror of the forward half. It is no mirror where an input requires no grad (a "
            "module then fires `bwd` right after `bpre`), where no gradient arrives, or where none gets through. "
            "Record backward with hooks, too.",
        ),
        Mistake(
            "paired-backward",
            lambda seen, spec, needs: (
                seen["events" if needs == "no grad" else "of another input"].value
                == paired_off(timeline(spec, False))
                != timeline(spec, False)
                and seen["events" if needs == "grad" else "of another input"].value == timeline(spec, True)
            ),
            "Where `x` requires no grad, you let each `bwd` follow its `bpre` at once. It does so where the input of "
            "this very module requires no grad. Further inside, inputs are what layers returned, and require grad.",
        ),
        Mistake(
            "kept-from-call-to-call",
            lambda seen, spec, needs: (
                len(seen["events"]) > 0
                and len(seen["of another input"]) > len(timeline(spec, needs == "no grad"))
                and seen["of another input"].value[: len(seen["events"])] == seen["events"].value
            ),
            KEPT,
        ),
        Mistake(
            "another-mode",
            lambda seen, spec, x, needs, mode, hooks, hooked, grad: (
                not accumulated_once(seen, spec, x, needs, mode, hooks, hooked, grad)
                and any(
                    accumulated_once(seen, spec, x, needs, other, hooks, hooked, grad)
                    for other in ("train", "eval")
                    if other != mode
                )
            ),
        ),
        Mistake(
            "late-binding",
            lambda seen, spec, needs: (
                len(seen["events"]) == len(timeline(spec, needs == "grad"))
                and bound_late([event.value for event in seen["events"]], timeline(spec, needs == "grad"))
            ),
        ),
        Mistake(
            "registered-after-forward",
            lambda seen, spec, x, needs, mode, hooks, hooked, grad: (
                seen["events"].value in (rules(spec, needs == "grad")[0], [])
                and accumulated_once(seen, spec, x, needs, mode, hooks, hooked, grad)
            ),
            "The backward part of your trace is empty, although a backward pass ran. Backward hooks are bound when the "
            "module is called: register all of them before the forward pass.",
        ),
        Mistake(
            "leaves-only",
            lambda seen, spec, needs: (
                len(seen["events"]) > 0
                and seen["events"].value != timeline(spec, needs == "grad")
                and seen["events"].value
                in (
                    [event for event in timeline(spec, needs == "grad") if event.rpartition(".")[0] in names]
                    for names in (names_of_leaves(spec), names_of_leaves(spec) | {"net"})
                )
            ),
            "Events of containers are missing. The model itself and the blocks in it are modules, too: "
            "register on everything that `model.named_modules()` gives.",
        ),
        Mistake(
            "hooked-twice",
            lambda seen, spec, needs: (
                len(seen["events"]) > len(timeline(spec, needs == "grad"))
                and without_second_names(seen["events"].value, spec) == timeline(spec, needs == "grad")
            ),
            "A module with two names is still one module, and you registered on it under each name. `named_modules()` "
            "gives it once, with its first name, unless you pass `remove_duplicate=False`.",
        ),
        Mistake(
            "not-among-the-names",
            raises="Tanh()",
            message="A global hook fires for every module, also for one that the model calls and that is not among "
            "`model.named_modules()`. It has no name and no events here: leave it out.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, spec, needs: (
                seen["events"].value == timeline(spec, needs == "grad")
                and len(changes(seen["changed"], "hook-left *")) > 0
            ),
            "Your trace is right, but your hooks are still on the modules, and every later pass would append to the "
            "old list. Keep all handles and call `remove()` on each.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                not changes(seen["changed"], "hook-left *")
                and any(changes(seen[where]["changed"], "hook-left *") for where in ("in forward", "in backward"))
            ),
            "When the model or one of its hooks raises, your `remove()` calls are skipped. Put them into `finally`, or "
            "collect the handles in a `contextlib.ExitStack`.",
        ),
    )

    def test_every_event_is_in_its_place(seen, spec, needs):
        expect(seen["events"]).timeline(timeline(spec, needs == "grad"))
        expect(seen["of another input"]).timeline(timeline(spec, needs == "no grad"))

    def test_each_module_has_its_first_name(seen, start):
        if start == WITH_MORE:
            expect(seen["of two places"]).timeline(IN_TWO_PLACES)

    def test_a_call_that_is_broken_off_has_no_fwd(seen, start):
        if start == WITH_MORE:
            expect(Seen(seen["broken off"].value, "the events of a model that catches")).timeline(BROKEN_OFF)

    def test_a_model_without_parts_has_four_events(seen, start):
        if start == WITH_MORE:
            expect(seen["of one module"]).timeline(["net.fpre", "net.fwd", "net.bpre", "net.bwd"])
            expect(seen["example"]).timeline(
                ["net.fpre", "0.fpre", "0.fwd", "net.fwd", "net.bpre", "0.bpre", "0.bwd", "net.bwd"]
            )

    def test_a_call_inside_a_call_changes_nothing(seen, start):
        if start != WITH_MORE:
            return
        outer = ["net.fpre", "0.fpre", "0.fwd", "net.fwd", "net.bpre", "0.bpre", "0.bwd", "net.bwd"]
        inner = ["net.fpre", "0.fpre", "0.fwd", "1.fpre", "1.fwd", "net.fwd"]
        inner += ["net.bpre", "1.bpre", "1.bwd", "0.bpre", "0.bwd", "net.bwd"]
        for found, (right, whose) in paired(seen["in a call"], ((outer, "outer"), (inner, "inner"))):
            expect(Seen(found.value, f"the events of the {whose} call")).timeline(right)

    def test_it_is_one_plain_pass(seen, spec, x, needs, mode, hooks, hooked, grad):
        flags = [flag.value for flag in seen["input_needs_grad"]]
        if len(flags) != 1:
            refuse(f"the model is to be called once, and it was called {len(flags)} times")
        if flags != [needs == "grad"]:
            refuse(f"`x.requires_grad` is {needs == 'grad'}, and the model got an input for which it is {flags[0]}")
        for name, gradient in accumulating(spec, x, needs, mode, hooks, hooked, grad).items():
            expect_grad(seen["grads"], name, gradient, grad)

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["grad-filled *", "grad-changed *"])

    def test_a_list_stays_as_it_is_in_later_calls(seen):  # it also grows by what is left of the first call
        if seen["events later"].value != seen["events"].value:
            refuse("a list that was returned is another one after further calls: make a new list in each call")

    def test_all_is_in_order_when_something_raises(seen):
        for where in ("in forward", "in backward"):
            came_through(seen[where]["failure"], "the model" if where == "in forward" else "a hook in backward")
            allowed = ["grad-filled *", "grad-changed *"] if where == "in backward" else []
            nothing_changed(seen[where]["changed"], but=allowed, when="after an exception")


def true_grads(spec: Spec, x: Tensor, needs: str, mode: str, hooks: str, hooked: str) -> dict[str, Tensor]:
    """The gradients of one plain pass, for all that gets one."""
    return plain_grads(model_of(spec, mode, hooks, hooked, backward=False), x, needs == "grad")


def accumulating(
    spec: Spec, x: Tensor, needs: str, mode: str, hooks: str, hooked: str, grad: str
) -> dict[str, Tensor | None]:
    """What has to be in `.grad` afterwards: what was there and one pass, and None where nothing comes."""
    grads = true_grads(spec, x, needs, mode, hooks, hooked)
    found: dict[str, Tensor | None] = {}
    for name, t in [*build(spec).named_parameters(), ("x", x.clone().requires_grad_(needs == "grad"))]:
        before = torch.full_like(t, OLD).detach() if grad == "filled" and t.requires_grad else None
        found[name] = grads.get(name) if before is None else before + grads.get(name, 0.0)
    return found


def accumulated_once(
    seen: Seen, spec: Spec, x: Tensor, needs: str, mode: str, hooks: str, hooked: str, grad: str
) -> bool:
    """Whether exactly one backward pass reached the parameters."""
    expected = accumulating(spec, x, needs, mode, hooks, hooked, grad)
    return all(
        close(seen["grads"][name], gradient, 1e-4, 1e-4) for name, gradient in expected.items() if gradient is not None
    )
