"""What probes of several exercises of lesson 5 use, beside the learner's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import Boom, expecting_boom, module_hooks, resolve

# Models. A draw describes a model as data, a tree of [kind, details...]. The probe builds modules from it; the
# judge computes every call by direct composition of functions, without a module and without a hook.


class Block(nn.Module):
    """Its children are defined in one order and called in another, some of them more than once."""

    def __init__(self, children: dict[str, nn.Module], order: list[str]) -> None:
        """`order` holds the names in the order of the calls."""
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)
        self.order, self.runs = order, 0

    def forward(self, x: Tensor) -> Tensor:
        """Call the children one after the other."""
        self.runs += 1
        for name in self.order:
            x = self.get_submodule(name)(x)
        return x


class ScaleInPlace(nn.Module):
    """Multiplies its input in place."""

    def __init__(self, factor: float) -> None:
        """`factor` is the number to multiply by."""
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """Overwrite x."""
        return x.mul_(self.factor)


class Window(nn.Module):
    """Returns a small view into a large tensor that repeats its input."""

    def __init__(self, kind: str) -> None:
        """`kind` is "columns" or "rows"."""
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        """The first five of 50000 columns, or of 50000 rows."""
        if self.kind == "columns":
            return x.repeat(1, 50000 // x.shape[1])[:, :5]
        return x.repeat(50000 // x.shape[0], 1)[:5]


class Fails(nn.Module):
    """Raises in the middle of a forward pass."""

    def forward(self, x: Tensor) -> Tensor:
        """Raise."""
        raise Boom


def build(spec: list[Any]) -> nn.Module:
    """The module that a spec describes."""
    kind, *rest = spec
    if kind == "block":
        children, order = rest
        made: dict[str, nn.Module] = {}
        for name, child in children.items():
            made[name] = made[child[1]] if child[0] == "same" else build(child)
        return Block(made, order)
    if kind in ("sequential", "list"):
        return {"sequential": lambda made: nn.Sequential(*made), "list": nn.ModuleList}[kind]([*map(build, rest[0])])
    if kind == "conv":
        return filled(nn.Conv2d(rest[0].shape[1], rest[0].shape[0], rest[0].shape[2:], padding=1), *rest)
    if kind == "linear":
        return filled(nn.Linear(rest[0].shape[1], rest[0].shape[0]), *rest)
    if kind == "norm":
        return filled(nn.BatchNorm2d(len(rest[0])), *rest)
    simple = {"relu": nn.ReLU, "pool": nn.MaxPool2d, "flatten": nn.Flatten, "scale": ScaleInPlace, "window": Window}
    return simple[kind](*rest)


def filled(layer: nn.Module, weight: Tensor, bias: Tensor) -> nn.Module:
    """The layer with copies of these parameters, in their dtype."""
    layer.to(weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def failing(model: nn.Module, where: str = "end") -> nn.Module:
    """The same model, which now raises at its end or at its start."""
    model.add_module("fails", Fails())
    model.order = ["fails", *model.order] if where == "start" else [*model.order, "fails"]
    return model


class Witness:
    """Looks at a model before and after a call: hooks, modes, parameters, and how often it ran.

    It also plays the caller, who has a hook on the model and on every submodule named.
    """

    def __init__(self, model: nn.Module, *names: str) -> None:
        """Register the caller's hooks and write down the state of the model."""
        self.model, self.fired = model, []
        for name in ("", *names):
            model.get_submodule(name).register_forward_hook(lambda module, args, output: self.fired.append(1))
        self.hooks, self.runs = module_hooks(model), model.runs
        self.modes = [module.training for module in model.modules()]
        self.parameters = [p.detach().clone() for p in model.parameters()]

    def report(self) -> dict[str, Any]:
        """What changed."""
        return {
            "runs": self.model.runs - self.runs,
            "callers_hooks_fired": len(self.fired),
            "hooks_left": module_hooks(self.model) - self.hooks,
            "modes_kept": [module.training for module in self.model.modules()] == self.modes,
            "parameters_kept": all(map(torch.equal, self.model.parameters(), self.parameters)),
            "grads_kept": all(p.grad is None for p in self.model.parameters()),
        }


def when_it_raises(make: Callable[[], nn.Module], call: Callable[[nn.Module], Any]) -> dict[str, Any]:
    """What happens when `call` gets a model that raises: at its end, where hooks have fired, and at its start."""
    outcomes, left = [], []
    for where in ("end", "start"):
        witness, seen = Witness(failing(make(), where)), {}
        with expecting_boom(seen):
            call(witness.model)
        outcomes.append(seen["exception"])
        left.append(witness.report()["hooks_left"])
    wrong = [outcome for outcome in outcomes if outcome != "propagated"]
    return {"exception": [*wrong, "propagated"][0], "hooks_left_after_exception": max(left, key=abs)}


def plain_tuple(value: Any) -> Any:
    """A `torch.Size` as the tuple that it is; any other value as it is."""
    return tuple(value) if isinstance(value, torch.Size) else value


def leaf(spec: list[Any], name: str) -> list[Any]:
    """The spec of a submodule."""
    return resolve(spec, name)[0]
