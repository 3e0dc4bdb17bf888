"""What `graders.scenes.low_rank` sees of a transformer whose computation a function changes."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import detached_copy
from graders.probing.known_state import seed_torch

AXES = {
    "dtype": ("float32", "float64"),
    "heads": (2, 3, 1),
    "blocks": (2, 3, 1),
    "output": ("tuple", "tensor", "tuple of one"),
    "mode": ("eval", "train", "mixed"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching", "replacing"),
}


class OutputKeeper:
    """A hook of the caller that keeps a module's output tensor itself, and remembers its values."""

    def __init__(self, module: nn.Module) -> None:
        """Register the hook on a module."""
        self.kept: list[tuple[Tensor, Tensor]] = []
        module.register_forward_hook(self)

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        """Keep the output, or the first entry if it is a tuple."""
        given = output[0] if isinstance(output, tuple) else output
        self.kept.append((given, detached_copy(given)))

    def was_overwritten(self) -> bool:
        """Whether one of the kept tensors has changed since."""
        return any(not torch.equal(given, then) for given, then in self.kept)


def compute_logits(model: nn.Module, tokens: Tensor) -> Any:
    """The output of the model, computed without a graph and with a fixed random state."""
    seed_torch(0)
    return detached_copy(model(tokens))


def logit_gradients(model: nn.Module, tokens: Tensor, up: Tensor, *parameters: Tensor) -> list[Tensor | None]:
    """The gradients of these parameters when the logits receive `up`; None for a parameter without one."""
    seed_torch(0)
    with torch.enable_grad():
        given = model(tokens)
    asked = [p for p in parameters if p.requires_grad] if given.requires_grad else []
    found = dict(zip(asked, torch.autograd.grad(given, asked, up, allow_unused=True) if asked else []))
    return [found.get(p) for p in parameters]


def without_kinds(changes: list[list[str]], *expected: str) -> list[list[str]]:
    """The changes that a witness reported, without these expected kinds."""
    return [change for change in changes if change[0] not in expected]
