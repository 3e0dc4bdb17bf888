"""One cell of the matrix: a small model, a hook, and what a plain pass without hooks gives."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from tests.site.matrix.hooks import KEPT, SEEN, Hook, Target, tensor_in

SITUATIONS: dict[str, tuple[str, Callable[[Trial], None]]] = {}
"""By key, in the order of the page: the title, and what runs it."""


class Net(nn.Module):
    """A layer before the watched one, the watched layer, and one after it."""

    def __init__(self, layer: nn.Module | None = None, call: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 1)
        self.layer = nn.Linear(4, 4) if layer is None else layer
        self.layer.watched = True
        self.call, self.then = call, torch.sigmoid

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.first(x))
        y = self.layer(h) if self.call is None else self.call(self.layer, h)
        return self.last(self.then(y)).sum()


class Plain(nn.Module):
    """The same as `Net`, for TorchScript."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.layer.watched = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.sigmoid(self.layer(torch.tanh(self.first(x))))).sum()


class Trial:
    """One cell: a model, an input, a hook; and what a plain pass without hooks gives."""

    def __init__(self, hook: Hook) -> None:
        torch.manual_seed(0)
        self.hook, self.net, self.x = hook, Net(), torch.randn(2, 3)
        self.truth: dict[str, list[torch.Tensor]] = {}
        self.tolerance = 1e-4
        self.handle: Any = None

    def use(self, net: Any) -> None:
        self.net = net
        self.compare()

    def compare(self, calls: int = 1) -> None:
        """Compute what the hook should see, without any hook."""
        layer, h = self.net.layer, torch.tanh(self.net.first(self.x))
        inputs, outputs = [h], [tensor_in(layer(h))]
        for _ in range(calls - 1):
            inputs.append(torch.sin(outputs[-1]))
            outputs.append(tensor_in(layer(inputs[-1])))
        loss = self.net.last(torch.sigmoid(outputs[-1])).sum()
        *gradients, weight = torch.autograd.grad(loss, (*inputs, *outputs, next(layer.parameters())))
        self.truth = {"input": inputs, "output": outputs, "weight": [weight]}
        self.truth |= {"to_input": gradients[:calls], "to_output": gradients[calls:]}
        self.truth = {name: [value.detach().clone() for value in values] for name, values in self.truth.items()}

    def put(self, layer: Any = None) -> None:
        """Register the hook, on the layer or on this one."""
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.0)
        self.handle = self.hook.put(Target(self.net.layer if layer is None else layer, self.optimizer))

    def forget(self) -> None:
        """Count from here on."""
        SEEN.clear()
        KEPT.clear()

    def go(self, run: Callable[..., Any] | None = None, step: bool = True) -> None:
        """Forward, backward, and a step; `run` takes the input and gives the loss."""
        with self.hook.around():
            loss = (self.net if run is None else run)(self.x)
        loss.backward()
        if step:
            self.optimizer.step()

    def train(self, run: Callable[..., Any] | None = None) -> None:
        """Register the hook, and take a step."""
        self.put()
        self.go(run)


Situation = Callable[[Trial], None]


def situation(key: str, title: str, *, compare: bool = True) -> Callable[[Situation], Situation]:
    """Add a column. Unless `compare` is False, it counts what a hook sees, and not only that it is called."""

    def add(run: Situation) -> Situation:
        def compared(trial: Trial) -> None:
            if compare:
                trial.compare()
            run(trial)

        SITUATIONS[key] = (title, compared)
        return run

    return add


@contextlib.contextmanager
def noted() -> Iterator[list[str]]:
    """The warnings of what runs inside."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        texts: list[str] = []
        yield texts
    texts += [str(warning.message) for warning in caught]
