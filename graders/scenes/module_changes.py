"""Scenes for functions that change what flows back through a module."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import detached_copy, remove_handle
from graders.scenes.given import Arguments
from graders.scenes.instruments.models import fill_grads, freeze_part
from graders.scenes.instruments.passes import compute_gradients
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Witness
from graders.scenes.module_backward import AXES
from graders.scenes.scene import Call, Sections, family
from graders.scenes.small_modules import Fn, callers_hooks, drawn_linear, works_in_place
from graders.wire.draws import Rng


@family(
    sections=(
        "{task}",
        "its own parameters learn from the {gradient} gradient",
        "every pass is {changed}",
        "several inputs and several outputs",
        "the gradient keeps its graph",
        "several modules and several calls",
        "nothing else changes",
        "the handle restores the old behaviour",
    ),
    axes=AXES
    | {
        "kind": ("linear", "chain", "blend", "fork"),
        "number": ("zero", "negative", "fraction", "large"),
        "place": ("leaf", "non-leaf"),
    },
    impossible=[
        lambda kind, frozen: kind == "blend" and frozen == "part",
        # With a full backward hook, PyTorch calls tensor hooks on an unused output with None.
        lambda kind, hooks: kind == "fork" and hooks != "none",
        # A doubled gradient is a new tensor, and no longer a buffer that others share.
        lambda kind, hooks: kind == "blend" and hooks == "replacing",
    ],
)
def changes_what_flows_back(call: Call, rng: Rng, case: Any, seen: Sections, arguments: Arguments) -> None:
    """For a function that changes the gradient that a module gets or sends back, and returns a handle."""
    changed, learned, passes, several, graph, beside, same, handles = seen.values()
    like, lead = {"dtype": case.dtype, "values": case.values}, rng.shape(case.rank - 1)
    module, twin = (freeze_part(a_module(rng, case.kind, case.mode, **like), case.frozen) for _ in range(2))
    if case.grad == "filled":
        fill_grads(module)
    callers_hooks(module, case.hooks)
    data, side, spare = (rng.tensor(*lead, 3, **like) for _ in range(3))
    ups = [rng.tensor(*lead, 3, away=0.75, **like) for _ in range(2)]
    x, b = prepare_tensor(data / 3, grad=case.grad), prepare_tensor(spare)
    ups = ups if case.kind == "blend" else [up[..., :2] for up in ups]
    params = [p for p in module.parameters() if p.requires_grad]
    args, others = (arguments(rng, case, x, []) for _ in range(2))
    before = Witness(module=module, x=x, b=b, ups=ups)
    handle = call(module, *args)
    same["changed"] = [change for change in before.changes() if change[0] != "hook-left"]
    same["an in-place layer of another model works"] = works_in_place()

    def outs(x: Tensor, b: Tensor = b, module: nn.Module = module) -> tuple[Tensor, ...]:
        out = module(x, b, 1.5, shift=torch.ones_like(x)) if case.kind == "blend" else module(x)
        return out if isinstance(out, tuple) else (out,)

    def loss(up: Tensor) -> Tensor:
        t = 2 * x if case.place == "non-leaf" else x
        return (up * outs(t)[0]).sum() + (side * t).sum()

    def note(where: dict[str, Any], name: str, one: Callable[[], Tensor], *wanted: Tensor, way: str = "plain") -> None:
        """Note the gradient of `x`, or those of `wanted`, in a pass."""
        found = compute_gradients(one, wanted or [x], way, at=params[-1] if params else None)
        where |= {f"{name}{f' {index}' if index else ''}": gradient for index, gradient in enumerate(found)}

    note(changed, "x.grad", lambda: loss(ups[0]), way=case.backward)
    if params:
        note(learned, "the gradient of a parameter", lambda: loss(ups[0]), *params, way=case.backward)
        note(learned, "the same when no input needs one", lambda: (ups[0] * outs(data, spare)[0]).sum(), *params)
    once = loss(ups[1])
    for factor in (0.0, 64.0):
        (found,) = torch.autograd.grad(factor * once, [x], retain_graph=True)
        passes[f"x.grad of one more pass through one graph, with {factor} times the gradient"] = found
    note(passes, "x.grad of two calls in one pass", lambda: loss(ups[0]) + loss(ups[1]))
    if case.kind == "blend":
        note(several, "b.grad", lambda: (ups[0] * outs(x)[0]).sum(), b)
        note(several, "b.grad, when the input before it needs none", lambda: (ups[0] * outs(data)[0]).sum(), b)
    if case.kind == "fork":
        both = lambda: torch.stack([(up * out).sum() for up, out in zip(ups, outs(x))]).sum()  # noqa: E731
        note(several, "x.grad of both outputs", both)
        note(several, "x.grad of the second output alone", lambda: (ups[1] * outs(x)[1]).sum())
    halves, v = Fn(lambda module, x: x.chunk(2, -1)), rng.tensor(3, 4).requires_grad_()
    of_halves, shares = call(halves, *args), (rng.tensor(3, 2), rng.tensor(3, 2))
    split = lambda: torch.stack([(share * out).sum() for share, out in zip(shares, halves(v))]).sum()  # noqa: E731
    note(several, "the gradient of the input below two outputs of one operation", split, v)
    neighbour, later = torch.zeros_like(ups[0]).requires_grad_(), torch.ones_like(ups[0]).requires_grad_()
    apart = -neighbour  # it gets the same buffer, after the module
    torch.autograd.backward(outs(x)[0] + apart, grad_tensors=ups[0], inputs=[x, neighbour])
    same["the gradient of a neighbour"], same["the output"] = neighbour.grad, detached_copy(outs(x)[0])
    note(same, "the gradient of a later layer", lambda: (ups[0] * later * outs(x)[0]).sum(), later)
    with torch.no_grad():
        same["the output under no_grad"] = outs(x)[0]
        surroundings = Witness(twin=twin)
        of_twin = call(twin, *others)
        same["changed under no_grad"] = [change for change in surroundings.changes() if change[0] != "hook-left"]
    note(beside, "x.grad below two modules", lambda: (ups[0] * (outs(x)[0] - outs(x, b, twin)[0])).sum())
    second = call(module, *others)
    note(beside, "x.grad after a second call", lambda: loss(ups[0]))
    tanh, t = nn.Tanh(), rng.tensor(3, low=-0.5, high=0.5, **like).requires_grad_()
    of_tanh = call(tanh, *args)
    same["the output of tanh of data requires grad"] = tanh(data).requires_grad
    # Two smaller than every bound, and one larger. None is 0, where the derivatives of right answers differ.
    numbers = [-rng.uniform(0.125, 0.375), rng.uniform(0.125, 0.375), -rng.uniform(4, 8)]
    up = torch.tensor(numbers, dtype=t.dtype).requires_grad_()
    (again,) = torch.autograd.grad((up * tanh(t)).sum(), t, create_graph=True)
    graph["the gradient below tanh, differentiated"] = (
        torch.autograd.grad(again.sum(), up)[0] if again.requires_grad else None
    )
    of_others = (of_twin, of_tanh, of_halves)
    for name, one in (("of the second call", second), ("of other modules", of_others), ("", handle)):
        each = one if isinstance(one, tuple) else (one,)
        handles[f"what was returned has remove() {name}"] = [remove_handle(part) for part in each]
        note(handles, f"x.grad after remove() {name}", lambda: loss(ups[0]))
    if params:
        note(handles, "the gradient of a parameter after remove()", lambda: loss(ups[0]), *params)
    handles["changed after remove()"] = [change for change in before.changes() if not change[0].startswith("grad-")]


def a_module(rng: Rng, kind: str, mode: str, **like: Any) -> nn.Module:
    """A module of this kind: a layer, a chain, one with several inputs and a parameter, or one with two outputs."""
    layers = [drawn_linear(rng, 3, outs, **like) for outs in (3, 2)]
    weight = nn.Parameter(rng.tensor(3, **like))
    if kind == "blend":
        return Fn(
            lambda module, a, b, k, shift: a + 8 * float(type(k) is float) * module.weight * b + shift, weight=weight
        ).train(mode == "train")
    if kind == "chain":
        chain = nn.Sequential(layers[0], nn.Tanh(), layers[1]).train(mode == "train")
        chain[1].train(mode != "train")  # not in the mode of the others
        return chain
    if kind == "fork":
        return Fn(lambda module, x: (3 * torch.tanh(module.fc(x)), 5 * x[..., :2]), fc=layers[1]).train(mode == "train")
    return layers[1].train(mode == "train")
