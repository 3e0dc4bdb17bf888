"""How people explain a prediction: the steps of right ways, and what goes wrong in several exercises."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graders.exercises.authoring import wrong_ways

Program = Callable[..., Any]
Score = Callable[[Tensor], Tensor]
"""The number whose gradient is taken, of logits."""


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
        kept["output"], kept["zeros"] = output.detach().clone(), torch.zeros_like(output).requires_grad_()
        return output + kept["zeros"]

    with layer.register_forward_hook(keep):
        total = score(model(x.detach()))
    return torch.autograd.grad(total, kept["zeros"])[0], kept["output"]


def heat(gradient: Tensor, maps: Tensor) -> Tensor:
    """A Grad-CAM from its parts."""
    return torch.einsum("bk,bkhw->bhw", gradient.mean((2, 3)), maps).clamp(min=0)


def cam(model: nn.Module, layer: nn.Module, x: Tensor, cls: int) -> Tensor:
    """A Grad-CAM."""
    return heat(*gradient_at_layer(model, layer, x, of_class(cls)))


def relus(model: nn.Module, *kinds: type[nn.Module]) -> list[nn.Module]:
    """All modules that are an `nn.ReLU`, or of one of these kinds."""
    return [module for module in model.modules() if isinstance(module, kinds or nn.ReLU)]


@contextlib.contextmanager
def guiding(model: nn.Module) -> Iterator[None]:
    """In a run within it, positive gradients alone go from what comes after a ReLU into that ReLU."""

    def clamp(module: nn.Module, args: Any, output: Tensor) -> None:
        output.register_hook(lambda grad: grad.clamp(min=0))  # type: ignore[no-untyped-call]  # of torch

    with contextlib.ExitStack() as stack:
        for relu in relus(model):
            stack.enter_context(relu.register_forward_hook(clamp))
        yield


def guided(model: nn.Module, x: Tensor, cls: int) -> Tensor:
    """Guided backprop."""
    with guiding(model):
        return gradient_at_x(model, x, of_class(cls))


def another_mode(program: Program, model: nn.Module, *args: Any) -> Any:  # noqa: D103 - COMMON says it
    return program(model.eval(), *args)


def another_mode__2(program: Program, model: nn.Module, *args: Any) -> Any:  # noqa: D103
    modes = {module: module.training for module in model.modules()}
    try:
        return program(model.eval(), *args)
    finally:
        for module, training in modes.items():
            module.training = training


def polluted_grads(program: Program, model: nn.Module, *args: Any) -> Any:
    """Your result is right, but the `.grad` of a parameter, or of `x`, is not what it was before. `backward()` adds to
    it, and `zero_grad()` erases what the caller had. `torch.autograd.grad` returns gradients and writes nothing.
    """
    found = program(model, *args)
    x, _ = args[-2:]
    model(x.detach().requires_grad_()).sum().backward()
    return found


def polluted_grads__2(program: Program, model: nn.Module, *args: Any) -> Any:  # noqa: D103
    model.zero_grad()
    return program(model, *args)


def input_touched(program: Program, model: nn.Module, *args: Any) -> Any:
    """Your result is right, but the caller's `x` is not as it was: its values, its `requires_grad` or its `.grad`. Work
    with a tensor of your own: `x.detach().clone().requires_grad_()`.
    """
    x, _ = args[-2:]
    x.requires_grad_()
    return program(model, *args)


wrong_explanations = partial(
    wrong_ways, ways=(another_mode, another_mode__2, polluted_grads, polluted_grads__2, input_touched)
)
"""The base of a class `Mistakes`: a right program of these exercises, used in wrong ways."""
