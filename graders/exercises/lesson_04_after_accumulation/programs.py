"""What the wrong programs of several exercises of lesson 4 do."""

from collections.abc import Callable, Iterable
from typing import Any


def hooked(params: Iterable[Any], use: Callable[[Any], object]) -> list[Any]:
    """The handles of a post-accumulate-grad hook on each parameter that calls `use`, and returns nothing."""

    def hook(p: Any) -> None:
        use(p)

    return [p.register_post_accumulate_grad_hook(hook) for p in params]
