"""Lesson 8. Event order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)

from graders.box.probing import Boom, expecting_boom, module_hooks, snapshot, tensor_hooks
from graders.core.exercise import Mistake, exercise
from graders.core.expect import Seen, close, expect

MODULE_ORDER = [
    "G.pre", "P.pre", "A.pre",
    "G.fwd", "P.fwd", "A.fwd",
    "G.bpre", "P.bpre", "A.bpre",
    "G.bwd", "P.bwd", "A.bwd",
]  # fmt: skip


def twelve(forward: str, backward: str) -> list[str]:
    """The twelve labels when the hooks of each kind fire in the order of these letters."""
    kinds = {"pre": forward, "fwd": forward, "bpre": backward, "bwd": backward}
    return [f"{letter}.{kind}" for kind, letters in kinds.items() for letter in letters]


def now(result: Any) -> Any:
    """A list as it is now: a hook that is left may append to it later. Any other result as it is."""
    return list(result) if isinstance(result, list) else result


@exercise(
    "08-predict-module-order",
    points=1,
    title="Three hooks of each kind on one module",
    hints=(
        "Who is first? A global hook was registered last, and yet it does not have to wait for the hooks of the layer.",
        "`prepend=True` puts a hook before the other hooks of the same layer. It does not put it before global hooks.",
        "The rule is the same in backward: nothing is reversed among the hooks of one module.",
    ),
    cases=({},),
)
class TestPredictModuleOrder:
    """Write `predict_module_order()`. It answers this question: in which order do twelve hooks fire?

    There is one `nn.Linear` and an input that requires grad. There are four kinds of hooks: forward pre-hook (`pre`),
    forward hook (`fwd`), full backward pre-hook (`bpre`) and full backward hook (`bwd`). Of each kind, three hooks
    are registered, in this order: `A` on the layer, then `P` on the layer with `prepend=True`, then `G` as a global
    hook. Then `layer(x).sum().backward()` runs once.

    Return the list of all twelve labels, such as `"A.fwd"`, in the order in which the hooks fire. You may write the
    list down, or let the function measure it. A function that measures removes its global hooks again, and leaves
    those of others where they are.

    **Example.** If there were only the hooks `A`, the answer would be `["A.pre", "A.fwd", "A.bpre", "A.bwd"]`.
    """

    def draw(rng):
        return {"x": rng.tensor(2, 3)}

    def probe(student, x):
        calls = []
        register_module_forward_pre_hook(lambda *_: calls.append("pre"))
        register_module_forward_hook(lambda *_: calls.append("fwd"))
        register_module_full_backward_pre_hook(lambda *_: calls.append("bpre"))
        register_module_full_backward_hook(lambda *_: calls.append("bwd"))
        hooks = module_hooks(nn.Identity())
        order = now(student.predict_module_order())
        seen = {"order": order, "hooks_left": module_hooks(nn.Identity()) - hooks}
        calls.clear()
        nn.Linear(3, 1)(x.requires_grad_()).sum().backward()
        return {**seen, "callers_calls": list(calls), "second_call": now(student.predict_module_order())}

    mistakes = (
        Mistake(
            "local-before-global",
            lambda seen: seen["order"].value in (twelve("PAG", "PAG"), twelve("PGA", "PGA")),
            "You let hooks of the layer run before the global hook. Global hooks run first, even before a hook that "
            "was registered with `prepend=True`, and no matter when they were registered.",
        ),
        Mistake(
            "registration-order",
            lambda seen: seen["order"].value in (twelve("APG", "APG"), twelve("GAP", "GAP")),
            "You kept the order of registration. Hooks of one module do run in that order, but `prepend=True` puts a "
            "hook at the front of them, and global hooks come before all of them.",
        ),
        Mistake(
            "backward-reversed",
            lambda seen: seen["order"].value in (twelve("GPA", "APG"), twelve("GPA", "GAP")),
            "Your forward half is right. In backward the modules are visited in reverse, but the hooks of one module "
            "are not: global, prepended, appended, as in forward.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: seen["order"].value == MODULE_ORDER and seen["hooks_left"].value > 0,
            "Your list is right, but your global hooks are still registered, and now they fire for every module of "
            "this process. Keep their handles and call `remove()`.",
        ),
    )

    def test_the_twelve_hooks_are_in_the_order_in_which_they_fire(seen):
        expect(seen["order"]).timeline(MODULE_ORDER)
        expect(seen["second_call"]).timeline(MODULE_ORDER)

    def test_global_hooks_are_as_they_were(seen):
        expect(seen["hooks_left"]).equals(0)
        expect(seen["callers_calls"]).equals(["pre", "fwd", "bpre", "bwd"])


AUTOGRAD_ORDER = {
    "non-leaf": ["tensor", "retain_grad", "node_pre", "node_post"],
    "leaf": ["tensor", "node_pre", "post_acc", "node_post"],
}
ALMOST_KINDS = ["", "Leaf", "leaf ", "nonleaf", "a non-leaf"]


def error_of(call: Callable[[], Any]) -> str:
    """Which exception a call raises: "ValueError" also for its subclasses, "none" when it returns."""
    try:
        call()
    except ValueError:
        return "ValueError"
    except Exception as error:
        return type(error).__name__
    return "none"


@exercise(
    "08-predict-autograd-order",
    points=2,
    title="Tensor, node, and the moment of .grad",
    hints=(
        "Hooks on the tensor come first, for a leaf and for a non-leaf.",
        "When is `.grad` written? For a non-leaf, let the pre-hook of the node return 100 times the gradient, and see "
        "which of the two arrives in `y.grad`.",
        "The post hook of the node ends it. For a leaf, the work of the node is to write `.grad`, and the "
        "post-accumulate-grad hook belongs to that work.",
    ),
    cases=({}, {}),
)
class TestPredictAutogradOrder:
    """Write `predict_autograd_order(kind)`. It returns the order of four events of one backward pass, as a list of
    four labels.

    For `kind == "non-leaf"` there is a tensor `y = 3 * x`, where `x` is a leaf that requires grad:

    - `"tensor"`: a hook on `y` runs, registered with `y.register_hook`.
    - `"retain_grad"`: `y.grad` is written. (`y.retain_grad()` was called before the pass.)
    - `"node_pre"`: a pre-hook of the node `y.grad_fn` runs, registered with its `register_prehook`.
    - `"node_post"`: a hook of the node `y.grad_fn` runs, registered with its `register_hook`.

    For `kind == "leaf"` it is about the leaf `x` and its node `get_gradient_edge(x).node`. The labels `"tensor"`,
    `"node_pre"` and `"node_post"` mean the same as above, for `x` and this node, and

    - `"post_acc"`: a hook on `x` runs, registered with `x.register_post_accumulate_grad_hook`.

    Everything was set up before the pass, in the order `node_post`, `node_pre`, `retain_grad` or `post_acc`, `tensor`.
    For any other `kind`, raise a `ValueError`. You may write the lists down, or let the function measure them.

    **Example.** If a leaf had only the hooks `tensor` and `post_acc`, the answer would be `["tensor", "post_acc"]`:
    you know that from lesson 4. `predict_autograd_order("tree")` raises a `ValueError`.
    """

    def draw(rng):
        return {"kinds": rng.shuffled(["leaf", "non-leaf"]), "unknown": [*rng.names(2), *ALMOST_KINDS]}

    def probe(student, kinds, unknown):
        orders = {kind: student.predict_autograd_order(kind) for kind in kinds}
        errors = [error_of(lambda kind=kind: student.predict_autograd_order(kind)) for kind in unknown]
        return {"orders": orders, "errors": errors}

    mistakes = (
        Mistake(
            "documented-order",
            lambda seen: seen["orders"]["non-leaf"].value == ["tensor", "node_pre", "retain_grad", "node_post"],
            "For a non-leaf you follow the list in PyTorch's notes, and there the note and the engine disagree. Run "
            "it: let the pre-hook of the node return a multiple, and see what `y.grad` holds.",
        ),
        Mistake(
            "registration-order",
            lambda seen: (
                seen["orders"]["non-leaf"].value == ["node_post", "node_pre", "retain_grad", "tensor"]
                or seen["orders"]["leaf"].value == ["node_post", "node_pre", "post_acc", "tensor"]
            ),
            "This is the order of registration. It decides between hooks of one kind; between kinds, the moment "
            "decides: the tensor, then its node, and the node's own work before its post hook.",
        ),
        Mistake(
            "post-acc-last",
            lambda seen: seen["orders"]["leaf"].value == ["tensor", "node_pre", "node_post", "post_acc"],
            "You put the post-accumulate-grad hook last. It runs inside the node of the leaf, right after `.grad` is "
            "written, and the post hook of the node waits until that work is done.",
        ),
        Mistake(
            "unknown-kind-accepted",
            lambda seen: (
                all(seen["orders"][kind].value == order for kind, order in AUTOGRAD_ORDER.items())
                and any(error.value != "ValueError" for error in seen["errors"])
            ),
            'Both lists are right. Any `kind` other than "leaf" and "non-leaf" has to end in `raise ValueError(...)`: '
            "not in a result, and not in another exception.",
        ),
    )

    def test_both_orders_are_right(seen):
        for kind, order in AUTOGRAD_ORDER.items():
            expect(seen["orders"][kind]).timeline(order)

    def test_an_unknown_kind_raises_a_value_error(seen):
        expect(seen["errors"]).equals(["ValueError"] * (2 + len(ALMOST_KINDS)))


class Block(nn.Module):
    """A container: children registered in one order, called in another, joined in one of three ways."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        self.kind, self.calls = spec["kind"], spec["calls"]
        made = {part["name"]: build(part) for part in spec["children"] if part["kind"] != "alias"}
        for part in spec["children"]:
            self.add_module(part["name"], made[part.get("of", part["name"])])

    def forward(self, x: Tensor) -> Tensor:
        results, h = [], x
        for name in self.calls:
            results.append(self.get_submodule(name)(x if self.kind == "sum" else h))
            h = results[-1]
        if self.kind == "sum":
            h = results[0]
            for other in results[1:]:
                h = h + other
        return x + h if self.kind == "residual" else h


def build(spec: dict[str, Any]) -> nn.Module:
    """The module that a drawn description stands for."""
    if "children" in spec:
        return Block(spec)
    if spec["kind"] == "tanh":
        return nn.Tanh()
    layer = nn.Linear(*reversed(spec["weight"].shape))
    layer.load_state_dict({"weight": spec["weight"], "bias": spec["bias"]})
    return layer.requires_grad_(spec["kind"] == "linear")


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


def plain_grads(model: nn.Module, x: Tensor, grad: bool) -> dict[str, Tensor]:
    """The gradients of `model(x).sum()` for the trainable parameters, and for "x" when it requires grad."""
    x = x.detach().clone().requires_grad_(grad)
    wanted = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if grad:
        wanted["x"] = x
    return dict(zip(wanted, torch.autograd.grad(model(x).sum(), list(wanted.values()))))


def with_ones(model: nn.Module, x: Tensor) -> nn.Module:
    """The model after an earlier pass that left a gradient of ones on all that requires grad, also on `x`."""
    for tensor in (*model.parameters(), x):
        if tensor.requires_grad:
            tensor.grad = torch.ones_like(tensor)
    return model


def watched(module: nn.Module) -> list[str]:
    """The calls of the caller's hooks on this module, one of each kind, from now on."""
    calls: list[str] = []
    module.register_forward_pre_hook(lambda *_: calls.append("fpre"))
    module.register_forward_hook(lambda *_: calls.append("fwd"))
    module.register_full_backward_pre_hook(lambda *_: calls.append("bpre"))
    module.register_full_backward_hook(lambda *_: calls.append("bwd"))
    return calls


def boom(*_: Any) -> None:
    """A hook of any kind that raises."""
    raise Boom


def dot_grads(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """What is in `.grad` of the parameters and of `x`."""
    return {**{name: snapshot(p.grad) for name, p in model.named_parameters()}, "x": snapshot(x.grad)}


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
        expect(seen["hooks_left"]).equals(0)

    def test_no_hook_is_left_when_something_raises(seen):
        for where in ("forward", "backward"):
            expect(seen[f"exception_in_{where}"]).equals("propagated")
            expect(seen[f"hooks_left_by_{where}"]).equals(0)


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


def make_stack(spec: dict[str, Any]) -> nn.Sequential:
    """A Sequential with the drawn names; `order` says which of the two trainable parts, or Tanh, stands where."""
    parts: list[nn.Module] = [build({"kind": "linear", **values}) for values in spec["layers"]]
    if spec["nested"]:
        parts[0] = nn.Sequential(parts[0], nn.Tanh())
    if spec["frozen"]:
        parts[0].requires_grad_(False)
    chosen = [nn.Tanh() if index is None else parts[index] for index in spec["order"]]
    return nn.Sequential(OrderedDict(zip(spec["names"], chosen)))


def calls_of_a_pass(spec: dict[str, Any], grad: bool, ckpt: bool) -> list[str]:
    """The calls of the two hooks on the first module in one pass, in their order, from the rules.

    Backward once for each use, unless the module neither has anything to learn nor an input that requires
    grad. Forward once for each use, and once more for each when the checkpoint runs it again, which is the
    first thing in backward. The second run stops as soon as it has all that it needs, which is inside the
    last module: its hook does not fire.
    """
    uses = sum(index == 0 for index in spec["order"])
    again = uses - (spec["order"][-1] == 0)
    return ["fwd"] * (uses + again * ckpt) + ["bwd"] * (uses * (grad or not spec["frozen"]))


def hook_calls(spec: dict[str, Any], grad: bool, n: int, ckpt: bool) -> dict[str, int]:
    """How often the two hooks on the first module are called in `n` passes."""
    calls = calls_of_a_pass(spec, grad, ckpt)
    return {kind: n * calls.count(kind) for kind in ("fwd", "bwd")}


ORDERS = {"plain": [0, None, 1], "twice": [0, None, 0, 1], "last": [0, None, 1, 0]}


@exercise(
    "08-count-hook-calls",
    points=2,
    title="Count hook calls, with and without checkpoint",
    hints=(
        "Count, do not compute: let each hook add 1, and run the model.",
        "With `ckpt=True` the forward part of the model runs a second time during backward: the recomputation.",
        "Remove both handles in `finally`. Register them once, before the first pass.",
    ),
    cases=(
        {"kind": "plain", "frozen": False, "ckpt": False, "grad": True},
        {"kind": "plain", "frozen": False, "ckpt": True, "grad": False},
        {"kind": "twice", "frozen": False, "ckpt": False, "grad": False},
        {"kind": "twice", "frozen": False, "ckpt": True, "grad": True},
        {"kind": "plain", "frozen": True, "ckpt": False, "grad": False},
        {"kind": "plain", "frozen": True, "ckpt": True, "grad": False},
        {"kind": "plain", "frozen": True, "ckpt": True, "grad": True},
        {"kind": "last", "frozen": False, "ckpt": True, "grad": True},
    ),
)
class TestCountHookCalls:
    """Write `count_hook_calls(model, x, n, ckpt)`. `model` is an `nn.Sequential`. Run `n` passes: each is one forward
    pass, and then `sum().backward()` on its result. The forward pass is `model(x)` when `ckpt` is `False`, and
    `checkpoint(model, x, use_reentrant=False)` from `torch.utils.checkpoint` when `ckpt` is `True`.

    Return `{"fwd": ..., "bwd": ...}` with two integers for all `n` passes together: how often a forward hook on
    `model[0]` is called (one that is registered by `model[0].register_forward_hook(fn)`), and how often a full
    backward hook on `model[0]` is called (`model[0].register_full_backward_hook(fn)`).

    Sometimes the module `model[0]` is used a second time in the same model, and sometimes its parameters are frozen.
    `x` may or may not require grad, and stays as it is. The `.grad` of the parameters, and of `x` if it requires grad,
    accumulates over the `n` passes, without clearing. The modules stay in their modes. Hooks of the caller stay and
    fire. No hook of yours is left, even when the model or a hook raises; the exception comes through.

    **Example.** For `model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))`, `n = 3` and `ckpt = False`
    the result is `{"fwd": 3, "bwd": 3}`.
    """

    def draw(rng, kind, frozen, ckpt, grad):
        order = ORDERS[kind]
        layers = [{"weight": rng.tensor(3, 3, low=-1, high=1), "bias": rng.tensor(3)} for _ in range(2)]
        names = rng.names(len(order))
        spec = {"layers": layers, "names": names, "order": order, "frozen": frozen, "nested": rng.choice((True, False))}
        return {"spec": spec, "x": rng.tensor(2, 3), "grad": grad, "n": rng.choice((4, 6, 8)), "ckpt": ckpt}

    def alive(spec, x, grad):
        return any(gradient.abs().max() > 0.01 for gradient in plain_grads(make_stack(spec), x, grad).values())

    def probe(student, spec, x, grad, n, ckpt):
        x.requires_grad_(grad)
        model = with_ones(make_stack(spec), x)
        model[1].eval()
        modes = [module.training for module in model.modules()]
        needs, calls = [], []
        model.register_forward_pre_hook(lambda module, args: needs.append(args[0].requires_grad))
        model[0].register_forward_hook(lambda *_: calls.append("fwd"))
        model[0].register_full_backward_hook(lambda *_: calls.append("bwd"))
        hooks = module_hooks(model) + tensor_hooks(x)
        counts = student.count_hook_calls(model, x, n, ckpt)
        seen = {
            "counts": dict(counts) if isinstance(counts, dict) else counts,
            "input_needs_grad": needs[:5],
            "callers_calls": calls[:1000],
            "grads": dot_grads(model, x),
            "x_needs_grad": x.requires_grad,
            "modes_kept": modes == [module.training for module in model.modules()],
            "hooks_left": module_hooks(model) + tensor_hooks(x) - hooks,
        }
        calls.clear()
        model(x.detach().clone().requires_grad_(grad)).sum().backward()
        seen["callers_calls_later"] = list(calls)
        failing = make_stack(spec)
        failing[1].register_forward_hook(boom)
        hooks = module_hooks(failing)
        with expecting_boom(seen, "exception_in_forward"):
            student.count_hook_calls(failing, x.detach().clone().requires_grad_(grad), n, ckpt)
        seen["hooks_left_by_forward"] = module_hooks(failing) - hooks
        failing = make_stack(spec)
        next(parameter for parameter in failing.parameters() if parameter.requires_grad).register_hook(boom)
        hooks = module_hooks(failing)
        with expecting_boom(seen, "exception_in_backward"):
            student.count_hook_calls(failing, x.detach().clone().requires_grad_(grad), n, ckpt)
        seen["hooks_left_by_backward"] = module_hooks(failing) - hooks
        return seen

    mistakes = (
        Mistake(
            "ignored-checkpoint",
            lambda seen, spec, grad, n, ckpt: (
                ckpt
                and seen["counts"].value == hook_calls(spec, grad, n, False)
                and seen["callers_calls"].value.count("fwd") == seen["counts"]["fwd"].value
            ),
            "You ran `model(x)` although `ckpt` is `True`. Then the forward pass has to be "
            "`checkpoint(model, x, use_reentrant=False)`, and the counts change.",
        ),
        Mistake(
            "assumed-one-call",
            lambda seen, spec, grad, n, ckpt: (
                seen["counts"].value == {"fwd": n, "bwd": n} != hook_calls(spec, grad, n, ckpt)
                and all(flag.value is grad for flag in seen["input_needs_grad"])
                and not (ckpt and seen["callers_calls"].value.count("fwd") == hook_calls(spec, grad, n, False)["fwd"])
            ),
            "You returned one call for each pass. But checkpoint runs the forward again during backward, a module can "
            "be used twice in one pass, and a frozen module may be skipped. Count the calls in the hooks.",
        ),
        Mistake(
            "doubled-both",
            lambda seen, spec, grad, n, ckpt: (
                ckpt
                and seen["counts"].value != hook_calls(spec, grad, n, ckpt)
                and seen["counts"].value
                in (
                    {"fwd": 2 * n, "bwd": 2 * n},
                    {kind: times * hook_calls(spec, grad, n, ckpt)[kind] for kind, times in (("fwd", 1), ("bwd", 2))},
                )
            ),
            "You doubled both numbers for the checkpoint. Only the forward part runs again; the backward pass, and "
            "with it the full backward hook, runs once.",
        ),
        Mistake(
            "registered-every-pass",
            lambda seen, spec, grad, n, ckpt: (
                seen["counts"].value
                == {kind: count * (n + 1) // 2 for kind, count in hook_calls(spec, grad, n, ckpt).items()}
            ),
            "You register the hooks again in each pass, so that the first pass counts once, the second twice, and so "
            "on. Register once, before the loop, or remove the hooks at the end of each pass.",
        ),
        Mistake(
            "changed-the-input",
            lambda seen, grad: (
                len(seen["input_needs_grad"]) > 0 and all(flag.value is not grad for flag in seen["input_needs_grad"])
            ),
            "The model received an input that differs from `x` in `requires_grad`. That changes which modules a "
            "gradient passes, and so the counts: give `x` to the model as it is.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, spec, grad, n, ckpt: (
                seen["counts"].value == hook_calls(spec, grad, n, ckpt) and seen["hooks_left"].value > 0
            ),
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                seen["hooks_left"].value == 0
                and (seen["hooks_left_by_forward"].value > 0 or seen["hooks_left_by_backward"].value > 0)
            ),
            "When the model or one of its hooks raises, your `remove()` calls are skipped. Put them into `finally`, or "
            "use the handles as context managers.",
        ),
    )

    def test_the_calls_are_counted(seen, spec, grad, n, ckpt):
        expected = hook_calls(spec, grad, n, ckpt)
        expect(seen["counts"]).has_keys("fwd", "bwd")
        for kind in expected:
            expect(seen["counts"][kind]).equals(expected[kind])

    def test_the_passes_ran_as_asked(seen, spec, x, grad, n, ckpt):
        expect(seen["callers_calls"]).timeline(n * calls_of_a_pass(spec, grad, ckpt))
        expect(seen["x_needs_grad"]).equals(grad)
        grads = plain_grads(make_stack(spec), x, grad)
        for name, gradient in grads.items():
            expect(seen["grads"][name]).close_to(n * gradient + 1, rtol=1e-4, atol=1e-4)

    def test_modes_and_hooks_of_the_caller_stay(seen, spec, grad):
        expect(seen["modes_kept"]).is_true("the modules are not in the modes in which the caller had set them")
        expect(seen["callers_calls_later"]).equals(calls_of_a_pass(spec, grad, ckpt=False))

    def test_no_hook_is_left(seen):
        expect(seen["hooks_left"]).equals(0)

    def test_no_hook_is_left_when_something_raises(seen):
        for where in ("forward", "backward"):
            expect(seen[f"exception_in_{where}"]).equals("propagated")
            expect(seen[f"hooks_left_by_{where}"]).equals(0)
