"""What probes of several exercises of lesson 8 use, beside the learner's code."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from graders.authoring import FACTOR, snapshot, times

LONGEST = 200
"""No list of events that is right has as many entries."""


def now(result: Any) -> Any:
    """The first entries of a list as it is now: a hook that is left may append to it later. All else as it is."""
    return list(result[:LONGEST]) if isinstance(result, list) else result


def one_list(results: list[Any]) -> bool:
    """Whether two of these results are the same list object."""
    return any(one is other for one, other in combinations(results, 2) if isinstance(one, list))


OLD = 0.75
"""What a filled `.grad` holds; float32 holds it, too."""


class GlobalHooks:
    """Hooks of the caller for all modules, one of each kind: they watch or they replace, and remember their calls.

    `what` is "none", "watching" or "replacing": then each makes the values that it gets `FACTOR` times as large.
    """

    KINDS: ClassVar[dict[str, Callable[..., Any]]] = {
        "pre": register_module_forward_pre_hook,
        "fwd": register_module_forward_hook,
        "bpre": register_module_full_backward_pre_hook,
        "bwd": register_module_full_backward_hook,
    }

    def __init__(self, what: str) -> None:
        self.log: list[str] = []
        for kind in self.KINDS if what != "none" else ():
            self.register(kind, self._hook(kind, what))

    @classmethod
    def register(cls, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
        """A hook of one kind; after the probe nothing of it is left."""
        handle: RemovableHandle = cls.KINDS[kind](hook)
        return handle

    def _hook(self, kind: str, what: str) -> Callable[..., Any]:
        place = {"pre": 1, "fwd": 2, "bpre": 1, "bwd": 1}[kind]

        def hook(*args: Any) -> Any:
            self.log.append(kind)
            return times(args[place], FACTOR) if what == "replacing" else None

        return hook


class Activation(nn.Module):
    """Without parameters; shows its mode: in training its output is 3/4 of that in eval mode."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x) * (0.75 if self.training else 1.0)


class Signs(nn.Module):
    """Its output requires grad, and no gradient ever reaches its input."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        return self.weight.sum(0) * (x > 0)


class Attempt(nn.Module):
    """Calls a part that raises, catches that, and calls another one."""

    def __init__(self, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = nn.Bilinear(1, 1, 1), second  # a bilinear layer needs two inputs

    def forward(self, x: Tensor) -> Tensor:
        try:
            found: Tensor = self.first(x)
        except TypeError:
            found = self.second(x)
        return found


class Dropout(nn.Module):
    """Zeroes half of the entries in training, or multiplies by what it is told.

    It remembers by what it multiplied, and the numbers that it drew: these are never the same twice by chance.
    """

    def __init__(self, told: Tensor | None = None) -> None:
        super().__init__()
        self.told = told
        self.factors: list[Tensor] = []
        self.drawn: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.drawn.append(torch.rand(x.shape) if self.training else torch.zeros(x.shape))
        factor = 2.0 * (self.drawn[-1] < 0.5) if self.training else torch.ones(x.shape)
        self.factors.append(factor.to(x.dtype) if self.told is None else self.told.to(x.dtype))
        return x * self.factors[-1]


SLOW = 100.0
"""The time that each slow hook of a caller takes."""


class Clock:
    """A clock that stands still unless somebody spends time."""

    def __init__(self, start: float) -> None:
        self.now = start

    def __call__(self) -> float:
        return self.now

    def spend(self, time: float) -> None:
        """Let time pass."""
        self.now += time

    def slow_hooks(self, module: nn.Module) -> None:
        """Hooks of the caller that take time in the backward pass of this module: two before it, and two after it."""
        for _ in range(2):
            module.register_full_backward_pre_hook(lambda *_: self.spend(SLOW))
            module.register_full_backward_hook(lambda *_: self.spend(SLOW))


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


class Costly(nn.Module):
    """A layer with one weight; its backward pass takes the time `cost`. Its output shows its mode."""

    def __init__(self, weight: Tensor, cost: float) -> None:
        super().__init__()
        self.weight, self.cost, self.clock = nn.Parameter(weight.detach().clone()), cost, Clock(0.0)

    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = _Product.apply(x, self.weight, lambda: self.clock.spend(self.cost))
        return product * (0.75 if self.training else 1.0)


def on_the_clock(model: nn.Module, clock: Clock) -> None:
    """All layers of the model spend time of this clock."""
    for module in model.modules():
        for costly in (module, getattr(module, "hidden", None)):
            if isinstance(costly, Costly):
                costly.clock = clock


class Block(nn.Module):
    """A container: children registered in one order, called in another, joined in one of three ways.

    Its parts that are containers get their input by position or by keyword. With `hidden`, or with a `cost` of its own,
    a module that is no submodule is called last.
    """

    hidden: nn.Module | None

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        self.kind, self.calls, self.passing = spec["kind"], spec["calls"], spec["passing"]
        made = {part["name"]: build(part) for part in spec["children"] if part["kind"] != "alias"}
        for part in spec["children"]:
            self.add_module(part["name"], made[part.get("of", part["name"])])
        own = Costly(torch.ones(()), spec["cost"]) if "cost" in spec else nn.Tanh() if spec.get("hidden") else None
        object.__setattr__(self, "hidden", own)

    def forward(self, x: Tensor) -> Tensor:
        results, h = [], x
        for name in self.calls:
            part, given = self.get_submodule(name), x if self.kind == "sum" else h
            by_keyword = self.passing == "keyword" and isinstance(part, Block)
            results.append(part(x=given) if by_keyword else part(given))
            h = results[-1]
        if self.kind == "sum":
            h = results[0]
            for other in results[1:]:
                h = h + other
        h = x + h if self.kind == "residual" else h
        return h if self.hidden is None else self.hidden(h)


def build(spec: dict[str, Any]) -> nn.Module:
    """The module that a drawn description stands for."""
    if "children" in spec:
        return Block(spec)
    if spec["kind"] == "costly":
        return Costly(spec["weight"], spec["cost"])
    if spec["kind"] == "activation":
        return Activation()
    if spec["kind"] == "no gradient":
        return Signs(spec["weight"])
    layer = nn.Linear(*reversed(spec["weight"].shape))
    layer.weight, layer.bias = (nn.Parameter(spec[name].detach().clone()) for name in ("weight", "bias"))
    return layer.requires_grad_(spec["kind"] == "linear")


def dot_grads(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """What is in `.grad` of the parameters and of the leaf `x`."""
    return {**{name: snapshot(p.grad) for name, p in model.named_parameters()}, "x": snapshot(x.grad)}
