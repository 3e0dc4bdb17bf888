"""What probes of several exercises of lesson 10 use, beside the learner's code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.authoring import CallersHooks, Failure, Witness, fill_grad, fill_grads, freeze_part, in_mode, laid_out

# The net of this lesson: convolutions and activations at several levels, global average pooling, a linear classifier.


class Block(nn.Module):
    """Modules in a ModuleList, one after the other."""

    def __init__(self, parts: list[nn.Module]) -> None:
        """A block of `parts`."""
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        """In the order of the list."""
        for part in self.parts:
            x = part(x)
        return x


class TinyNet(nn.Module):
    """Steps 0 and 1 are children, 2 and 3 are in a custom block, the others in a Sequential.

    With `net["skip"]`, what enters step 1 is also added to what leaves it.
    """

    def __init__(self, net: dict[str, Any]) -> None:
        """`net` as `draw_net` makes it."""
        super().__init__()
        made = [step_module(net, index) for index in range(len(net["steps"]))]
        head = nn.Linear(net["head"].shape[1], net["head"].shape[0], bias=False, dtype=net["head"].dtype)
        head.load_state_dict({"weight": net["head"]})
        self.gain = Gain()
        groups = {"first": made[0], "second": made[1], "block": Block(made[2:4]), "head": head}
        if made[4:]:
            groups["rest"] = nn.Sequential(*made[4:])
        for group in net["order"]:
            if group in groups:
                self.add_module(net["names"][group], groups[group])
        self.names, self.steps, self.skip = net["names"], made, net["skip"]
        self.strike: Callable[[], Any] | None = None
        self.strike_in_backward: Callable[[Any], Any] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[B, 2, H, W] to logits [B, classes]."""
        for group in ("first", "second", "block", "rest"):
            if hasattr(self, self.names[group]):
                given, x = x, self.get_submodule(self.names[group])(x)
                if self.skip and group == "second":
                    x = x + given
        logits: Tensor = self.gain(self.get_submodule(self.names["head"])(x.mean((2, 3))))
        if self.strike:
            self.strike()
        if self.strike_in_backward:
            logits.register_hook(self.strike_in_backward)
        return logits


class Gain(nn.Module):
    """A layer that shows its mode: it doubles in training mode."""

    def forward(self, x: Tensor) -> Tensor:
        """Twice x, or x."""
        return 2 * x if self.training else x


class ReLU(nn.Module):
    """A ReLU that is no module of class `nn.ReLU`, whatever its name."""

    def forward(self, x: Tensor) -> Tensor:
        """A function does it."""
        return F.relu(x)


SIMPLE: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh, "leaky": lambda: nn.LeakyReLU(0.25), "gelu": nn.GELU, "relu6": nn.ReLU6,
    "functional": ReLU, "pool": lambda: nn.MaxPool2d(3, stride=1, padding=1),
}  # fmt: skip
"""Steps without weights that are no ReLU."""


def step_module(net: dict[str, Any], index: int) -> nn.Module:
    """The module of one step."""
    weight, name = net["weights"][index], net["steps"][index]
    if weight is None:
        return SIMPLE[name]() if name in SIMPLE else nn.ReLU(inplace=net["inplace"])
    stride = net["strides"][index]
    made = nn.Conv2d(weight.shape[1], weight.shape[0], 3, stride=stride, padding=1, bias=False, dtype=weight.dtype)
    made.load_state_dict({"weight": weight})
    return made


# What a probe notes beside the result.


def prepare(
    net: dict[str, Any], x: Tensor, *, layout: str, given: str, grad: str, mode: str, frozen: str, hooks: str,
    hooked: str,
) -> tuple[TinyNet, Tensor]:  # fmt: skip
    """A model with hooks of its caller, and an input that is "plain", or "requires grad", or a "non-leaf".

    `net` knows what the gain does in this mode; where modes are mixed, it trains. Hooks on leaves only watch. What is
    transposed has the strides of `torch.channels_last`, in which convolutions go on.
    """
    model = freeze_part(in_mode(TinyNet(net), mode), frozen)
    model.gain.train(mode != "eval")
    CallersHooks(hooks).on_module(*((model, "model") if hooked == "root" else (model.steps[0], "first step")))
    x = x.contiguous(memory_format=torch.channels_last) if layout == "transposed" else laid_out(x, layout)
    if given != "plain":
        x.requires_grad_()
    if given == "non-leaf":
        x = x.view_as(x)
    if grad == "filled":
        fill_grads(model)
        if given == "requires grad":
            fill_grad(x)
    watching = CallersHooks("none" if hooks == "none" else "watching")
    weight = model.get_submodule(net["names"]["head"]).weight
    if weight.requires_grad:
        watching.on_parameter(weight, "head.weight")
    if x.requires_grad:
        watching.on_tensor(x, "x")
    return model, x


def observe(model: TinyNet, x: Tensor, call: Callable[[], Any], **things: Any) -> dict[str, Any]:
    """The result of `call()`, and what it did to the model, to x and to other `things` of the caller."""
    plain, witness = plain_gradient(model, x), Witness(model=model, x=x, **things)
    result = call()
    return {
        "result": result,
        "changed": witness.changes(),
        "works_as_before": torch.equal(plain_gradient(model, x), plain),
    }


def plain_gradient(model: nn.Module, x: Tensor) -> Tensor:
    """The gradient of the model's output with respect to x; it changes nothing."""
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(model(x).square().sum(), x)[0]


def observe_failures(
    model: TinyNet, x: Tensor, failure: str, call: Callable[[], Any], runs: Iterable[str] = ("first",)
) -> dict[str, Any]:
    """What comes through and what is left when the forward pass of a run raises at its end, or the backward pass."""
    plain, seen = plain_gradient(model, x), {}
    for run, place in product(runs, ("forward", "backward")):
        planned, witness = Failure(failure, run), Witness(model=model, x=x)
        model.strike = planned.strike if place == "forward" else None
        model.strike_in_backward = planned.strike if place == "backward" else None
        after = {"raised": planned.during(call), "changed": witness.changes()}
        model.strike = model.strike_in_backward = None
        seen[f"{run} {place}"] = {**after, "works": torch.equal(plain_gradient(model, x), plain)}
    return {"failures": seen}
