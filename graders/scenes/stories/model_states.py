"""The state in which a caller hands over a model."""

from typing import Any

import torch

from graders.scenes.story import Draw, told


def is_chain(case: Any) -> bool:
    """Whether the model has its layers one after the other, which makes the shortest programs."""
    return "chain" in case.layer


def no_odd_chain(layer: str, odd: str) -> bool:
    """A chain calls its layers with one tensor, and returns what comes out of the last."""
    return "chain" in layer and odd in ("keyword", "tuple", "dict", "unused")


@told
def in_its_state(model: Any, draw: Draw, case: Any) -> Any:
    """Give a model with a layer `norm` its state: its dtype, its mode, that layer frozen, or `.grad` filled before."""
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


@told
def blocks_in_their_state(model: Any, draw: Draw, case: Any) -> None:
    """Give a model with a list `blocks` its state: its dtype, its mode, or `.grad` filled before."""
    if draw.is_double:
        model.double()
    if case.mode == "eval":
        model.eval()
    if case.mode == "mixed":
        model.blocks.eval()
    if case.grad == "filled":
        for p in model.parameters():
            p.grad = torch.ones_like(p)
