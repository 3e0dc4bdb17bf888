"""What the wrong programs of several exercises of lesson 7 do."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor


def each(grads: Iterable[Tensor | None], change: Callable[[Tensor], Any]) -> tuple[Any, ...]:
    """A tuple with each gradient changed; `None` stays."""
    return tuple(None if grad is None else change(grad) for grad in grads)


class Handles:
    """The handles of several hooks, as one."""

    def __init__(self, *handles: Any) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove every hook."""
        for handle in self.handles:
            handle.remove()
