"""What several exercises of lesson 2 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from torch import Tensor

from graders.authoring import FACTOR

NONE_HAS_NO_GRADIENT = tuple(f"'NoneType' object has no attribute '{name}'" for name in ("clone", "detach", "data"))
"""What Python says when a hook reads `.grad` before it is written, and wants to copy it."""

LEFT_AFTER_EXCEPTION = (
    "Something raised an exception, and your `remove()` was skipped. Put it into `finally`, or use the handle as a "
    "context manager: `with tensor.register_hook(...):`."
)
SWITCHED_OFF = (
    "with create_graph=True the gradient of the tensor that `t` was computed from had no graph: your hook left grad "
    "mode switched off"
)
OLD = 0.7
"""What `.grad` holds beforehand in each entry, where it is filled."""


def digits(dtype: str, values: str) -> str:
    """Numbers of float64 use all their digits in every case: what rounds them to float32 on the way is seen."""
    return "full" if dtype == "float64" else values


def factor(hooks: str) -> float:
    """What the caller's hooks on a tensor multiply its gradient by."""
    return FACTOR if hooks == "replacing" else 1.0


def arriving(t: Tensor, up: Tensor, hooks: str, backward: str) -> list[Tensor]:
    """What arrives at `t` in each of the passes of `run_passes`, in closed form."""
    cube = 0.75 * t * t
    cubes = [cube, cube] if backward == "after an aborted one" else [cube]
    return [factor(hooks) * gradient for gradient in (up, (3 + 2 * t) * up, 2 * t, *cubes, 0 * t, 2 * t * up)]


def without_zeros(gradients: list[Tensor]) -> list[Tensor]:
    """Those gradients that have an entry other than 0."""
    return [gradient for gradient in gradients if gradient.any()]


def flowing(t: Tensor, up: Tensor, grad: str, hooks: str) -> Tensor:
    """What `.grad` of the leaf holds after the first two of the passes of `run_passes`."""
    old = OLD if grad == "filled" else 0.0
    return old + factor(hooks) * (up + (3 + 2 * t) * up)
