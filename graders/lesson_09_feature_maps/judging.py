"""What several exercises of lesson 9 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import Mistake, Seen


def normalized(fm: Tensor) -> Tensor:
    """The formula, in float64: each channel from 0 to 1, a constant one 0."""
    fm = fm.double()
    low, high = fm.amin((1, 2), keepdim=True), fm.amax((1, 2), keepdim=True)
    span = high - low
    return torch.where(span > 0, (fm - low) / torch.where(span > 0, span, torch.ones_like(span)), 0.0).float()


def another_array(name: str) -> Mistake:
    """An array that is right, but for its dtype."""

    def recognised(seen: Seen) -> bool:
        found = seen[name].tensor
        return found is not None and seen[name].value.kind == "array" and found.dtype != torch.float32

    return Mistake(
        "not-float32",
        recognised,
        "Your array has another dtype than float32. A new array of numpy is float64 unless you say `dtype=np.float32`; "
        "`.astype(np.float32)` converts one.",
    )


SHARED = (
    "When the caller's tensor changed, an array that you had returned changed, too: they share their memory. "
    "`.numpy()` copies nothing; add `.copy()`."
)
