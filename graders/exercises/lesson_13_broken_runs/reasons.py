"""Why a parameter gets no gradient: what the reference of 13-why-no-gradient and its wrong programs have in common."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from graders.exercises.lesson_13_broken_runs.programs import grads_and_buffers_kept

Came = Mapping[nn.Parameter, Tensor]
"""The gradient that comes to each parameter to which one comes."""
LossFn = Callable[[Tensor], Tensor]


def one_pass(model: nn.Module, loss_fn: LossFn, x: Tensor, clear: bool = True) -> tuple[Came, list[nn.Module]]:
    """The gradients, and the modules that are called. `clear` takes away old gradients first."""
    came: dict[nn.Parameter, Tensor] = {}
    called: list[nn.Module] = []
    with grads_and_buffers_kept(model, x), ExitStack() as hooks:
        hooks.enter_context(register_module_forward_pre_hook(lambda module, args: called.append(module)))
        for p in model.parameters():
            register: Any = p.register_hook
            if p.requires_grad:
                hooks.enter_context(register(lambda grad, p=p: came.update({p: grad})))
        loss = loss_fn(model(x))
        if loss.requires_grad:
            for leaf in (*model.parameters(), x) if clear else ():
                leaf.grad = None
            torch.autograd.backward(loss)
    return came, called


def held_by(modules: Iterable[nn.Module]) -> set[nn.Parameter]:
    """The parameters that these modules hold."""
    return {p for module in modules for p in module.parameters(recurse=False)}


def reasons(
    model: nn.Module, came: Came, held: set[nn.Parameter], zero: Callable[[Tensor], Any] = lambda grad: not grad.any()
) -> dict[str, str]:
    """The reason for each parameter, from the gradients and from what the modules that are called hold."""
    found = {}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            found[name] = "frozen"
        elif p not in came:
            found[name] = "cut" if p in held else "never called"
        elif zero(came[p]):
            found[name] = "zero"
    return found


def told(model: nn.Module, loss_fn: LossFn, x: Tensor, **how: Callable[[Tensor], Any]) -> dict[str, str]:
    """The whole answer; `how` is for `reasons`."""
    came, called = one_pass(model, loss_fn, x)
    return reasons(model, came, held_by(called), **how)
