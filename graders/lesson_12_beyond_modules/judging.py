"""What several exercises of lesson 12 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

import torch
from torch import Tensor


def given(tensor: Tensor | None) -> Tensor:
    """The tensor; an empty one for None, which nothing equals."""
    return torch.empty(0) if tensor is None else tensor
