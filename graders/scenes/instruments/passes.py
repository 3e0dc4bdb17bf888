"""Run backward passes in every way that a caller may."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Aborted(Exception):
    """Raised to abort a pass on purpose."""


def compute_gradients(
    loss: Callable[[], Tensor], inputs: Sequence[Tensor], way: str = "plain", at: Tensor | nn.Module | None = None
) -> list[Tensor | None]:
    """Return copies of the gradients of `loss()` with respect to `inputs`, which are leaves; None for an unused one.

    "plain" and "create_graph" call `backward()`, "autograd.grad" calls `torch.autograd.grad`. "after an aborted one"
    first runs a pass that ends in an exception at `at`, then a plain one. By default `at` is the first input, since all
    hooks on the way there have been called by then. The `.grad` of the inputs is restored.
    """
    if way == "after an aborted one":
        run_aborted_pass(loss, inputs[0] if at is None else at)
    if way == "autograd.grad":
        found = torch.autograd.grad(loss(), list(inputs), allow_unused=True)
        return [None if grad is None else grad.detach().clone() for grad in found]
    with isolated_grads(inputs):
        torch.autograd.backward(loss(), create_graph=way == "create_graph")
        return [None if t.grad is None else t.grad.detach().clone() for t in inputs]


def run_aborted_pass(loss: Callable[[], Tensor], at: Tensor | nn.Module) -> None:
    """Run a pass that ends in an exception at `at`: at a tensor the backward pass, at a module the forward pass."""
    with aborting_passes(at), contextlib.suppress(Aborted):
        torch.autograd.backward(loss())


@contextlib.contextmanager
def aborting_passes(at: Tensor | nn.Module) -> Iterator[None]:
    """Inside, the gradient of `at`, if it is a tensor, or its call, if it is a module, raises `Aborted`."""
    register: Any = at.register_hook if isinstance(at, Tensor) else at.register_forward_pre_hook
    handle = register(_raise_aborted)
    try:
        yield
    finally:
        handle.remove()


def _raise_aborted(*args: object) -> None:
    raise Aborted


@contextlib.contextmanager
def isolated_grads(inputs: Sequence[Tensor]) -> Iterator[None]:
    """Inside, `.grad` of the inputs starts as None; afterwards it is what it was before."""
    before = [t.grad for t in inputs]
    for t in inputs:
        t.grad = None
    try:
        yield
    finally:
        for t, grad in zip(inputs, before):
            t.grad = grad


def grad_mode(value: str) -> contextlib.AbstractContextManager[object]:
    """Return a context with grad mode "on", or "off" as under `torch.no_grad()`."""
    return torch.enable_grad() if value == "on" else torch.no_grad()
