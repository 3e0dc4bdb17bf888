"""What probes of several exercises of lesson 7 use, beside the learner's code."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import FACTOR, CallersHooks, snapshot, times


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A linear layer with these parameters."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    layer.weight, layer.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
    return layer


def copied(value: Any) -> Any:
    """Lists, tuples and dicts with copies of the tensors in them; a namedtuple as a tuple."""
    if isinstance(value, dict):
        return {key: copied(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return (tuple if isinstance(value, tuple) else list)(copied(entry) for entry in value)
    return snapshot(value)


def listed(value: Any) -> str:
    """What is in tensors and dicts, as text, in which nan is equal to nan."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(listed, value))}]"
    return str(value.tolist() if isinstance(value, Tensor) else value)


def works_in_place() -> bool:
    """Whether an in-place layer of another model works. It does not beside a full backward hook for all modules."""
    try:
        with torch.enable_grad():
            nn.Sequential(nn.Linear(1, 1), nn.ReLU(inplace=True))(torch.ones(1, 1))
    except RuntimeError:
        return False
    return True


class Gate(nn.Module):
    """A module through which no gradient ever comes to the input, also if that requires grad."""

    def __init__(self, weight: Tensor) -> None:
        """A copy of this weight is its parameter."""
        super().__init__()
        self.weight = nn.Parameter(weight.clone())

    def forward(self, x: Tensor) -> Tensor:
        """The weight where `x` is positive, else 0."""
        return self.weight * (x > 0)


class Squashed(nn.Module):
    """A composite: a linear layer, and more operations after it."""

    def __init__(self, fc: nn.Linear) -> None:
        """Around this layer."""
        super().__init__()
        self.fc = fc

    def forward(self, input: Tensor) -> Tensor:
        """Twice the layer's output, through tanh."""
        return torch.tanh(2 * self.fc(input))


class Weighted(torch.autograd.Function):
    """sum(out * buffer) whose backward hands out the buffer itself, not a copy."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, buffer: Tensor) -> Tensor:
        """The weighted sum."""
        ctx.buffer = buffer
        return (out * buffer).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """The gradient of `out`, for a loss that is this sum."""
        return ctx.buffer, None


class Blend(nn.Module):
    """A module with a parameter, two tensors and a number as inputs, and one more that is passed by keyword."""

    def __init__(self, weight: Tensor) -> None:
        """A copy of this weight is its parameter."""
        super().__init__()
        self.weight = nn.Parameter(weight.clone())

    def forward(self, a: Tensor, b: Tensor, k: float, *, shift: Tensor) -> Tensor:
        """The first input, and a multiple of the second, and a shift. The gradient of `a` is that of the output."""
        return a + k * self.weight * b + shift


def made(kind: str, weights: list[Tensor]) -> nn.Module:
    """A module of kind "linear", "chain", "fork", or "blend", whose parameters are copies of these weights.

    The weights have the shapes [3, 4], [2, 4] (the last column is the bias of a layer), and that of one row of the
    input, or [], for "blend".
    """
    lower, upper, row = weights
    layers = [linear(rows[:, :-1], rows[:, -1]) for rows in (lower, upper)]
    if kind == "blend":
        return Blend(row)
    if kind == "chain":
        return nn.Sequential(layers[0], nn.Tanh(), layers[1])
    return Fork(layers[1]) if kind == "fork" else layers[1]


def outputs(module: nn.Module, kind: str, x: Tensor, b: Tensor, k: float) -> tuple[Tensor, ...]:
    """What a module that `made` has made returns for an input of shape [..., 3]. `b` and `k` are for "blend" alone."""
    out = module(x, b, k, shift=torch.ones_like(x)) if kind == "blend" else module(x)
    return tuple(out) if isinstance(out, tuple | list) else (out,)


def callers_hooks(module: nn.Module, hooks: str) -> None:
    """Hooks of the caller on a module and on its parameters; one that replaces doubles the gradients sent back, too."""
    callers = CallersHooks(hooks).on_module(module, "module", backward=True)
    for name, p in module.named_parameters():
        if p.requires_grad:
            callers.on_parameter(p, name)
    if hooks == "replacing":
        module.register_full_backward_hook(lambda module, grad_input, grad_output: times(grad_input, FACTOR))


class Fork(nn.Module):
    """A module with two outputs that do not depend on one another."""

    def __init__(self, fc: nn.Linear) -> None:
        """Around this layer."""
        super().__init__()
        self.fc = fc

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's output, and five times the input."""
        return self.fc(x), 5 * x
