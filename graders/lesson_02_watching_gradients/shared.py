"""What probes of several exercises of lesson 2 use, beside the learner's code."""

from __future__ import annotations

from torch import Tensor


def zero_in_place(grad: Tensor) -> None:
    """A hook with bad manners: it overwrites the gradient that it was given."""
    grad.mul_(0)


def plain(value: object) -> object:
    """A plain dict or list of a learner's own subclass; any other value as it is."""
    kind = next((kind for kind in (dict, list) if isinstance(value, kind)), None)
    return value if kind is None else kind(value)
