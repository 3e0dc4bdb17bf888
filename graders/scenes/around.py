"""What varies around a tensor of a caller: the tensor itself, what exists beforehand, and the kinds of passes."""

from collections.abc import Callable

import torch
from torch import Tensor

from graders.scenes.scene import Value

AXES: dict[str, tuple[Value, ...]] = {
    "dtype": ("float32", "float64"),
    "rank": (0, 1, 2, 3),
    "values": ("round", "full"),
    "place": ("leaf", "non-leaf", "parameter"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching", "replacing"),
}
"""The axes that describe a tensor and what exists beforehand."""
NUMBERS = ("zero", "negative", "fraction", "large")
PASSES = ("plain", "create_graph", "autograd.grad", "after an aborted one")
"""The ways to run a pass with `graders.scenes.instruments.passes.compute_gradients`."""


def second_gradient(loss: Callable[[], Tensor], x: Tensor, k: Tensor) -> Tensor | None:
    """The gradient with respect to `k` of the sum of d loss() / d x; None if the latter has no graph."""
    k.requires_grad_()
    (found,) = torch.autograd.grad(loss(), x, create_graph=True, allow_unused=True)
    has_graph = found is not None and found.requires_grad
    again = torch.autograd.grad(found.sum(), k, allow_unused=True)[0] if has_graph else None
    k.requires_grad_(False)
    return again
