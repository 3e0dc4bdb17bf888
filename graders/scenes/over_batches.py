"""Scenes for functions that run a model on one batch after another, and describe the outputs of its layers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.inner_calls import calling_inside
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.models import fill_grads, in_mode
from graders.scenes.instruments.passes import grad_mode
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import copy_value
from graders.scenes.scene import Call, Sections, family
from graders.scenes.small_modules import Fn
from graders.wire.draws import Rng

KINDS: dict[str, Any] = {"flat": nn.Linear, "row": nn.Conv1d, "image": nn.Conv2d}
SIZES: dict[str, list[tuple[int, ...]]] = {
    "flat": [(4, 2), (4, 2), (8, 2)],
    "row": [(1, 2, 4), (2, 2, 2), (4, 2, 2)],
    "image": [(1, 2, 2, 2), (2, 2, 1, 2), (4, 2, 2, 1)],
}
"""The shapes of batches with two channels. The number of values in a channel is a power of two, in each batch and in
all together, so that dividing a sum by it loses no digits.
"""
RATE = 0.05


class Net(nn.Module):
    """Two layers, and between them an activation that works in place and is called twice.

    With `values="round"` all numbers are small multiples of 1/8, so that they, their sums and the sums of their squares
    are exact in each dtype.
    """

    def __init__(self, rng: Rng, case: Any) -> None:
        """Draw a net for batches of the shape `case.shape`."""
        super().__init__()
        kernel = () if case.shape == "flat" else (1,)
        self.values, self.dtype = case.values, getattr(torch, case.dtype)
        self.entry = Fn(lambda module, input: input + (0.5 if module.training else 0.25))
        self.relu = nn.ReLU(inplace=True)
        with torch.random.fork_rng(devices=[]):  # what new layers draw depends on their dtype
            self.first: nn.Module = KINDS[case.shape](2, 3, *kernel)
            self.second: nn.Module = KINDS[case.shape](3, 4, *kernel)
        self.layers = dict(zip(rng.names(2), (self.first, self.second)))
        self.log: list[str] = []
        self.raise_if_due: Callable[[], Any] = list
        self.to(self.dtype)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(self.draw_numbers(rng, *parameter.shape, away=1 if parameter.dim() > 1 else 0.125))
        fill_grads(in_mode(self, case.mode))

    def draw_numbers(self, rng: Rng, *shape: int, away: float = 0.125) -> Tensor:
        """Numbers from -1 to 1, whose last digits are never changed when the scene is tested for rounding."""
        return rng.tensor(*shape, low=-1, high=1, away=away, values=self.values, dtype="float64").to(self.dtype)

    def draw_batches(self, rng: Rng, case: Any) -> list[Tensor]:
        """Three batches whose numbers differ in magnitude, and which may differ in size."""
        shapes = rng.shuffled(SIZES[case.shape]) if case.sizes == "several" else SIZES[case.shape][-1:] * 3
        return [self.draw_numbers(rng, *shape) * scale for shape, scale in zip(shapes, rng.shuffled([0.5, 1.0, 2.0]))]

    def forward(self, input: Tensor) -> Tensor:
        """Log how the net is run."""
        self.log.append(f"a batch of {len(input)}, gradients {'on' if torch.is_grad_enabled() else 'off'}")
        h = self.relu(self.first(self.entry(input)))
        h = self.relu(1.5 - h)
        self.raise_if_due()
        scores: Tensor = self.second(h)
        return scores * (2 if self.training else 4)

    def step(self, batch: Tensor) -> None:
        """Take a training step."""
        self.zero_grad()
        torch.autograd.backward(self(batch).square().mean())
        with torch.no_grad():  # the first use of torch.optim takes a second
            for parameter in self.parameters():
                if parameter.grad is not None:
                    parameter.sub_(RATE * parameter.grad)


def call_with_layer_and_batches(call: Call, case: Any, net: Net, batches: list[Tensor]) -> Any:
    """For `function(model, layer, batches)`."""
    layer = net if case.named == "root" else net.get_submodule(case.named)
    return call(net, layer, batches if case.source == "list" else (batch for batch in batches))


def call_with_layers_and_step(call: Call, case: Any, net: Net, batches: list[Tensor]) -> Any:
    """For `function(layers, step, batches)`, whose result may hold tensors of any dtype."""
    return in_float32(call(net.layers, net.step, batches))


def in_float32(found: Any) -> Any:
    """The same nested dicts with every tensor converted to float32."""
    if isinstance(found, dict):
        return {name: in_float32(part) for name, part in found.items()}
    return found.float() if isinstance(found, Tensor) else found


@family(
    sections=(
        "{task}",
        "a later call starts afresh",
        "a call inside a call counts for itself",
        "{runs}",
        "nothing else changes",
        "an exception comes through and nothing is left",
        "{exactly}",
    ),
    axes={
        "shape": ("image", "row", "flat"),
        "dtype": ("float32", "float64"),
        "mode": ("eval", "mixed", "train"),
        "failure": ("KeyboardInterrupt", "own", "KeyError"),
    },
    impossible=(
        # Whether grad mode stays off after an exception shows only if it was on.
        lambda failure, grad_mode: failure == "KeyboardInterrupt" and grad_mode == "off",
        # Whether something is overwritten in place shows only if neither `.double()` nor a transposition copies it.
        lambda named, dtype, shape: named == "first" and (dtype, shape) != ("float64", "flat"),
    ),
)
def over_batches(
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    ask: Callable[..., Any],
    exactly: Callable[[Call, Rng, dict[str, Any]], None] | None = None,
) -> None:
    """`ask` calls the learner's function, and `exactly` tries numbers that careless arithmetic would lose."""
    task, later, inside, runs, same, failing, special = seen.values()
    net, other = Net(rng, case), Net(rng, case)
    callers, watching = CallersHooks("replacing"), CallersHooks("watching")
    callers.on_module(net.entry, "entry")
    watching.on_module(net, "model")
    batches, late = net.draw_batches(rng, case), net.draw_batches(rng, case)
    with grad_mode(vars(case).get("grad_mode", "on")):
        given = list(batches)
        before = Witness(model=net, layers=net.layers, batches=given)
        result = ask(call, case, net, given)
        task["the result"] = copy_value(result)
        runs["what the model did"] = net.log[:20]
        runs["what hooks of the caller saw"] = callers.log[:100] + watching.log[:100]
        same["changed"] = before.changes()
        later["the result"] = copy_value(ask(call, case, net, late))
        later["the first result, after that"] = copy_value(result)

        with calling_inside(net.second.register_forward_hook, lambda: ask(call, case, other, late)):
            inside["the result"] = copy_value(ask(call, case, net, batches))

        failure = Failure(case.failure, "second")
        other.raise_if_due = failure.raise_if_due
        before = Witness(model=other, batches=batches)
        failing["an exception"] = failure.outcome_during(lambda: ask(call, case, other, batches))
        failing["changed after an exception"] = before.changes()
        if exactly:
            exactly(call, rng, special)


def in_float64(call: Call, rng: Rng, seen: dict[str, Any]) -> None:
    """Two float32 numbers in each channel, whose sum and squares need more digits than float32 has."""
    identity = nn.Identity()
    near, far = (rng.tensor(3, low=low, high=low + 8, values="full", dtype="float64") for low in (33, 52))
    seen["the result for large numbers"] = copy_value(call(identity, identity, [torch.stack([near, far]).float()]))
