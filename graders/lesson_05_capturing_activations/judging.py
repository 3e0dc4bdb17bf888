"""What several exercises of lesson 5 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from graders.authoring import Rng, Seen, expect, module_names, resolve


def conv(rng: Rng, channels: int = 2, dtype: torch.dtype = torch.float32) -> list[Any]:
    """The spec of a 3 by 3 convolution that keeps the shape. All of them look alike."""
    return [
        "conv",
        rng.tensor(channels, channels, 3, 3, low=-1, high=1, away=0.125, dtype=dtype),
        rng.tensor(channels, low=-1, high=1, dtype=dtype),
    ]


def linear(rng: Rng, inputs: int, outputs: int, dtype: torch.dtype = torch.float32) -> list[Any]:
    """The spec of a linear layer."""
    weight = rng.tensor(outputs, inputs, low=-1.5, high=1.5, dtype=dtype)
    return ["linear", weight, rng.tensor(outputs, low=-1, high=1, dtype=dtype)]


def block(rng: Rng, order: Sequence[str], children: dict[str, list[Any]]) -> list[Any]:
    """A block whose children are defined in a random order, which is not that of the calls."""
    names = list(children)
    while True:
        shuffled = rng.shuffled(names)
        first_calls = [name for name in dict.fromkeys(step.split(".")[0] for step in order) if name in children]
        if [name for name in shuffled if name in first_calls] != first_calls:
            break
    for name, child in children.items():  # a second name comes after the first
        if child[0] == "same" and shuffled.index(name) < shuffled.index(child[1]):
            a, b = shuffled.index(name), shuffled.index(child[1])
            shuffled[a], shuffled[b] = shuffled[b], shuffled[a]
    return ["block", {name: children[name] for name in shuffled}, list(order)]


@dataclass(frozen=True)
class Call:
    """One call of a module: its first name in `named_modules()`, and what went in and came out."""

    name: str
    kind: str
    x: Tensor
    y: Tensor


def trace(spec: list[Any], x: Tensor, *, batch_statistics: bool = False, name: str = "") -> list[Call]:
    """Every call of a module when the model of `spec` runs on `x`, in the order in which the calls end.

    Direct composition of functions; nothing is done in place.
    """
    kind, *rest = spec
    calls: list[Call] = []
    if kind in ("block", "sequential"):
        y = x
        steps = rest[1] if kind == "block" else [str(index) for index in range(len(rest[0]))]
        for step in steps:
            child, path = resolve(spec, step)
            calls += trace(child, y, batch_statistics=batch_statistics, name=f"{name}.{path}" if name else path)
            y = calls[-1].y
    else:
        y = FUNCTIONS[kind](x, *rest, *([batch_statistics] if kind == "norm" else []))
    return [*calls, Call(name, kind, x, y)]


FUNCTIONS = {
    "conv": lambda x, weight, bias: F.conv2d(x, weight, bias, padding=1),
    "linear": lambda x, weight, bias: x @ weight.T + bias,
    "norm": lambda x, weight, bias, batch: F.batch_norm(
        x, torch.zeros_like(weight), torch.ones_like(weight), weight, bias, training=batch
    ),
    "relu": lambda x, in_place: torch.relu(x),
    "pool": lambda x, size: F.max_pool2d(x, size),
    "flatten": lambda x: x.flatten(1),
    "scale": lambda x, factor: x * factor,
    "window": lambda x, kind: x.repeat(1, 5)[:, :5] if kind == "columns" else x.repeat(5, 1)[:5],
}
"""What each kind of layer computes, without a module."""


def outputs(spec: list[Any], x: Tensor, name: str) -> list[Tensor]:
    """The outputs of all calls of one module."""
    return [call.y for call in trace(spec, x) if call.name == name]


# Conditions that all contracts of this lesson share.


def ran_once(seen: Seen, callers_hooks: int) -> None:
    """`model(x)` ran exactly once, and the hooks of the caller fired `callers_hooks` times."""
    expect(seen["runs"]).equals(1)
    if seen["callers_hooks_fired"].value != callers_hooks:
        expect(seen["callers_hooks_fired"]).fail(
            f"hooks that were on the model before should have fired {callers_hooks} times in one `model(x)`, "
            f"and fired {seen['callers_hooks_fired'].value} times"
        )


def without_graph(seen: Seen) -> None:
    """A tensor that does not require grad; any other value is the business of another check."""
    if getattr(seen.value, "requires_grad", False):
        expect(seen).fail("it still requires grad; detach it")


LATE_BINDING = (
    "All your hooks write under one name: they read the loop variable when they run, and by then it has its last "
    "value. Bind it with a default argument: `def hook(module, args, output, name=name):`."
)


def all_names(spec: list[Any]) -> list[str]:
    """The names of all modules, in the order of `named_modules()`."""
    return module_names(spec)


def defined_order(spec: list[Any], names: Sequence[str]) -> list[str]:
    """These names in the order of `named_modules()`."""
    return [name for name in all_names(spec) if name in names]


def filled_keys(seen: Seen) -> list[Any]:
    """The keys of a dict under which there is more than None."""
    return [key for key in seen.keys if seen[key].value is not None]
