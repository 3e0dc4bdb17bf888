"""Small models for scenes in which events of modules are watched: drawn, and in need of a known time."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.models import in_mode
from graders.scenes.models import Drop
from graders.wire.draws import Rng


class Clock:
    """A clock that stands still unless somebody spends time."""

    def __init__(self, start: float) -> None:
        """`start` is what it shows."""
        self.now = start

    def __call__(self) -> float:
        """The time."""
        return self.now

    def spend(self, time: float) -> None:
        """Let time pass."""
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
    """The input times a number. Its backward pass takes the time `cost`; its output shows its mode."""

    def __init__(self, weight: Tensor, clock: Clock, cost: float) -> None:
        """`weight` has no dimensions."""
        super().__init__()
        self.weight, self.clock, self.cost = nn.Parameter(weight), clock, cost

    def forward(self, x: Tensor) -> Any:
        """A tensor like `x`."""
        product: Tensor = _Product.apply(x, self.weight, lambda: self.clock.spend(self.cost))  # type: ignore[no-untyped-call]
        return product * (0.75 if self.training else 1.0)


class Signs(Layer):
    """Its output requires grad, and no gradient ever reaches its input."""

    def forward(self, x: Tensor) -> Tensor:
        """The number where `x` is positive."""
        return self.weight * (x > 0)


class Activation(nn.Module):
    """Without parameters; its output shows its mode."""

    def forward(self, x: Tensor) -> Tensor:
        """A tensor like `x`."""
        return torch.tanh(x) * (0.75 if self.training else 1.0)


class Block(Layer):
    """Calls its parts in an order of its own, and then multiplies."""

    def __init__(self, layer: Layer, parts: Mapping[str, nn.Module], calls: Sequence[str], join: str, passing: str):
        """`join` is "chain", "residual" or "sum"; blocks inside get their input by `passing`."""
        super().__init__(layer.weight.detach(), layer.clock, layer.cost)
        for name, part in parts.items():
            self.add_module(name, part)
        self.calls, self.join, self.passing = tuple(calls), join, passing

    def forward(self, x: Tensor) -> Any:
        """A tensor like `x`."""
        results = [x]
        for name in self.calls:
            part, given = self.get_submodule(name), x if self.join == "sum" else results[-1]
            by_keyword = isinstance(part, Block) and self.passing == "keyword"
            results.append(part(x=given) if by_keyword else part(given))
        beside = {"chain": [], "residual": results[:1], "sum": results[1:-1]}[self.join]
        return super().forward(sum(beside, results[-1]))


@dataclass
class TimedModel:
    """A model, its clock, and the names of what the caller hooks: a part, and a parameter that gets a gradient."""

    model: nn.Module
    clock: Clock
    part: str
    parameter: str


class _LayerFactory:
    """Draws layers for a case, all with one clock."""

    def __init__(self, rng: Rng, case: Any, start: float = 0.0) -> None:
        self.rng, self.case, self.clock = rng, case, Clock(start)

    def make_layer(self, kind: type[Layer] = Layer) -> Layer:
        weight = self.rng.tensor(low=-2, high=2, away=0.5, dtype=self.case.dtype)
        return kind(weight, self.clock, self.rng.integer(1025, 9215) / 1024)  # sums of these are exact

    def make_first_module(self) -> nn.Module:
        """The layer with which a model begins."""
        kind = self.case.first
        made: nn.Module = (
            Activation() if kind == "activation" else self.make_layer(Signs if kind == "no gradient" else Layer)
        )
        made = nn.Sequential(made, nn.Tanh()) if kind == "nested" else made
        return made.requires_grad_(kind != "frozen")


def one_layer(rng: Rng, case: Any) -> Layer:
    """A layer by itself, with a clock that begins at 0."""
    return _LayerFactory(rng, case).make_layer()


def nested_model(rng: Rng, case: Any) -> TimedModel:
    """Blocks in blocks, defined in another order than they are called.

    A layer is called twice and has two names, and one is never called.

    Of a case are read `dtype`, `first`, `join` and `mode`, and if it is there `passing`.
    """
    layers, names = _LayerFactory(rng, case, rng.uniform(1, 99)), iter(rng.names(10))
    passing = getattr(case, "passing", "position")

    def block(parts: dict[str, nn.Module], calls: Sequence[str], join: str) -> Block:
        return Block(
            layers.make_layer(), {name: parts[name] for name in rng.shuffled(list(parts))}, calls, join, passing
        )

    first, often, again, inner, last, unused = (next(names) for _ in range(6))
    outer = f"{next(names)}net"
    deep: dict[str, nn.Module] = {
        next(names): layers.make_layer(),
        next(names): layers.make_layer(),
        next(names): Activation(),
    }
    body = block(deep, rng.shuffled(list(deep)), rng.choice(("chain", "residual", "sum")))
    twice = layers.make_layer()
    middle = block({often: twice, inner: body}, [often, inner, often], case.join)
    whole = {
        first: layers.make_first_module(),
        outer: middle,
        last: layers.make_layer(),
        unused: layers.make_layer(),
        again: twice,
    }
    model = in_mode(block(whole, [first, outer, last], "chain"), case.mode)
    return TimedModel(model, layers.clock, outer, f"{last}.weight")


def sequential_model(rng: Rng, case: Any) -> TimedModel:
    """An `nn.Sequential` whose first module may stand in it twice.

    Of a case are read `dtype`, `first`, `order` and `mode`.
    """
    layers = _LayerFactory(rng, case)
    first, last = layers.make_first_module(), layers.make_layer()
    behind: dict[str, list[nn.Module]] = {"plain": [last], "twice": [first, last], "last": [last, first]}
    parts = [first, Drop(0.5), Activation(), *behind[case.order]]
    names = rng.names(len(parts))
    model = in_mode(nn.Sequential(OrderedDict(zip(names, parts))), case.mode)
    return TimedModel(model, layers.clock, names[0], f"{names[parts.index(last)]}.weight")
