"""How people explain a prediction: the steps of right ways, and what goes wrong in several exercises."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

Score = Callable[[Tensor], Tensor]
"""The number whose gradient is taken, of logits."""


class GuidedReLU(torch.autograd.Function):
    """A ReLU that lets a gradient through where it is positive and the input was."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, grad.clamp(min=0), 0)


guided_relu: Callable[[Tensor], Tensor] = GuidedReLU.apply


def of_class(cls: int) -> Score:
    """The sum of the logits of a class."""
    return lambda logits: logits[:, cls].sum()


def gradient_at_x(model: Callable[[Tensor], Tensor], x: Tensor, score: Score) -> Tensor:
    """The gradient of `score(model(x))`."""
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(score(model(x)), x)[0]


def gradient_at_layer(model: nn.Module, layer: nn.Module, x: Tensor, score: Score) -> tuple[Tensor, Tensor]:
    """The gradient of `score(model(x))` at the layer's output, and that output."""
    kept: dict[str, Tensor] = {}

    def keep(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        kept["output"], kept["nothing"] = output.detach().clone(), torch.zeros_like(output).requires_grad_()
        return output + kept["nothing"]

    with layer.register_forward_hook(keep):
        total = score(model(x.detach()))
    return torch.autograd.grad(total, kept["nothing"])[0], kept["output"]


def heat(gradient: Tensor, maps: Tensor) -> Tensor:
    """A Grad-CAM."""
    return torch.einsum("bk,bkhw->bhw", gradient.mean((2, 3)), maps).clamp(min=0)


def relus(model: nn.Module) -> list[nn.Module]:
    """All modules that are an `nn.ReLU`."""
    return [module for module in model.modules() if isinstance(module, nn.ReLU)]


def guided(model: nn.Module, x: Tensor, score: Score) -> Tensor:
    """Guided backprop, with another function in the place of each ReLU."""
    with contextlib.ExitStack() as stack:
        for relu in relus(model):
            stack.enter_context(relu.register_forward_hook(lambda module, args, output: guided_relu(args[0])))
        return gradient_at_x(model, x, score)


def with_hooks(model: nn.Module, x: Tensor, score: Score, hook: Any, modules: Iterable[nn.Module]) -> Tensor:
    """The gradient at `x` while a full backward hook is on some modules."""
    with contextlib.ExitStack() as stack:
        for module in modules:
            stack.enter_context(module.register_full_backward_hook(hook))
        return gradient_at_x(model, x, score)


def another_mode(program: Callable[..., Tensor], model: nn.Module, *args: Any) -> Tensor:  # noqa: D103 - COMMON says it
    return program(model.eval(), *args)


def another_mode__2(program: Callable[..., Tensor], model: nn.Module, *args: Any) -> Tensor:  # noqa: D103
    modes = {module: module.training for module in model.modules()}
    found = program(model.eval(), *args)
    for module, training in modes.items():
        module.training = training
    return found


def another_mode__3(program: Callable[..., Tensor], model: nn.Module, *args: Any) -> Tensor:  # noqa: D103
    modes = {module: module.training for module in model.modules()}
    try:
        return program(model.eval(), *args)
    finally:
        for module, training in modes.items():
            module.training = training


def polluted_grads(program: Callable[..., Tensor], model: nn.Module, *args: Any) -> Tensor:
    """Your result is right, but the `.grad` of a parameter is not what it was before the call. `backward()` writes it,
    and `zero_grad()` erases what the caller had. `torch.autograd.grad` returns gradients and writes nothing.
    """
    found = program(model, *args)
    model(args[-2].detach().requires_grad_()).sum().backward()
    return found


def polluted_grads__2(program: Callable[..., Tensor], model: nn.Module, *args: Any) -> Tensor:  # noqa: D103
    model.zero_grad()
    return program(model, *args)


def polluted_grads__3(program: Callable[..., Tensor], model: nn.Module, *args: Any) -> Tensor:  # noqa: D103
    model.zero_grad()
    return polluted_grads(program, model, *args)


def input_touched(program: Callable[..., Tensor], model: nn.Module, *args: Any) -> Tensor:
    """Your result is right, but the caller's `x` is not as it was: its values, its `requires_grad` or its `.grad`.
    Work with a tensor of your own: `x.detach().clone().requires_grad_()`.
    """
    args[-2].requires_grad_()
    return program(model, *args)


def input_touched__2(program: Callable[..., Tensor], model: nn.Module, *args: Any) -> Tensor:  # noqa: D103
    args[-2].requires_grad_().grad = None
    return program(model, *args)


WAYS = (another_mode, another_mode__2, another_mode__3, polluted_grads, polluted_grads__2, polluted_grads__3,
        input_touched, input_touched__2)  # fmt: skip


def wrong_explanations(program: Callable[..., Tensor]) -> type:
    """The base of a class `Mistakes`: a right program, used in each wrong way."""

    def of(way: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def wrong(*args: Any) -> Tensor:
            return way(program, *args)

        wrong.__doc__, wrong.__name__ = way.__doc__, way.__name__
        return wrong

    return type("WrongExplanations", (), {way.__name__: of(way) for way in WAYS})
