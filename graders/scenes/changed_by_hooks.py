"""Models with hooks of every kind, of which some change gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.callers_hooks import CallersHooks
from graders.scenes.names_parameters import Hooked, Step, Stream
from graders.wire.draws import Rng

Block = Any
"""Two linear layers in a row."""


def times(factor: float) -> Callable[..., Any]:
    """A hook of any kind but a forward hook: what it gets, multiplied."""

    def hook(*args: Any) -> Any:
        given = args[-1] if len(args) < 3 else args[1]
        return tuple(part * factor for part in given) if isinstance(given, tuple) else given * factor

    return hook
