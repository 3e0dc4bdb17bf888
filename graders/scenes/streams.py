"""Models in which each layer changes a stream of values, for functions that name parameters."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.inspections import InspectedModel
from graders.scenes.instruments.tensors import fill_grad, prepare_tensor
from graders.scenes.scene import Call
from graders.scenes.small_modules import drawn_linear
from graders.wire.draws import Rng

SIZE = 3
"""Columns of a model's input, and of all outputs of its layers."""
AXES = {"grad": ("filled", "empty"), "x_is": ("a leaf", "data"), "output": (), "passing": (), "grad_mode": ("on",)}
"""The axes of `graders.scenes.inspections.inspects_models` that these models change."""
Step = Callable[[Any, Tensor], Any]
"""Takes a layer and the stream; returns the stream behind the layer."""


class Stream(nn.Module):
    """A stream of values that one layer after another changes, not in the order of their definition.

    The input is multiplied by a parameter of the model itself, and by a buffer that grows in training mode.
    """

    count: Tensor

    def __init__(self, rng: Rng, case: Any, steps: Sequence[Step]) -> None:
        """Draw a layer for each step. Layers are defined in two groups, in the order of the steps, which is not that of
        the run.
        """
        super().__init__()
        *names, first, second = rng.names(len(steps) + 2)
        half, like = len(names) // 2, {"dtype": case.dtype}
        self.paths = [f"{first if index < half else second}.{name}" for index, name in enumerate(names)]
        self.gain = nn.Parameter(rng.tensor(SIZE, low=0.5, high=1.5, **like))
        self.norm = nn.BatchNorm1d(SIZE, dtype=self.gain.dtype)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64), persistent=False)
        for group, inside in ((first, names[:half]), (second, names[half:])):
            layers = {name: drawn_linear(rng, SIZE, SIZE, **like) for name in inside}
            self.add_module(group, nn.ModuleDict(layers))
        self.order = rng.shuffled(list(zip(self.paths, steps)))
        self.begins = [nn.Identity()]
        """In a list, so that it is not a submodule."""
        self.changes: dict[str, Callable[[Tensor], Tensor]] = {}
        self.train(case.mode != "eval")
        if case.mode == "mixed":
            for module in (self.norm, *map(self.get_submodule, self.paths[::2])):
                module.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Run all steps. `self.changes` may hold a function to apply at "gain", "middle" and "end"."""
        self.count += self.training
        h = self.norm(self.begins[0](x)) * self.apply_change("gain", self.gain) * (1 + self.count / 2)
        for index, (path, step) in enumerate(self.order):
            h = step(self.get_submodule(path), self.apply_change("middle", h) if index == len(self.order) // 2 else h)
        return self.apply_change("end", h)

    def apply_change(self, place: str, h: Tensor) -> Tensor:
        """The stream behind a place: changed if `self.changes` has a function for it."""
        return self.changes[place](h) if place in self.changes else h


def inspected_stream(rng: Rng, case: Any, model: Stream) -> InspectedModel:
    """For `function(model, loss_fn, x)`, which is called again with the modes of all modules switched.

    Reads `grad` and `x_is` of the case.
    """
    if case.grad == "filled":
        for parameter in model.parameters():
            fill_grad(parameter)  # even if it is frozen
    x, up = (rng.tensor(4, SIZE, dtype=case.dtype, values="full") for _ in range(2))
    if case.x_is == "a leaf":
        x = prepare_tensor(x, grad=case.grad)
    in_backward, log = nn.Identity(), list[str]()

    def loss_fn(out: Tensor) -> Tensor:
        log.append("the loss is computed")
        loss = (up * out).sum()
        register: Any = loss.register_hook
        if loss.requires_grad:
            register(in_backward)
        return loss

    def ask(call: Call) -> Any:
        return call(model, loss_fn, x)

    def ask_again(call: Call) -> Any:
        for module in model.modules():
            module.training = not module.training
        return ask(call)

    places = {"in the model": model.begins[0]}
    if any(p.requires_grad for p in model.parameters()):  # otherwise no backward pass is needed
        places["in the backward pass"] = in_backward
    return InspectedModel(model, ask, ask_again, {"model": model, "x": x}, places, log)
