"""Models that call their parts step by step, and parts and steps for those of broken runs.

Chain({"act": nn.Tanh(), "layer": even_linear(rng, "float32")}, ["layer", times(2.0), "act", plus("layer")])
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.instruments.models import pack_output, unpack_output
from graders.scenes.small_modules import Fn, linear
from graders.wire.draws import Rng

SIZE = 4
"""Channels of each layer."""
CallPart = Callable[..., Tensor]
Step = str | Callable[[CallPart, Tensor, Tensor], Tensor]
"""The name of a part to call, or a function of `call(name, h)`, the result of the last step, and the chain's input.

`call` takes the other inputs of a part by keyword.
"""


class Chain(nn.Module):
    """Runs its steps one after another; most of them call a part."""

    def __init__(
        self, parts: Mapping[str, nn.Module], steps: Sequence[Step], passing: str = "position", output: str = "tensor"
    ) -> None:
        """Parts get their input by "position" or "keyword"; `output` is "tensor", "tuple" or "dict"."""
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.steps, self.passing, self.output = tuple(steps), passing, output

    def forward(self, input: Tensor) -> Any:
        """The result of the last step, packed as `output` says."""
        h = input
        for step in self.steps:
            h = self.call_part(step, h) if isinstance(step, str) else step(self.call_part, h, input)
        return pack_output(h, self.output)

    def call_part(self, name: str, h: Tensor, **others: Tensor) -> Tensor:
        """Call a part; returns the tensor in its output."""
        part = self.get_submodule(name)
        out = part(input=h, **others) if self.passing == "keyword" else part(h, *others.values())
        found: Tensor = unpack_output(out)
        return found


def add_part(name: str) -> Step:
    """A skip connection around a part."""
    return lambda call, h, x: h + call(name, h)


def add_detached_part(name: str) -> Step:
    """A skip connection around a part whose output is detached, so that the part gets no gradient."""
    return lambda call, h, x: h + call(name, h).detach()


def add_part_of_detached(name: str) -> Step:
    """A skip connection around a part whose input is detached, so that no gradient goes back through the part."""
    return lambda call, h, x: h + call(name, h.detach())


def add_part_without_grad(name: str) -> Step:
    """A skip connection around a part that is called under `no_grad`."""

    def step(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
        with torch.no_grad():
            more = call(name, h)
        return h + more

    return step


def call_unused_part(name: str) -> Step:
    """A step that calls a part and ignores its output."""
    return lambda call, h, x: (call(name, h), h)[1]


def multiply_by(number: float, in_place: bool = False) -> Step:
    """A step that multiplies; with `in_place` it overwrites what the step before returned."""
    return lambda call, h, x: h.mul_(number) if in_place else h * number


def cut_gradient(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
    """A step that detaches, so that the gradient ends here."""
    return h.detach()


def restart_from_input(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
    """A step that continues with the input of the chain."""
    return x


def shows_its_mode(shift: Tensor) -> nn.Module:
    """A module that adds a buffer to its input in eval mode, and copies it in training mode."""
    module = Fn(lambda module, input: input.clone() if module.training else input + module.shift)
    module.register_buffer("shift", shift)
    return module


def even_linear(rng: Rng, dtype: str, gain: float = 1.0, outs: int = SIZE) -> nn.Linear:
    """A layer with orthogonal rows, which makes values and gradients `gain` times as large."""
    rows, _ = torch.linalg.qr(rng.tensor(SIZE, SIZE, dtype="float64"))
    bias = rng.tensor(outs, low=-0.5, high=0.5, away=0.125, dtype="float64")
    return linear(gain * rows[:outs], bias).to(getattr(torch, dtype))


def reordered_parts(rng: Rng, parts: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """The parts in an order that differs from the given one, which is that of the run."""
    while len(parts) > 1:
        names = rng.shuffled(list(parts))
        if names != list(parts):
            return {name: parts[name] for name in names}
    return dict(parts)
