"""Models that call their parts step by step.

Chain({"act": nn.Tanh(), "layer": nn.Linear(4, 4)}, ["layer", multiply_by(2.0), "act"])
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from graders.scenes.instruments.models import pack_output, unpack_output

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


def multiply_by(number: float, in_place: bool = False) -> Step:
    """A step that multiplies; with `in_place` it overwrites what the step before returned."""
    return lambda call, h, x: h.mul_(number) if in_place else h * number
