"""Make tensors as a caller may have them: in every layout, leaf or not, with a gradient already in `.grad`."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def with_layout(t: Tensor, layout: str) -> Tensor:
    """Return a copy without a graph, of the same shape, dtype and values, that lies in memory as `layout` says.

    "contiguous" is the ordinary order, "transposed" has the dimensions in reverse order, and "slice" is every second
    entry of a larger tensor, not from its start. "expanded" has one memory cell for all entries along the first
    dimension, which must be equal.
    """
    t = t.detach().clone(memory_format=torch.contiguous_format)
    if layout == "transposed":
        backwards = tuple(reversed(range(t.dim())))
        return t.permute(backwards).contiguous().permute(backwards)
    if layout == "slice":
        wide = torch.full((*t.shape[:-1], 2 * t.shape[-1] + 1) if t.dim() else (3,), 99.0, dtype=t.dtype)
        part = wide[..., 1::2] if t.dim() else wide[1]
        return part.copy_(t)
    if layout == "expanded":
        return t[:1].clone().expand(t.shape)
    return t


def prepare_tensor(
    t: Tensor, *, layout: str = "contiguous", place: str = "leaf", grad: str = "empty", old: float = 0.7
) -> Tensor:
    """Return a tensor with the values of `t` that requires grad: a "leaf", a "parameter", or a "non-leaf".

    With `grad="filled"`, a leaf's `.grad` holds `old` everywhere; float32 cannot hold the default exactly.
    """
    values = with_layout(t, layout)
    if place == "non-leaf":
        return values.requires_grad_().view_as(values)
    placed = nn.Parameter(values) if place == "parameter" else values.requires_grad_()
    if grad == "filled":
        fill_grad(placed, old)
    return placed


def fill_grad(t: Tensor, old: float = 0.7) -> Tensor:
    """Put a tensor full of `old` into `t.grad`, and return it."""
    t.grad = torch.full(t.shape, old, dtype=t.dtype)
    return t.grad
