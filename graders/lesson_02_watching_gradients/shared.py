"""What probes of several exercises of lesson 2 use, beside the learner's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graders.authoring import gradients, laid_out, prepared, snapshot


def zero_in_place(grad: Tensor) -> None:
    """A hook with bad manners: it overwrites the gradient that it was given."""
    grad.mul_(0)


def plain(value: object) -> Any:
    """A plain dict, list or tuple of a learner's own subclass; any other value as it is."""
    kinds: tuple[type[Any], ...] = (dict, list, tuple)
    kind = next((kind for kind in kinds if isinstance(value, kind)), None)
    return value if kind is None else kind(value)


def leaf_and_tensor(values: Tensor, layout: str, place: str, grad: str) -> tuple[Tensor, Tensor]:
    """A leaf, and the tensor to watch: the leaf itself, or for "non-leaf" one that is computed from it."""
    leaf = prepared(values, layout=layout, place="parameter" if place == "parameter" else "leaf", grad=grad)
    return leaf, leaf.view_as(leaf) if place == "non-leaf" else leaf


def graph_beneath(watch: Callable[[Tensor], object], values: Tensor) -> bool:
    """Whether, with create_graph, the gradient has a graph that goes on from a watched tensor to the leaf beneath."""
    leaf = prepared(values)
    t = leaf * leaf
    _kept = watch(t)
    (grad,) = torch.autograd.grad((t * t).sum(), leaf, create_graph=True)
    return grad.requires_grad


def run_passes(leaf: Tensor, t: Tensor, up: Tensor, layout: str, backward: str) -> dict[str, Any]:
    """Passes that reach `t` in every way, and what flowed on to the leaf: `.grad` after two of them, and so on."""
    (t + 0).backward(laid_out(up, layout))  # it arrives at `t` as it is, in this layout
    (3 * t + t * t).backward(up)
    flow = snapshot(leaf.grad)
    (with_graph,) = torch.autograd.grad((t * t).sum(), t, create_graph=True)
    (cube,) = gradients(lambda: (t**3 / 4).sum(), [leaf], backward)
    (0 * t).sum().backward()
    overwriting = t.register_hook(zero_in_place)
    (t * t * up).sum().backward()
    overwriting.remove()
    return {"leaf.grad": flow, "cube": cube, "graph_flows": with_graph.requires_grad}
