"""What several exercises of lesson 8 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def plain_grads(model: nn.Module, x: Tensor, grad: bool) -> dict[str, Tensor]:
    """The gradients of `model(x).sum()` for the trainable parameters, and for "x" when it requires grad."""
    x = x.detach().clone().requires_grad_(grad)
    wanted = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if grad:
        wanted["x"] = x
    return dict(zip(wanted, torch.autograd.grad(model(x).sum(), list(wanted.values()))))
