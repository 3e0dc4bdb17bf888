"""Exercise 08-trace-events."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from graders.authoring import (
    Mistake,
    Seen,
    close,
    exercise,
    expect,
    expecting_boom,
    module_hooks,
    no_hook_left,
    tensor_hooks,
)
from graders.lesson_08_event_order.judging import plain_grads
from graders.lesson_08_event_order.shared import boom, build, dot_grads, now, with_ones


def draw_leaf(rng, name, kinds=("linear", "linear", "linear", "tanh", "tanh", "frozen")):
    """The description of a module without children, 3 features to 3."""
    kind = rng.choice(kinds)
    values = {} if kind == "tanh" else {"weight": rng.tensor(3, 3, low=-1, high=1), "bias": rng.tensor(3)}
    return {"name": name, "kind": kind, **values}


def draw_block(rng, name, kinds, children):
    """The description of a container: definition order and call order are drawn apart."""
    names = [child["name"] for child in children]
    return {"name": name, "kind": rng.choice(kinds), "children": rng.shuffled(children), "calls": rng.shuffled(names)}


def draw_model(rng, shared, quiet):
    """A nested model with random names. `shared`: one module under two names; `quiet`: it starts without gradients."""
    names = [name for name in rng.names(14) if name != "net"]
    fresh = iter(names)
    joins = ("chain", "residual", "sum")
    inner = draw_block(rng, next(fresh), joins, [draw_leaf(rng, next(fresh)) for _ in range(2)])
    outer = draw_block(rng, next(fresh), joins, [inner, *(draw_leaf(rng, next(fresh)) for _ in range(2))])
    head = draw_leaf(rng, next(fresh), kinds=("linear",))
    model = draw_block(rng, "net", ("chain",), [outer, head, draw_leaf(rng, next(fresh))])
    if shared:
        block = rng.choice((model, outer, inner))
        part, alias = rng.choice(block["children"]), next(fresh)
        block["children"] = rng.shuffled([*block["children"], {"name": alias, "kind": "alias", "of": part["name"]}])
        block["calls"] = rng.shuffled([*block["calls"], alias])
    if quiet:
        first = draw_leaf(rng, next(fresh), kinds=("tanh", "frozen"))
        model["children"] = rng.shuffled([*model["children"], first])
        model["calls"] = [first["name"], *model["calls"]]
    return model


def rules(spec: dict[str, Any], needs: bool, name: str = "") -> tuple[list[str], list[str], bool]:
    """The rules of event order: forward events, backward events, whether the output requires grad.

    `needs` says whether the input requires grad. A module whose output requires no grad has no backward
    events. Its full backward hook fires when its input's gradient is complete, or at once, right after the
    pre-hook, when no input requires grad.
    """
    label = name or "net"
    forward, backward, at, results = [], [], needs, []
    parts = {part["name"]: part for part in spec.get("children", ())}
    first = first_names(spec)
    for call in spec.get("calls", ()):
        part = parts[parts[call].get("of", call)]
        path = f"{name}.{first[call]}" if name else first[call]
        ahead, back, at = rules(part, needs if spec["kind"] == "sum" else at, path)
        forward, backward = forward + ahead, back + backward
        results.append(at)
    gives = {"chain": at, "residual": needs or at, "sum": any(results), "linear": True}.get(spec["kind"], needs)
    ends = [f"{label}.bpre"], [f"{label}.bwd"]
    if gives:
        backward = [*ends[0], *backward, *ends[1]] if needs else [*ends[0], *ends[1], *backward]
    return [f"{label}.fpre", *forward, f"{label}.fwd"], backward, gives


def first_names(spec: dict[str, Any]) -> dict[str, str]:
    """For each name in a container the first name of the same module, in the order of definition."""
    first: dict[str, str] = {}
    for part in spec.get("children", ()):
        first.setdefault(part.get("of", part["name"]), part["name"])
    return {part["name"]: first[part.get("of", part["name"])] for part in spec.get("children", ())}


def timeline(spec: dict[str, Any], grad: bool) -> list[str]:
    """All events of one forward and backward pass."""
    forward, backward, _ = rules(spec, grad)
    return forward + backward


def mirrored(spec: dict[str, Any]) -> list[str]:
    """The forward events, and then their mirror image."""
    forward, _, _ = rules(spec, False)
    return forward + [event.replace(".fwd", ".bpre").replace(".fpre", ".bwd") for event in reversed(forward)]


def names_of_leaves(spec: dict[str, Any], name: str = "") -> set[str]:
    """The names of the modules without children."""
    if "children" not in spec:
        return {name}
    paths = {part["name"]: f"{name}.{part['name']}" if name else part["name"] for part in spec["children"]}
    parts = [part for part in spec["children"] if part["kind"] != "alias"]
    first = first_names(spec)
    return set().union(*(names_of_leaves(part, paths[first[part["name"]]]) for part in parts))


def second_names(spec: dict[str, Any]) -> set[str]:
    """Names that are not the first of their module. No name is drawn twice in a model."""
    own = {name for name, first in first_names(spec).items() if name != first}
    return own.union(*(second_names(part) for part in spec.get("children", ())))


def bound_late(events: list[str], expected: list[str]) -> bool:
    """Whether all events are of the last kind, or those of one kind all have one name, and should not."""
    kinds = {event.rpartition(".")[2] for event in expected}
    names = [[{event.rpartition(".")[0] for event in some if event.endswith(f".{kind}")} for some in (events, expected)]
             for kind in kinds]  # fmt: skip
    return len({event.rpartition(".")[2] for event in events}) == 1 or any(len(a) == 1 < len(b) for a, b in names)


def without_second_names(events: list[str], spec: dict[str, Any]) -> list[str]:
    """The events without those that carry a second name in their path."""
    second = second_names(spec)
    return [event for event in events if not second & set(event.split("."))]


def watched(module: nn.Module) -> list[str]:
    """The calls of the caller's hooks on this module, one of each kind, from now on."""
    calls: list[str] = []
    module.register_forward_pre_hook(lambda *_: calls.append("fpre"))
    module.register_forward_hook(lambda *_: calls.append("fwd"))
    module.register_full_backward_pre_hook(lambda *_: calls.append("bpre"))
    module.register_full_backward_hook(lambda *_: calls.append("bwd"))
    return calls


@exercise(
    "08-trace-events",
    points=2,
    title="Trace every event of one pass",
    hints=(
        "Each module needs four hooks, and each hook appends one text to the same list.",
        "`model.named_modules()` gives every module once, with its name; the model itself has the empty name. Bind the "
        "name in the hook: `lambda *args, name=name: ...`.",
        "Register everything before the forward pass, remove everything in `finally`, and give `x` to the model as it "
        "is.",
    ),
    cases=(
        {"grad": True, "shared": False, "quiet": False},
        {"grad": False, "shared": False, "quiet": False},
        {"grad": True, "shared": True, "quiet": False},
        {"grad": False, "shared": True, "quiet": False},
        {"grad": False, "shared": False, "quiet": True},
    ),
)
class TestTraceEvents:
    """Write `trace_events(model, x)`. Run `model(x).sum().backward()` once, with `x` as it is given, and return
    the list of events in the order in which they happen.

    An event is a text: the name of a module, a dot, and what happens: `fpre` when a forward pre-hook of the module
    fires, `fwd` for a forward hook, `bpre` for a full backward pre-hook, `bwd` for a full backward hook. Every module
    counts, containers too, and a module that is called twice has its events twice. The names are those of
    `model.named_modules()`, which gives a module with several names its first one. The model itself is called `net`.

    Some inputs require grad and some do not. The `.grad` of the parameters, and of `x` if it requires grad,
    accumulates as in one plain pass. The modules stay in their modes. Hooks of the caller stay and fire. No hook of
    yours is left, even when the model or a hook raises; the exception comes through.

    **Example.** For `nn.Sequential(nn.Linear(2, 1))` and an `x` that requires grad, the result is `["net.fpre",
    "0.fpre", "0.fwd", "net.fwd", "net.bpre", "0.bpre", "0.bwd", "net.bwd"]`.
    """

    def draw(rng, grad, shared, quiet):
        spec = draw_model(rng, shared, quiet)
        return {"spec": spec, "x": rng.tensor(2, 3), "grad": grad, "at": rng.integer(1, 3)}

    def alive(spec, x, grad):
        # Gradients flow, some of them are not zero, and some container below the model has backward events.
        _, backward, gives = rules(spec, grad)
        inner = names_of_leaves(spec) | {"net"}
        return (
            gives
            and any(event.rpartition(".")[0] not in inner for event in backward)
            and any(gradient.abs().max() > 0.01 for gradient in plain_grads(build(spec), x, grad).values())
        )

    def probe(student, spec, x, grad, at):
        x.requires_grad_(grad)
        model = with_ones(build(spec), x)
        model.get_submodule(spec["children"][0]["name"]).eval()
        modes = [module.training for module in model.modules()]
        needs, calls = [], watched(model)
        model.register_forward_pre_hook(lambda module, args: needs.append(args[0].requires_grad))
        hooks = module_hooks(model) + tensor_hooks(x)
        events = now(student.trace_events(model, x))
        seen = {
            "events": events,
            "input_needs_grad": needs[:5],
            "x_needs_grad": x.requires_grad,
            "callers_calls": calls[:20],
            "grads": dot_grads(model, x),
            "modes_kept": modes == [module.training for module in model.modules()],
            "hooks_left": module_hooks(model) + tensor_hooks(x) - hooks,
        }
        calls.clear()
        model(x).sum().backward()
        seen["callers_calls_later"] = list(calls)
        seen["second_call"] = now(student.trace_events(model, x.detach().clone().requires_grad_(grad)))
        failing = build(spec)
        list(failing.modules())[at].register_forward_hook(boom)
        hooks = module_hooks(failing)
        with expecting_boom(seen, "exception_in_forward"):
            student.trace_events(failing, x.detach().clone().requires_grad_(grad))
        seen["hooks_left_by_forward"] = module_hooks(failing) - hooks
        failing = build(spec)
        next(parameter for parameter in failing.parameters() if parameter.requires_grad).register_hook(boom)
        hooks = module_hooks(failing)
        with expecting_boom(seen, "exception_in_backward"):
            student.trace_events(failing, x.detach().clone().requires_grad_(grad))
        seen["hooks_left_by_backward"] = module_hooks(failing) - hooks
        return seen

    mistakes = (
        Mistake(
            "changed-the-input",
            lambda seen, grad: (
                len(seen["input_needs_grad"]) > 0 and all(flag.value is not grad for flag in seen["input_needs_grad"])
            ),
            "The model received an input that differs from `x` in `requires_grad`. That changes the order: give `x` to "
            "the model as it is, without `requires_grad_()` and without `detach()`.",
        ),
        Mistake(
            "mirrored-forward",
            lambda seen, spec, grad: (
                not grad
                and seen["events"].value == mirrored(spec)
                and all(flag.value is False for flag in seen["input_needs_grad"])
            ),
            "Your backward half is the mirror of the forward half. Without a gradient at the input it is no mirror: a "
            "module whose inputs require no grad fires `bwd` right after `bpre`. Record backward with hooks, too.",
        ),
        Mistake(
            "late-binding",
            lambda seen, spec, grad: (
                len(seen["events"]) == len(timeline(spec, grad))
                and bound_late([event.value for event in seen["events"]], timeline(spec, grad))
            ),
        ),
        Mistake(
            "registered-after-forward",
            lambda seen, spec, x, grad: (
                seen["events"].value in (rules(spec, grad)[0], []) and accumulated_once(seen, spec, x, grad)
            ),
            "The backward part of your trace is empty, although a backward pass ran. Backward hooks are bound when the "
            "module is called: register all of them before the forward pass.",
        ),
        Mistake(
            "leaves-only",
            lambda seen, spec, grad: (
                seen["events"].value != timeline(spec, grad)
                and seen["events"].value
                in (
                    [event for event in timeline(spec, grad) if event.rpartition(".")[0] in names]
                    for names in (names_of_leaves(spec), names_of_leaves(spec) | {"net"})
                )
            ),
            "Events of containers are missing. The model itself and the blocks in it are modules, too: "
            "register on everything that `model.named_modules()` gives.",
        ),
        Mistake(
            "hooked-twice",
            lambda seen, spec, grad: (
                len(seen["events"]) > len(timeline(spec, grad))
                and without_second_names(seen["events"].value, spec) == timeline(spec, grad)
            ),
            "A module with two names is still one module, and you registered on it under each name. `named_modules()` "
            "gives it once, with its first name, unless you pass `remove_duplicate=False`.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, spec, grad: seen["events"].value == timeline(spec, grad) and seen["hooks_left"].value > 0,
            "Your trace is right, but your hooks are still on the modules, and every later pass would append to the "
            "old list. Keep all handles and call `remove()` on each.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                seen["hooks_left"].value == 0
                and (seen["hooks_left_by_forward"].value > 0 or seen["hooks_left_by_backward"].value > 0)
            ),
            "When the model or one of its hooks raises, your `remove()` calls are skipped. Put them into `finally`, or "
            "collect the handles in a `contextlib.ExitStack`.",
        ),
    )

    def test_every_event_is_in_its_place(seen, spec, grad):
        expect(seen["events"]).timeline(timeline(spec, grad))
        expect(seen["second_call"]).timeline(timeline(spec, grad))

    def test_it_is_one_plain_pass(seen, spec, x, grad):
        expect(seen["callers_calls"]).equals(["fpre", "fwd", "bpre", "bwd"])
        expect(seen["x_needs_grad"]).equals(grad)
        for name, gradient in accumulating(spec, x, grad).items():
            if gradient is None:
                expect(seen["grads"][name]).equals(None)
            else:
                expect(seen["grads"][name]).close_to(gradient)

    def test_modes_and_hooks_of_the_caller_stay(seen):
        expect(seen["modes_kept"]).is_true("the modules are not in the modes in which the caller had set them")
        expect(seen["callers_calls_later"]).equals(["fpre", "fwd", "bpre", "bwd"])

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_something_raises(seen):
        for where in ("forward", "backward"):
            expect(seen[f"exception_in_{where}"]).equals("propagated")
            no_hook_left(seen[f"hooks_left_by_{where}"])


def accumulating(spec: dict[str, Any], x: Tensor, grad: bool) -> dict[str, Tensor | None]:
    """What has to be in `.grad` afterwards: ones and one pass, and None for what requires no grad."""
    model = build(spec)
    grads = plain_grads(model, x, grad)
    names = [*(name for name, _ in model.named_parameters()), "x"]
    return {name: grads[name] + 1 if name in grads else None for name in names}


def accumulated_once(seen: Seen, spec: dict[str, Any], x: Tensor, grad: bool) -> bool:
    """Whether exactly one backward pass reached the parameters."""
    expected = {name: gradient for name, gradient in accumulating(spec, x, grad).items() if gradient is not None}
    return all(close(seen["grads"][name], gradient) for name, gradient in expected.items())
