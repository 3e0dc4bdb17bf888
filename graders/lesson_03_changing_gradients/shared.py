"""What probes of several exercises of lesson 3 use, beside the learner's code."""

from __future__ import annotations

from torch import Tensor


def scene(x: Tensor, other: Tensor, leaf: bool) -> tuple[Tensor, Tensor]:
    """A tensor `t`, which is `x` or `2 * x`, and a neighbour that is `3 * other`.

    The neighbour is made first. Backward reaches it after `t`, so a buffer that they share shows what a hook on
    `t` did to it.
    """
    x.requires_grad_()
    other.requires_grad_()
    neighbour = 3 * other
    return (x if leaf else 2 * x), neighbour
