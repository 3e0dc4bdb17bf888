"""What 07-activation-grad uses beside the learner's code."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import FACTOR


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A linear layer with these parameters."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    layer.weight, layer.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
    return layer


def listed(value: Any) -> str:
    """What is in tensors and dicts, as text, in which nan is equal to nan."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(listed, value))}]"
    return str(value.tolist() if isinstance(value, Tensor) else value)


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


def differ(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors of equal shape can be told apart."""
    return bool((first - second).abs().max() > 0.05)


def times(hooks: str) -> float:
    """By what a hook of the caller multiplies."""
    return FACTOR if hooks == "replacing" else 1.0
