"""Backward passes, in every way in which a caller may run one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Aborted(Exception):
    """The exception by which a backward pass is aborted on purpose."""


def compute_gradients(
    loss: Callable[[], Tensor], inputs: Sequence[Tensor], way: str = "plain", at: Tensor | nn.Module | None = None
) -> list[Tensor | None]:
    """The gradients of `loss()` with respect to `inputs`, leaves, by one pass run in one of four ways; as copies.

    "plain" and "create_graph" call `backward()`, and "autograd.grad" `torch.autograd.grad`. "after an aborted one" runs
    a pass that ends in an exception at `at` (the first input, if not given: there, all hooks in between have been
    called), and then a plain one. What `.grad` of the inputs held before is put back.
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
    """A backward pass (for a tensor), or a forward pass (for a module), that ends in an exception at `at`."""
    with aborting_passes(at), contextlib.suppress(Aborted):
        torch.autograd.backward(loss())


@contextlib.contextmanager
def aborting_passes(at: Tensor | nn.Module) -> Iterator[None]:
    """Inside, the gradient of a tensor, or a call of a module, raises `Aborted`."""
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
    """Inside, `.grad` of the inputs starts with None; afterwards it is what it was before."""
    before = [t.grad for t in inputs]
    for t in inputs:
        t.grad = None
    try:
        yield
    finally:
        for t, grad in zip(inputs, before):
            t.grad = grad


def grad_mode(value: str) -> contextlib.AbstractContextManager[object]:
    """Autograd "on", or "off" as under `torch.no_grad()`."""
    return torch.enable_grad() if value == "on" else torch.no_grad()
