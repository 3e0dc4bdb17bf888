"""What probes of several exercises of lesson 4 use, beside the learner's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import laid_out, snapshot

UNUSUAL = [torch.inf, -torch.inf, torch.nan, 1e-30, 0.0]
"""Gradients that are large, small, and no number at all."""


class Net(nn.Module):
    """Linear layers with tanh between them, some nested, called in another order than they are defined.

    A scale for the input is a parameter of the net itself. With `tied`, the first two layers that are called
    share their weight.
    """

    def __init__(self, layers: dict[str, list[Tensor]], calls: list[str], scale: Tensor, tied: bool) -> None:
        """Copy the weights and biases of `layers`, in the order of their names."""
        super().__init__()
        self.inner = nn.ModuleDict()
        self.calls = [("inner." if list(layers).index(name) % 2 else "") + name for name in calls]
        for index, (name, (weight, bias)) in enumerate(layers.items()):
            layer = nn.Linear(3, 3, dtype=weight.dtype)
            layer.weight, layer.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
            (self.inner if index % 2 else self).add_module(name, layer)
        if tied:
            self.get_submodule(self.calls[1]).weight = self.get_submodule(self.calls[0]).weight
        self.scale = nn.Parameter(scale.clone())

    def forward(self, x: Tensor) -> Tensor:
        """Run `x` of shape [B, 3] through the layers in the order of the calls."""
        h = x * self.scale
        for name in self.calls:
            h = torch.tanh(self.get_submodule(name)(h))
        return h


def lay_out(net: nn.Module, layout: str) -> nn.Module:
    """Every matrix among the parameters lies in memory as `layout` says; one that is tied stays one."""
    made: dict[Tensor, nn.Parameter] = {}
    for module in net.modules():
        for name, p in list(module.named_parameters(recurse=False)):
            if p.dim() == 2:
                made.setdefault(p, nn.Parameter(laid_out(p, layout)))
                setattr(module, name, made[p])
    return net


def loss_of(net: nn.Module, batch: list[Tensor]) -> Tensor:
    """The squared error on a batch of inputs and targets."""
    inputs, targets = batch
    return (net(inputs) - targets).square().sum()


def values_of(net: nn.Module) -> dict[str, Tensor]:
    """A copy of every parameter by name."""
    return {name: snapshot(p) for name, p in net.named_parameters()}


def grads_of(net: nn.Module) -> dict[str, Tensor | None]:
    """A copy of every `.grad` by name."""
    return {name: snapshot(p.grad) for name, p in net.named_parameters()}


def modes_behind(p: Tensor) -> list[bool]:
    """What a hook of the caller, registered behind those that are on `p` already, will find: whether autograd is on."""
    found: list[bool] = []
    p.register_post_accumulate_grad_hook(lambda _: found.append(torch.is_grad_enabled()))
    return found


def none_error(run: Callable[[], Any]) -> str:
    """Run, and answer with the error of a hook that met a `.grad` of None; empty when there was none.

    Two different mistakes end in this error, and where it came up tells them apart. Other errors go on.
    """
    try:
        run()
    except (TypeError, AttributeError) as error:
        if "NoneType" not in str(error):
            raise
        return f"{type(error).__name__}: {error}"[:200]
    return ""
