"""What probes of several exercises of lesson 6 use, beside the learner's code."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import Boom, CallersHooks, expecting_boom, gradients, module_hooks, snapshot


def pulled_back(output: Any, up: Tensor, leaf: Tensor) -> Tensor | None:
    """The gradient that comes to `leaf` when `output` receives `up`; None when none comes."""
    if not isinstance(output, Tensor) or not output.requires_grad or output.shape != up.shape:
        return None
    leaf.grad = None
    output.backward(gradient=up)
    return leaf.grad


def layer(kind: str, weight: Tensor) -> nn.Module:
    """A module that maps three numbers to three numbers."""
    if kind == "linear":
        made = nn.Linear(3, 3, bias=False)
        made.load_state_dict({"weight": weight})
        return made
    return {"sigmoid": nn.Sigmoid, "tanh": nn.Tanh}[kind]()


def layer_of(layers: str, weight: Tensor, rank: int) -> nn.Module:
    """A "linear" layer, a "convolution" of tensors with `rank` dimensions, or an "activation", a sigmoid."""
    if layers == "activation":
        return nn.Sigmoid()
    size = len(weight)
    kind: Any = {"linear": nn.Linear, "convolution": nn.Conv2d if rank == 4 else nn.Conv1d}[layers]
    made = kind(size, size, bias=False) if layers == "linear" else kind(size, size, 1, bias=False)
    made.weight = nn.Parameter(weight.detach().clone().view_as(made.weight))
    return made


def callers_hooks(module: nn.Module, hooks: str, name: str = "module") -> CallersHooks:
    """The caller's hooks on a module. Those that replace make `FACTOR * output + 1` of an output.

    Neither a multiplication nor zeros may come before that or after it with the same result.
    """
    callers = CallersHooks(hooks).on_module(module, name)
    if hooks == "replacing":
        callers.handles.append(module.register_forward_hook(lambda module, args, output: output + 1))
    return callers


def gradients_at(
    leaves: list[Tensor], call: Callable[[], Any], up: Tensor, backward: str = "plain"
) -> list[Tensor | None]:
    """The gradients that come to the leaves when the output of `call()` receives `up`; None when none comes."""
    output = call()
    if not isinstance(output, Tensor) or not output.requires_grad or output.shape != up.shape:
        return [None for _ in leaves]
    return gradients(lambda: (call() * up).sum(), leaves, backward)


def arrived(received: tuple[tuple[Any, ...], dict[str, Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """How these arguments of a caller came to `forward`, which received those: "as passed", or one of `NOT_ARRIVED`."""
    found, keywords = received
    if len(found) < len(args):
        return "positional lost"
    if not kwargs.keys() <= keywords.keys():
        return "keywords lost"
    if len(found) > len(args) or keywords.keys() > kwargs.keys():
        return "more"
    same = all(one is other for one, other in zip(found, args)) and all(keywords[key] is kwargs[key] for key in kwargs)
    return "as passed" if same else "others"


def raising(*_: Any) -> None:
    """A hook that fails."""
    raise Boom


PLACES = ("entry", "conv1", "act1", "block", "mid", "act3", "head")
"""The modules at the top level of `TwoPath`; `block` holds `conv2` and `act2`."""


class TwoPath(nn.Module):
    """A small image model with a skip connection, in-place activations, and names from the draw.

    entry -> conv1 -> act1 -> h;  h + block(h), averaged over space -> mid -> act3 -> head
    """

    def __init__(self, names: dict[str, str], order: list[str], weights: dict[str, Tensor]) -> None:
        """`names` maps places to module names; modules are defined in `order`, which is not that of execution."""
        super().__init__()
        conv1, conv2 = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        mid, head = nn.Linear(4, 4), nn.Linear(4, 3)
        for place, module in {"conv1": conv1, "conv2": conv2, "mid": mid, "head": head}.items():
            module.load_state_dict({"weight": weights[place], "bias": weights[place + ".bias"]})
        act2 = nn.LeakyReLU(0.25, inplace=True)
        parts = {
            "entry": nn.Dropout(0.5),
            "conv1": conv1,
            "act1": nn.LeakyReLU(0.5, inplace=True),
            "block": nn.Sequential(OrderedDict([(names["conv2"], conv2), (names["act2"], act2)])),
            "mid": mid,
            "act3": nn.LeakyReLU(0.125),
            "head": head,
        }
        for place in order:
            self.add_module(names[place], parts[place])
        self.places = dict(names)
        self.fuse: bool | Tensor = False

    def forward(self, x: Tensor) -> Tensor:
        """Scores, one row for each image; raises `Boom` shortly before the end when the fuse is set.

        A fuse may be an image: then it raises only when this image is among those in `x`.
        """
        entry, conv1, act1, block, mid, act3, head = (self.get_submodule(self.places[place]) for place in PLACES)
        burns = any(torch.equal(image, self.fuse) for image in x) if isinstance(self.fuse, Tensor) else self.fuse
        h = act1(conv1(entry(x)))
        h = act3(mid((h + block(h)).mean((2, 3))))
        if burns:
            raise Boom
        return head(h)


def two_path(net: dict[str, Any]) -> TwoPath:
    """The model of a draw. `entry` is a Dropout in eval mode: it hands on the very tensor that it gets."""
    model = TwoPath(net["names"], net["order"], net["weights"])
    model.train(net["train"])
    model.get_submodule(net["names"]["entry"]).eval()
    return model


def dotted(net: dict[str, Any], place: str) -> str:
    """The module name of a place, as `named_modules` gives it."""
    names = net["names"]
    return f"{names['block']}.{names[place]}" if place in ("conv2", "act2") else names[place]


def observed(model: TwoPath, name: str, call: Callable[[], Any], x: Tensor) -> dict[str, Any]:
    """What `call()` returns, and what it did to the model: hooks, modes, state, and a plain run afterwards on `x`."""
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    fired: list[int] = []
    model.get_submodule(name).register_forward_hook(lambda *_: fired.append(1))  # one of the caller's
    hooks, modes = module_hooks(model), [module.training for module in model.modules()]
    state = {key: value.clone() for key, value in model.state_dict().items()}
    seen = {"result": call(), "records": torch.is_grad_enabled()}
    torch.set_grad_enabled(True)
    return {
        **seen,
        "caller_fired": bool(fired),
        "hooks_left": module_hooks(model) - hooks,
        "modes_kept": [module.training for module in model.modules()] == modes,
        "weights_kept": all(torch.equal(value, state[key]) for key, value in model.state_dict().items()),
        "trainable": all(p.requires_grad for p in model.parameters()),
        "grads_kept": all(p.grad is not None and bool((p.grad == 1).all()) for p in model.parameters()),
        "later": snapshot(model(x)),
    }


def after_boom(model: TwoPath, call: Callable[[], Any], fuse: bool | Tensor = True) -> dict[str, Any]:
    """Run `call()` with this fuse in the model, and tell what came of it."""
    seen: dict[str, Any] = {}
    hooks, modules = module_hooks(model), list(model.named_modules())
    modes, state = [module.training for _, module in modules], {k: v.clone() for k, v in model.state_dict().items()}
    model.fuse = fuse
    with expecting_boom(seen):
        call()
    records = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    same = list(model.named_modules()) == modules and [module.training for _, module in modules] == modes
    return {
        **seen,
        "hooks_after_exception": module_hooks(model) - hooks,
        "records_after_exception": records,
        "kept_after_exception": same and all(torch.equal(v, state[k]) for k, v in model.state_dict().items()),
    }
