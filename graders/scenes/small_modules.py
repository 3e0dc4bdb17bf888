"""Small modules with given numbers, and what is looked at in scenes of module hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.callers_hooks import FACTOR, CallersHooks, times
from graders.box.probing import snapshot
from graders.wire.draws import Rng


class Fn(nn.Module):
    """A module that computes `function(module, *inputs)`."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        """`parts` are its submodules, parameters or attributes."""
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns."""
        return self.function(self, *args, **kwargs)


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A linear layer with copies of these parameters."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    layer.weight, layer.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
    return layer


def drawn_linear(rng: Rng, ins: int, outs: int, **like: Any) -> nn.Linear:
    """A linear layer whose parameters are drawn; small ones, so that a tanh behind it is not flat."""
    return linear(*(rng.tensor(*shape, low=-1, high=1, **like) for shape in ((outs, ins), (outs,))))


def a_gate(weight: Tensor) -> nn.Module:
    """A module through which no gradient ever comes to the input, also if that requires grad."""
    return Fn(lambda module, x: module.weight * (x > 0), weight=nn.Parameter(weight.clone()))


def callers_hooks(module: nn.Module, hooks: str) -> None:
    """Hooks of the caller on a module and on its parameters; one that replaces doubles the gradients sent back, too."""
    callers = CallersHooks(hooks).on_module(module, "module", backward=True)
    for name, p in module.named_parameters():
        if p.requires_grad:
            callers.on_parameter(p, name)
    if hooks == "replacing":
        module.register_full_backward_hook(lambda module, grad_input, grad_output: times(grad_input, FACTOR))


def copied(value: Any) -> Any:
    """Lists, tuples and dicts with copies of the tensors in them; of other values themselves."""
    if isinstance(value, dict):
        return {key: copied(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return (tuple if isinstance(value, tuple) else list)(copied(entry) for entry in value)
    return snapshot(value)


def shallow(value: Any) -> Any:
    """A dict or tuple with the same tensors as it holds now; any other value as it is."""
    if isinstance(value, dict):
        return {key: shallow(entry) for key, entry in value.items()}
    return tuple(value) if isinstance(value, tuple) else value


def works_in_place() -> bool:
    """Whether an in-place layer of another model works. It does not beside a full backward hook for all modules."""
    try:
        with torch.enable_grad():
            nn.Sequential(nn.Linear(1, 1), nn.ReLU(inplace=True))(torch.ones(1, 1))
    except RuntimeError:
        return False
    return True
