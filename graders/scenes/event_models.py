"""Small drawn models for scenes that watch the events of modules, with backward passes of known duration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.instruments.models import in_mode
from graders.scenes.small_modules import Fn
from graders.wire.draws import Rng


class Clock:
    """A clock that stands still until somebody spends time."""

    def __init__(self, start: float) -> None:
        """`start` is the time that it shows at first."""
        self.now = start

    def __call__(self) -> float:
        """The time."""
        return self.now

    def spend(self, time: float) -> None:
        """Move the clock forward."""
        self.now += time


class _Product(torch.autograd.Function):
    """A product whose backward pass spends time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, spend: Callable[[], None]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.spend = spend
        return x * weight

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        ctx.spend()
        return grads[0] * weight, (grads[0] * x).sum(), None


class Layer(nn.Module):
    """Multiplies its input by a number. Its backward pass takes the time `cost`; its output depends on its mode."""

    def __init__(self, weight: Tensor, clock: Clock, cost: float) -> None:
        """`weight` is a tensor without dimensions."""
        super().__init__()
        self.weight, self.clock, self.cost = nn.Parameter(weight), clock, cost

    def forward(self, x: Tensor) -> Any:
        """A tensor like `x`."""
        product: Tensor = _Product.apply(x, self.weight, lambda: self.clock.spend(self.cost))  # type: ignore[no-untyped-call]
        return product * (0.75 if self.training else 1.0)


def activation() -> nn.Module:
    """A module without parameters, whose output depends on its mode."""
    return Fn(lambda module, x: torch.tanh(x) * (0.75 if module.training else 1.0))


class Block(Layer):
    """Calls its parts in the order `calls`, and then multiplies."""

    def __init__(self, layer: Layer, parts: Mapping[str, nn.Module], calls: Sequence[str], join: str):
        """`join` is "chain", "residual" or "sum"."""
        super().__init__(layer.weight.detach(), layer.clock, layer.cost)
        for name, part in parts.items():
            self.add_module(name, part)
        self.calls, self.join = tuple(calls), join

    def forward(self, x: Tensor) -> Any:
        """A tensor like `x`."""
        results = [x]
        for name in self.calls:
            part, given = self.get_submodule(name), x if self.join == "sum" else results[-1]
            results.append(part(given))
        beside = {"chain": [], "residual": results[:1], "sum": results[1:-1]}[self.join]
        return super().forward(sum(beside, results[-1]))


@dataclass
class TimedModel:
    """A model, its clock, and the names of a part and of a parameter with a gradient, which the caller hooks."""

    model: nn.Module
    clock: Clock
    part: str
    parameter: str


class _LayerFactory:
    """Draws the layers for a case, which share a clock."""

    def __init__(self, rng: Rng, case: Any, start: float = 0.0) -> None:
        self.rng, self.case, self.clock = rng, case, Clock(start)

    def make_layer(self) -> Layer:
        weight = self.rng.tensor(low=-2, high=2, away=0.5, dtype=self.case.dtype)
        return Layer(weight, self.clock, self.rng.integer(1025, 9215) / 1024)  # sums of these are exact


def one_layer(rng: Rng, case: Any) -> Layer:
    """A single layer, whose clock begins at 0."""
    return _LayerFactory(rng, case).make_layer()


def nested_model(rng: Rng, case: Any) -> TimedModel:
    """Blocks within blocks, which are not defined in the order in which they are called.

    One layer is called twice and has two names, and another is never called. Reads `dtype`, `first`, `join` and `mode`
    of the case.
    """
    layers, names = _LayerFactory(rng, case, rng.uniform(1, 99)), iter(rng.names(10))

    def block(parts: dict[str, nn.Module], calls: Sequence[str], join: str) -> Block:
        return Block(layers.make_layer(), {name: parts[name] for name in rng.shuffled(list(parts))}, calls, join)

    first, often, again, inner, last, unused = (next(names) for _ in range(6))
    outer = f"{next(names)}net"
    deep: dict[str, nn.Module] = {
        next(names): layers.make_layer(),
        next(names): layers.make_layer(),
        next(names): activation(),
    }
    body = block(deep, rng.shuffled(list(deep)), rng.choice(("chain", "residual", "sum")))
    twice = layers.make_layer()
    middle = block({often: twice, inner: body}, [often, inner, often], case.join)
    whole: dict[str, nn.Module] = {
        first: layers.make_layer().requires_grad_(case.first != "frozen"),
        outer: middle,
        last: layers.make_layer(),
        unused: layers.make_layer(),
        again: twice,
    }
    model = in_mode(block(whole, [first, outer, last], "chain"), case.mode)
    return TimedModel(model, layers.clock, outer, f"{last}.weight")
