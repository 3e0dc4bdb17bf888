"""What several exercises of lesson 8 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def plain_grads(model: nn.Module, x: Tensor, needs: bool) -> dict[str, Tensor]:
    """The gradients of `model(x).sum()` for the parameters, and for "x" if it requires grad; not what gets none."""
    x = x.detach().clone().requires_grad_(needs)
    wanted: dict[str, Tensor] = {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    if needs:
        wanted["x"] = x
    found = torch.autograd.grad(model(x).sum(), list(wanted.values()), allow_unused=True)
    return {name: gradient for name, gradient in zip(wanted, found) if gradient is not None}
