"""Small models for scenes in which events of modules are watched: drawn, and in need of a known time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.models import in_mode
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


class Pair(Layer):
    """Takes two tensors, and returns two."""

    def forward(self, x: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """The sum and the difference of the product and the other tensor."""
        product: Tensor = super().forward(x)
        return product + other, product - other


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


class Drop(nn.Module):
    """Dropout that leaves out the same entries in every dtype."""

    def forward(self, x: Tensor) -> Tensor:
        """Half of the entries in training mode."""
        return x * (2.0 * (torch.rand(x.shape, dtype=torch.float32) < 0.5)).to(x.dtype) if self.training else x * 1.0


class Attempt(nn.Module):
    """Calls a part that raises, catches that, and calls another one."""

    def __init__(self, second: nn.Module) -> None:
        """`second` takes one tensor."""
        super().__init__()
        self.first, self.second = nn.Bilinear(1, 1, 1), second  # a bilinear layer needs two inputs

    def forward(self, x: Tensor) -> Any:
        """What the second part returns."""
        try:
            return self.first(x)
        except TypeError:
            return self.second(x)


class Block(nn.Module):
    """Calls its parts in an order of its own, and last a layer that is not among its modules."""

    def __init__(
        self, parts: Mapping[str, nn.Module], calls: Sequence[str], join: str, hidden: Layer, passing: str
    ) -> None:
        """`join` is "chain", "residual" or "sum"; blocks inside get their input by `passing`."""
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.calls, self.join, self.hidden, self.passing = tuple(calls), join, [hidden], passing

    def forward(self, x: Tensor) -> Any:
        """A tensor like `x`."""
        results, beside, h = list[Tensor](), [x] if self.join == "residual" else [], x
        for name in self.calls:
            part, given = self.get_submodule(name), x if self.join == "sum" else h
            if isinstance(part, Pair):
                h, other = part(given, x)
                beside.append(other)
            else:
                by_keyword = isinstance(part, Block) and self.passing == "keyword"
                h = part(x=given) if by_keyword else part(given)
            results.append(h)
        for other in (results[:-1] if self.join == "sum" else []) + beside:
            h = h + other
        return self.hidden[0](h)


@dataclass
class Drawn:
    """A model, its clock, and the names of what the caller hooks: a part, and a parameter that gets a gradient."""

    model: nn.Module
    clock: Clock
    part: str
    parameter: str


class _Layers:
    """Draws layers for a case, all with one clock."""

    def __init__(self, rng: Rng, case: Any, start: float = 0.0) -> None:
        self.rng, self.case, self.clock = rng, case, Clock(start)
        self.unit = 2.0**-20 if getattr(case, "unit", "") == "microseconds" else 1.0

    def one(self, kind: type[Layer] = Layer) -> Layer:
        weight = self.rng.tensor(low=-2, high=2, away=0.5, dtype=self.case.dtype)
        return kind(weight, self.clock, self.unit * self.rng.integer(1025, 9215) / 1024)  # sums of these are exact

    def first(self) -> nn.Module:
        """The layer with which a model begins."""
        kind = self.case.first
        made: nn.Module = Activation() if kind == "activation" else self.one(Signs if kind == "no gradient" else Layer)
        made = nn.Sequential(made, nn.Tanh()) if kind == "nested" else made
        return made.requires_grad_(kind != "frozen")


def one_layer(rng: Rng, case: Any) -> Layer:
    """A layer by itself, with a clock that begins at 0."""
    return _Layers(rng, case).one()


def nested_model(rng: Rng, case: Any, pairs: bool = False) -> Drawn:
    """Blocks in blocks, defined in another order than they are called; a layer is called twice, and one never.

    Of a case are read `dtype`, `first`, `join`, `names`, `mode`, and if they are there `passing` and `unit`. With
    `pairs`, a layer takes two tensors and returns two.
    """
    layers, names = _Layers(rng, case, rng.uniform(1, 99)), iter(rng.names(11))
    passing = getattr(case, "passing", "position")

    def block(parts: dict[str, nn.Module], calls: Sequence[str], join: str) -> Block:
        hidden = layers.one()
        hidden.requires_grad_(False)
        return Block({name: parts[name] for name in rng.shuffled(list(parts))}, calls, join, hidden, passing)

    first, often, again, inner, last, unused = (next(names) for _ in range(6))
    outer = f"{next(names)}net"
    deep: dict[str, nn.Module] = {next(names): layers.one(), next(names): layers.one(Pair if pairs else Layer)}
    deep[next(names)] = Activation()
    twice, body = layers.one(), block(deep, rng.shuffled(list(deep)), rng.choice(("chain", "residual", "sum")))
    another = {again: twice} if case.names == "two" else {}  # by another name, in another block
    middle = block({often: twice, inner: body}, [often, inner, *([] if another else [often])], case.join)
    whole = {first: layers.first(), outer: middle, last: layers.one(), unused: layers.one()} | another
    model = in_mode(block(whole, [first, outer, *another, last], "chain"), case.mode)
    return Drawn(model, layers.clock, outer, f"{last}.weight")


def nested_model_with_pairs(rng: Rng, case: Any) -> Drawn:
    """The same, with a layer that takes two tensors and returns two."""
    return nested_model(rng, case, pairs=True)


def stack(rng: Rng, case: Any) -> Drawn:
    """An `nn.Sequential` whose first module may stand in it twice.

    Of a case are read `dtype`, `first`, `order` and `mode`.
    """
    layers = _Layers(rng, case)
    first, last = layers.first(), layers.one()
    behind: dict[str, list[nn.Module]] = {"plain": [last], "twice": [first, last], "last": [last, first]}
    parts = [first, Drop(), Activation(), *behind[case.order]]
    names = rng.names(len(parts))
    model = in_mode(nn.Sequential(OrderedDict(zip(names, parts))), case.mode)
    return Drawn(model, layers.clock, names[0], f"{names[parts.index(last)]}.weight")
