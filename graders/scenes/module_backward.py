"""Scenes for functions that register a hook on the backward pass of a module."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import remove_handle
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.models import fill_grads, freeze_part
from graders.scenes.instruments.passes import compute_gradients
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import copy_tensors, shallow_copy, two_parts
from graders.scenes.scene import Call, Sections, Value, family
from graders.scenes.small_modules import Fn, drawn_linear
from graders.wire.draws import Rng

AXES: dict[str, tuple[Value, ...]] = {
    "dtype": ("float32", "float64"),
    "rank": (1, 2, 3),
    "values": ("round", "full"),
    "grad": ("empty", "filled"),
    "mode": ("train", "eval"),
    "frozen": ("nothing", "part"),
    "hooks": ("none", "watching", "replacing"),
    "backward": ("plain", "create_graph", "autograd.grad", "after an aborted one"),
}


@family(
    sections=(
        "the gradients of inputs and outputs are recorded",
        "the latest pass is kept",
        "the entries are copies without a graph",
        "a missing gradient is none",
        "each call has a dict of its own",
        "the gradients stay as they are",
        "the handle ends the watching and nothing else",
    ),
    axes=AXES | {"kind": ("tanh", "composite", "several"), "passing": ("position", "keyword")},
    pairs=[("kind", "passing")],
    impossible=[
        lambda kind, frozen: kind == "tanh" and frozen == "part",
        lambda kind, grad: kind == "tanh" and grad == "filled",  # a tanh has no parameter whose `.grad` could be filled
        # The exception is raised inside the module.
        lambda kind, frozen, backward: backward.startswith("after") and (kind == "tanh" or frozen == "part"),
    ],
)
def watches_a_module(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For a function that returns a handle, and a dict that always holds the gradients of a module's latest pass."""
    recorded, latest, copies, none, own, same, handles = seen.values()
    like = {"dtype": case.dtype, "values": case.values}
    lead, fc = rng.shape(case.rank - 1), drawn_linear(rng, 3, 2, **like)
    data, up = rng.tensor(*lead, 3, low=-1, high=1, **like), rng.tensor(*lead, 3 if case.kind == "tanh" else 2, **like)
    others = {"k": rng.choice((1.5, -2.5)), "side": rng.tensor(*lead, 2, **like)} if case.kind == "several" else {}
    module = freeze_part(a_module(case.kind, fc), case.frozen if case.kind != "tanh" else "nothing")
    module.train(case.mode == "train")
    if case.grad == "filled":
        fill_grads(module)
    params = [p for p in module.parameters() if p.requires_grad]
    CallersHooks(case.hooks).on_module(module, "module", backward=True)
    x = prepare_tensor(data, grad=case.grad)
    before = Witness(module=module, x=x, up=up, others=others)
    result = call(module)
    d, handle = two_parts(result)
    same["changed"] = before.changes()
    recorded["a tuple of a dict and a handle"] = [type(result).__name__, isinstance(d, dict), hasattr(handle, "remove")]
    recorded["the new dict"] = copy_tensors(d)

    def outs(t: Tensor) -> tuple[Any, ...]:
        given = {"input": t, **others} if case.passing == "keyword" else {}
        out = module(**given) if given else module(t, *others.values())
        return out if isinstance(out, tuple) else (out,)

    names = ["the input", *(f"parameter {index}" for index, _ in enumerate(params))]
    inside = params[-1] if params else None
    found = compute_gradients(lambda: (up * outs(x)[0]).sum(), [x, *params], case.backward, at=inside)
    same |= {f"the gradient of {name}": gradient for name, gradient in zip(names, found)}
    recorded["after a pass"] = copy_tensors(d)
    for create_graph in (False, True):
        inner, other_up = 1 * (data / 2).requires_grad_(), (create_graph - 2.0) * up
        inner.register_hook(zero_in_place)  # type: ignore[no-untyped-call]  # of torch
        outs(inner)[0].backward(gradient=other_up, create_graph=create_graph)
        other_up.zero_()
        copies[f"when somebody has written zeros into the gradients, create_graph={create_graph}"] = copy_tensors(d)
    out, again = outs(x)[0], (0.5 * up).requires_grad_()
    for factor in (0.0, 3.0):
        torch.autograd.grad(out, x, grad_outputs=factor * up, retain_graph=True)
        latest[f"after a pass through the same graph with {factor} times the gradient"] = copy_tensors(d)
    (found_again,) = torch.autograd.grad(outs(x)[0], x, grad_outputs=again, create_graph=True)
    copies["under create_graph=True"] = shallow_copy(d)
    has_graph = found_again.requires_grad
    same["differentiated"] = torch.autograd.grad(found_again.sum(), again)[0] if has_graph else None
    if case.kind == "several":
        torch.autograd.backward(outs(x)[:2], [up, x.detach()])
        none["when the loss uses two outputs"] = copy_tensors(d)
    if params:
        outs(data.detach())[0].backward(gradient=up)
        none["when no input needs a gradient"] = copy_tensors(d)

    held, z, total = shallow_copy(d), rng.tensor(2, **like).requires_grad_(), Fn(lambda module, a, b: a + b)
    with torch.no_grad():
        surroundings = Witness()
        of_sum, _kept = two_parts(call(total))
        same["changed under no_grad"] = surroundings.changes()
    (3 * total(1 * z, 2 * z)).sum().backward()
    own["of another module"] = copy_tensors(of_sum)
    own["of the first one, meanwhile"] = [copy_tensors(held), copy_tensors(d)]
    second, second_handle = two_parts(call(module))
    own["of a second call, at first"] = copy_tensors(second)
    for name, factor, where, going in (
        ("with two hooks", 2.0, own, handle),
        ("after remove() of the first", -1.0, handles, second_handle),
        ("after remove() of both", 0.5, handles, None),
    ):
        torch.autograd.grad(outs(x)[0], x, grad_outputs=factor * up)
        where[f"the dicts {name}"] = [copy_tensors(d), copy_tensors(second)]
        if going is not None or factor != 0.5:
            handles[f"what was returned has remove(), {name}"] = remove_handle(going)
    handles["changed after remove()"] = [change for change in before.changes() if not change[0].startswith("grad-")]


def a_module(kind: str, fc: nn.Linear) -> nn.Module:
    """A tanh, operations around a layer, or a module with three inputs and three outputs, two of each tensors."""
    if kind == "tanh":
        return nn.Tanh()
    if kind == "composite":
        return Fn(lambda module, input: torch.tanh(2 * module.fc(input)), fc=fc)
    return Fn(lambda module, input, k, side: (k * module.fc(input) + side, 5 * input, "a text"), fc=fc)


def zero_in_place(grad: Tensor) -> None:
    """A badly behaved hook: it overwrites the gradient that it was given, behind autograd's back."""
    grad.detach().zero_()
