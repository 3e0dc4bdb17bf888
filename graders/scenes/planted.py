"""Models that are written outside the box, as text, so that nothing in the box says what is wrong with them."""

from typing import Any

import torch
from torch import nn


def written(name: str, text: str, **given: Any) -> Any:
    """What a program, of which this is the text, calls `name`. It has `torch`, `nn` and what is given.

    In a story, its lines are printed in place of the call.
    """
    space = {"__name__": __name__, "torch": torch, "nn": nn, **given}  # its lines are in the way of every exception
    exec(text, space)
    return space[name]
