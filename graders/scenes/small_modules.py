"""A module that is a function."""

from collections.abc import Callable
from typing import Any

from torch import nn


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
