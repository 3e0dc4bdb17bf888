"""Scenes for functions that run a model, a loss and backward passes, and name parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.failures import Failure
from graders.box.probing import module_hooks, snapshot
from graders.box.tensors import fill_grad, laid_out, prepared
from graders.box.witness import Witness
from graders.scenes.scene import Sections, family
from graders.scenes.small_modules import drawn_linear
from graders.wire.draws import Rng

SIZE = 3
"""Columns of what goes into a net, and of all that its layers put out."""
Call = Callable[[nn.Module, Callable[[Tensor], Tensor], Tensor], Any]
Step = Callable[[Any, Tensor], Any]
"""What a layer does to a stream."""
Hooked = tuple["Stream", list[Any]]
"""A model, and the handles of the hooks on it."""


class Stream(nn.Module):
    """Layers do one after the other something to a stream, in an order that is not that of their definition.

    What goes in is multiplied by a parameter of the net itself, and by a buffer that grows in training mode.
    """

    count: Tensor

    def __init__(self, rng: Rng, case: Any, steps: Sequence[Step]) -> None:
        """A layer for each step. Layers are defined in two groups, in the order of the steps, and run in another."""
        super().__init__()
        *names, first, second = rng.names(len(steps) + 2)
        half, like = len(names) // 2, {"dtype": case.dtype}
        self.paths = [f"{first if index < half else second}.{name}" for index, name in enumerate(names)]
        self.gain = nn.Parameter(rng.tensor(SIZE, low=0.5, high=1.5, **like))
        self.norm = nn.BatchNorm1d(SIZE, dtype=self.gain.dtype)
        self.register_buffer("unset", None)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64), persistent=False)
        for group, inside in ((first, names[:half]), (second, names[half:])):
            layers = {name: drawn_linear(rng, SIZE, SIZE, **like) for name in inside}
            self.add_module(group, nn.ModuleDict(layers))
        self.order = rng.shuffled(list(zip(self.paths, steps)))
        self.begins: Callable[[Tensor], Any] = id
        self.changes: dict[str, Callable[[Tensor], Tensor]] = {}
        self.train(case.mode != "eval")
        if case.mode == "mixed":
            for module in (self.norm, *map(self.get_submodule, self.paths[::2])):
                module.eval()

    def forward(self, x: Tensor) -> Tensor:
        """All steps. `begins` is called with the input; `changes` may hold one for "gain", "middle" and "end"."""
        self.begins(x)
        self.count += self.training
        h = self.norm(x) * self.changed("gain", self.gain) * (1 + self.count / 2)
        for index, (path, step) in enumerate(self.order):
            h = step(self.get_submodule(path), self.changed("middle", h) if index == len(self.order) // 2 else h)
        return self.changed("end", h)

    def changed(self, place: str, h: Tensor) -> Tensor:
        """A tensor as it goes on from a place."""
        return self.changes[place](h) if place in self.changes else h


class Loss:
    """A loss of what a net puts out, that counts its calls. It, or its backward pass, may raise."""

    def __init__(self, up: Tensor) -> None:
        """A factor for each number."""
        self.up, self.calls = up, 0
        self.strikes: dict[str, Callable[..., None]] = {}

    def __call__(self, out: Tensor) -> Tensor:
        """One number."""
        self.calls += 1
        self.strikes.get("loss", id)(out)
        loss = (self.up * out).sum()
        if "backward" in self.strikes:
            register: Any = loss.register_hook
            register(self.strikes["backward"])
        return loss


@family(
    sections=(
        "{task}",
        "a later call starts afresh",
        "a call inside a call changes nothing",
        "{once}",
        "nothing of the caller changes",
        "it holds when something raises",
        "{hooks}",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "mode": ("train", "eval", "mixed"),
        "grad": ("filled", "empty"),
        "x_is": ("a leaf", "data"),
        "failure": ("own", "KeyError", "RuntimeError", "KeyboardInterrupt"),
        "raised_in": ("loss", "model", "backward"),
    },
    pairs=(("mode", "on_the_model"),),
    # Then there is no backward pass.
    impossible=(
        lambda stream, raised_in: stream in ("no graph", "frozen") and raised_in == "backward",
        lambda on_the_model, raised_in: on_the_model == "detached" and raised_in == "backward",
    ),
)
def names_parameters(call: Call, rng: Rng, case: Any, seen: Sections, net: Callable[[Rng, Any], Hooked]) -> None:
    """For `function(model, loss_fn, x)`, which leaves buffers and `.grad` as they were. `net` makes a model."""
    task, later, inside, once, same, failing, hooks = seen.values()
    (model, handles), (other, _), (third, _) = (net(rng, case) for _ in range(3))
    if case.grad == "filled":
        for parameter in (*model.parameters(), *other.parameters(), *third.parameters()):
            fill_grad(parameter)  # also where it is frozen
    (x, up), (t, down) = ([rng.tensor(4, SIZE, dtype=case.dtype, values="full") for _ in range(2)] for _ in range(2))
    x, t = laid_out(x, "transposed"), laid_out(t, "transposed")
    if case.x_is == "a leaf":
        x, t = prepared(x, layout="transposed", grad=case.grad), prepared(t, layout="transposed", grad=case.grad)
    loss_fn, other_loss, failing_loss = Loss(up), Loss(down), Loss(up)
    before = Witness(model=model, x=x, other=other, t=t)
    task["the result"] = call(model, loss_fn, x)
    once["calls of the loss"] = loss_fn.calls
    same["changed"] = before.changes()
    later["the result for a part of the model"] = call(model.get_submodule(model.paths[0]), loss_fn, x)
    later["the result for another model"] = call(other, other_loss, t)
    same["changed after more calls"] = before.changes()

    found: list[Any] = []

    def within(x: Tensor) -> None:
        if not found:
            found.append("it has begun")
            found[0] = call(other, other_loss, t)

    model.begins = within
    inside["the result"] = call(model, loss_fn, x)
    inside["the result of the call inside"] = found[:1]
    model.begins = id

    before = Witness(model=third, x=x)
    for run in ("first", "second"):  # where there is one
        failure = Failure(case.failure, run)

        def strike(*args: Any, failure: Failure = failure) -> None:  # a function is itself in a deep copy of a model
            failure.strike()

        third.begins = strike if case.raised_in == "model" else id
        failing_loss.strikes[case.raised_in] = strike
        failing[f"an exception in the {run} run"] = failure.during(lambda: call(third, failing_loss, x))
        failing[f"changed after an exception in the {run} run"] = before.changes()

    hooks["the gradients of a pass"] = gradients_of(other, other_loss, t)
    for handle in handles:
        handle.remove()
    hooks["hooks that their handles have not removed"] = module_hooks(model)
    hooks["the result without hooks"] = call(model, loss_fn, x)


def gradients_of(model: Stream, loss_fn: Loss, x: Tensor) -> dict[str, Tensor | None]:
    """What one pass leaves in `.grad`, by name."""
    model.zero_grad()
    loss = loss_fn(model(x.detach()))
    if loss.requires_grad:
        torch.autograd.backward(loss)
    return {name: snapshot(parameter.grad) for name, parameter in model.named_parameters()}
