"""What programs do around the passes that they run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def everything_kept(model: nn.Module, x: Tensor) -> Iterator[None]:
    """Afterwards buffers, and `.grad` of all leaves, are as before."""
    leaves = [*model.parameters(), x]
    grads = [leaf.grad for leaf in leaves]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for leaf, grad in zip(leaves, grads):
            leaf.grad = grad
        with torch.no_grad():
            for buffer, old in buffers:
                buffer.copy_(old)
