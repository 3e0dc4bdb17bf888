"""What probes of several exercises of lesson 7 use, beside the learner's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import Boom, snapshot


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A linear layer with these parameters."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer


def copied(value: Any) -> Any:
    """Lists, tuples and dicts with copies of the tensors in them; a namedtuple as a tuple."""
    if isinstance(value, dict):
        return {key: copied(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return (tuple if isinstance(value, tuple) else list)(copied(entry) for entry in value)
    return snapshot(value)


class Gate(nn.Module):
    """A module through which no gradient ever comes to the input, also if that requires grad."""

    def __init__(self, weight: Tensor) -> None:
        """A copy of this weight is its parameter."""
        super().__init__()
        self.weight = nn.Parameter(weight.clone())

    def forward(self, x: Tensor) -> Tensor:
        """The weight where `x` is positive, else 0."""
        return self.weight * (x > 0)


def settings(model: nn.Module, x: Tensor) -> list[Any]:
    """The modes and flags of the modules, and what requires grad."""
    flags = [(module.training, getattr(module, "inplace", None)) for module in model.modules()]
    return [flags, x.requires_grad, [parameter.requires_grad for parameter in model.parameters()]]


def raise_boom(*args: Any) -> None:
    """A loss, a model or a hook that fails."""
    raise Boom


def noting_errors(scenario: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """What `scenario` saw, or the text of the exception that ended it: later scenarios still run."""
    try:
        return scenario(*args)
    except NotImplementedError:
        raise
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


class Squashed(nn.Module):
    """A composite: a linear layer, and more operations after it."""

    def __init__(self, fc: nn.Linear) -> None:
        """Around this layer."""
        super().__init__()
        self.fc = fc

    def forward(self, input: Tensor) -> Tensor:
        """Twice the layer's output, through tanh."""
        return torch.tanh(2 * self.fc(input))


class Fork(nn.Module):
    """A module with two outputs that do not depend on one another."""

    def __init__(self, fc: nn.Linear) -> None:
        """Around this layer."""
        super().__init__()
        self.fc = fc

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's output, and five times the input."""
        return self.fc(x), 5 * x
