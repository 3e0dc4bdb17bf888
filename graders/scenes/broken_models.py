"""Small models in which one thing is wrong, and what models of broken runs are made of.

    net = a_broken_model(rng, case, "cut")      # the gradient stops behind one layer
    net.model, net.names["it"], net.x

A model of one's own is a `Chain`: parts by name, and steps in the order of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.models import packed, unpacked
from graders.scenes.small_modules import Fn, linear
from graders.wire.draws import Rng

SIZE = 4
"""How many channels a layer has."""
CallPart = Callable[[str, Tensor], Tensor]
Step = str | Callable[[CallPart, Tensor, Tensor], Tensor]
"""The name of a part, or a function of `call(name, h)`, of what the step before made, and of the input of the chain."""


class Chain(nn.Module):
    """Does its steps one after the other; most of them call a part."""

    def __init__(
        self, parts: Mapping[str, nn.Module], steps: Sequence[Step], passing: str = "position", output: str = "tensor"
    ) -> None:
        """Parts get their input by "position" or "keyword"; `output` is "tensor", "tuple" or "dict"."""
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.steps, self.passing, self.output = tuple(steps), passing, output

    def forward(self, input: Tensor) -> Any:
        """What the last step makes, packed."""
        h = input
        for step in self.steps:
            h = self.call(step, h) if isinstance(step, str) else step(self.call, h, input)
        return packed(h, self.output)

    def call(self, name: str, h: Tensor) -> Tensor:
        """The tensor in what a part returns."""
        part = self.get_submodule(name)
        found: Tensor = unpacked(part(input=h) if self.passing == "keyword" else part(h))
        return found


def plus(name: str) -> Step:
    """A skip connection around a part."""
    return lambda call, h, x: h + call(name, h)


def plus_detached(name: str) -> Step:
    """The same, and no gradient comes to the part."""
    return lambda call, h, x: h + call(name, h).detach()


def plus_of_detached(name: str) -> Step:
    """The same, and no gradient goes through the part to what lies before."""
    return lambda call, h, x: h + call(name, h.detach())


def plus_without_grad(name: str) -> Step:
    """The same, and the part is called under `no_grad`."""

    def step(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
        with torch.no_grad():
            more = call(name, h)
        return h + more

    return step


def aside(name: str) -> Step:
    """A part is called, and nobody uses what it returns."""
    return lambda call, h, x: (call(name, h), h)[1]


def times(number: float, in_place: bool = False) -> Step:
    """Multiplies, and perhaps overwrites what the part before returned."""
    return lambda call, h, x: h.mul_(number) if in_place else h * number


def detached(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
    """The gradient ends here."""
    return h.detach()


def restart(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
    """Go on with the input of the chain."""
    return x


def shows_its_mode(shift: Tensor) -> nn.Module:
    """Adds a buffer in eval mode; in training mode its output is a copy of its input."""
    module = Fn(lambda module, input: input.clone() if module.training else input + module.shift)
    module.register_buffer("shift", shift)
    return module


def even_linear(rng: Rng, dtype: str, gain: float = 1.0, outs: int = SIZE) -> nn.Linear:
    """A layer whose rows are orthogonal: values and gradients are `gain` times as large behind it."""
    rows, _ = torch.linalg.qr(rng.tensor(SIZE, SIZE, dtype="float64"))
    bias = rng.tensor(outs, low=-0.5, high=0.5, away=0.125, dtype="float64")
    return linear(gain * rows[:outs], bias).to(getattr(torch, dtype))


def defined_otherwise(rng: Rng, parts: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """The parts, given in the order of the run, in another one."""
    while len(parts) > 1:
        names = rng.shuffled(list(parts))
        if names != list(parts):
            return {name: parts[name] for name in names}
    return dict(parts)


@dataclass
class Broken:
    """A model, the names of its modules by what they are, and an input of shape (inputs, channels)."""

    model: Chain
    names: dict[str, str]
    """In the order of the run: "stem", "body" (the container), "first", "act", "second" (all three in it), "it" (what
    is broken), "tail", "head".
    """
    x: Tensor


FAULTS = ("nothing", "nan", "mode", "unused", "frozen", "cut", "exploding", "dead", "vanishing")


def a_broken_model(rng: Rng, case: Any, fault: str) -> Broken:
    """A model in training mode in which this is wrong, from `it` on or up to it.

    Of a case are read `dtype`, and where it has them `passing`, `output`, and `inside` (whether `it` lies in the
    container, and not behind it). "dead": `it` is a ReLU that puts out zeros. "cut": the output of `it` is detached.
    "exploding" and "vanishing": the gradient is a million times as large, or small, before `it`.
    """
    get, dtype = vars(case).get, case.dtype
    how = get("passing", "position"), get("output", "tensor")
    stem, body, first, act, second, it, off, tail, head = rng.names(9)
    layers = {name: even_linear(rng, dtype) for name in (stem, first, second, it, off, tail, head)}
    pieces: dict[str, nn.Module] = {it: layers[it]}
    steps: list[Step] = [it]
    if fault == "nan":
        pieces = {it: Fn(lambda module, input: (input - 1000).sqrt())}
    elif fault == "mode":
        pieces = {it: shows_its_mode(rng.tensor(SIZE, dtype=dtype)).eval()}
    elif fault == "unused":
        steps = []
    elif fault == "frozen":
        layers[it].requires_grad_(False)
    elif fault == "cut":
        steps = [it, detached]
    elif fault == "dead":
        pieces, steps = {off: layers[off], it: nn.ReLU()}, [off, it]
        layers[off].bias.data.fill_(-100.0)
    elif fault in ("exploding", "vanishing"):
        layers[it].weight.data.mul_(1e6 if fault == "exploding" else 1e-6)
    inner: dict[str, nn.Module] = {first: layers[first], act: nn.Tanh(), second: layers[second]}
    outer: dict[str, nn.Module] = {stem: layers[stem], tail: layers[tail], head: layers[head]}
    inside = bool(get("inside"))
    (inner if inside else outer).update(pieces)
    block = Chain(defined_otherwise(rng, inner), [first, act, second, *(steps if inside else [])], *how)
    parts = defined_otherwise(rng, outer | {body: block})
    model = Chain(parts, [stem, body, *([] if inside else steps), tail, head], *how)
    within = {"first": first, "act": act, "second": second, **({"it": it} if inside else {})}
    names = {"stem": stem, "body": body, **{what: f"{body}.{name}" for what, name in within.items()}}
    names |= {"tail": tail, "head": head} if inside else {"it": it, "tail": tail, "head": head}
    return Broken(model, names, rng.tensor(3, SIZE, dtype=dtype, values="full"))
