"""A module made from a function, and drawn parameters, for scenes about module hooks."""

from collections.abc import Callable
from typing import Any

from torch import nn

from graders.wire.draws import Rng


class Fn(nn.Module):
    """A module whose forward pass is `function(module, *inputs)`."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        """`parts` are its submodules, parameters or attributes."""
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function."""
        return self.function(self, *args, **kwargs)


def draw_parameters(model: nn.Module, rng: Rng, **like: Any) -> None:
    """Fill all parameters with drawn numbers; `like` goes to `rng.tensor`."""
    for parameter in model.parameters():
        parameter.data.copy_(rng.tensor(*parameter.shape, **like))
