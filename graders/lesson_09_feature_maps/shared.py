"""What probes of several exercises of lesson 9 use, beside the learner's code."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from graders.authoring import snapshot


class Kept:
    """The parameters of a model, each with a `.grad` of ones, and what they have to be later."""

    def __init__(self, model: nn.Module) -> None:
        """Fill `.grad`, and copy the values."""
        self.parameters = [(parameter, snapshot(parameter)) for parameter in model.parameters()]
        for parameter, _ in self.parameters:
            parameter.grad = torch.ones_like(parameter)

    def holds(self) -> bool:
        """Whether values, dtypes, `requires_grad` and `.grad` are still the same."""
        return all(
            now.requires_grad and now.dtype == before.dtype and torch.equal(now, before)
            and now.grad is not None and torch.equal(now.grad, torch.ones_like(before))
            for now, before in self.parameters
        )  # fmt: skip


def plain_dict(value: Any) -> Any:
    """An OrderedDict or another kind of dict as a plain one; any other value as it is."""
    return dict(value) if isinstance(value, dict) else value
