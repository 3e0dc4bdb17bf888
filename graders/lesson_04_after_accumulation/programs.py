"""What the wrong programs of several exercises of lesson 4 do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor


def hooked(params: Iterable[Tensor], use: Callable[[Tensor], object]) -> list[Any]:
    """The handles of a post-accumulate-grad hook on each parameter that calls `use`, and returns nothing."""

    def hook(p: Tensor) -> None:
        use(p)

    registers: list[Any] = [p.register_post_accumulate_grad_hook for p in params]  # torch leaves it untyped
    return [register(hook) for register in registers]
