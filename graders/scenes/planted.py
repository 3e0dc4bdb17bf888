"""Models that are written outside the box, as text, so that nothing in the box says what is wrong with them."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def defined_in(text: str, **given: Any) -> dict[str, Any]:
    """What a program defines that may use `torch`, `nn`, `F` and the names in `given`."""
    space = {"torch": torch, "nn": nn, "F": F, **given}
    exec(text, space)
    return space
