"""The state in which a caller hands over a model."""

from typing import Any

import torch

from graders.scenes.story import Draw, told


@told
def in_its_state(Net: Any, draw: Draw, case: Any) -> Any:
    """A model of a class with a layer `norm`: its dtype, its mode, that layer frozen, or `.grad` filled before."""
    model = Net()
    if draw.is_double:
        model.double()
    if case.mode == "eval":
        model.eval()
    if case.mode == "mixed":
        model.norm.eval()
    if case.odd == "frozen":
        model.norm.requires_grad_(False)
    if case.odd == "filled":
        for p in model.parameters():
            p.grad = torch.ones_like(p)
    return model
