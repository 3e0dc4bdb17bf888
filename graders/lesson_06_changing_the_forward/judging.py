"""What several exercises of lesson 6 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from graders.authoring import FACTOR, Seen, expect, no_hook_left, refuse
from graders.lesson_06_changing_the_forward.shared import PLACES

NO_HANDLE = (
    "Your function has to return the handle, so that the caller can remove the hook. It is what the `register_…` "
    "method gives you."
)


NOT_ARRIVED = {
    "positional lost": "positional arguments of the caller did not arrive",
    "keywords lost": "keyword arguments of the caller did not arrive",
    "more": "`forward` received arguments that the caller did not pass",
    "others": "`forward` received other objects than those that the caller passed",
}
"""What `arrived` tells, in sentences."""


def as_passed(told: Seen, call: str) -> None:
    """The other arguments arrived as they were passed. `call` describes the call, as in "in a second call"."""
    if told.value != "as passed":
        refuse(f"{call}, {NOT_ARRIVED.get(told.value, 'nobody knows what arrived')}")


def times(hooks: str) -> float:
    """By what the caller's hooks on a module multiply its output."""
    return FACTOR if hooks == "replacing" else 1.0


def after_hooks(output: Tensor, hooks: str) -> Tensor:
    """What the caller's hooks on a module make of its output."""
    return times(hooks) * output + 1 if hooks == "replacing" else output


def plain(layers: str, weight: Tensor, x: Tensor) -> Tensor:
    """The output of `layer_of(layers, weight, ...)` without any hook, in closed form."""
    if layers == "activation":
        return 1 / (1 + torch.exp(-x))
    return x @ weight.T if layers == "linear" else torch.einsum("oi,ni...->no...", weight, x)


def pulls(layers: str, weight: Tensor, x: Tensor, up: Tensor) -> list[Tensor]:
    """The gradients at the input and the weight of that layer when its output receives `up`."""
    v = plain(layers, weight, x)
    if layers == "activation":
        return [up * v * (1 - v)]
    if layers == "linear":
        return [up @ weight, up.reshape(-1, up.shape[-1]).T @ x.reshape(-1, x.shape[-1])]
    at_weight = torch.einsum("no...,ni...->oi", up, x)
    return [torch.einsum("oi,no...->ni...", weight, up), at_weight.view(*weight.shape, *[1] * (x.dim() - 2))]


def back_to_normal(seen: Seen, when: str = "") -> None:
    """After an exception: it came through, no hook is left, gradients are tracked, the model is as before."""
    expect(Seen(seen["exception"].value, f"exception{when}")).equals("propagated")
    no_hook_left(seen["hooks_after_exception"], when=f"after an exception{when}")
    expect(seen["records_after_exception"]).is_true(
        f"gradient tracking is still switched off after an exception{when}: use `with torch.no_grad():`"
    )
    expect(seen["kept_after_exception"]).is_true(
        f"after an exception{when} the model is not as before: another module, mode or weight"
    )


def drawn_net(rng, train: bool) -> dict[str, Any]:
    """Names, order of definition, weights and mode of a `TwoPath`."""
    places = [*PLACES, "conv2", "act2"]
    shapes = {"conv1": (4, 4, 3, 3), "conv2": (4, 4, 1, 1), "mid": (4, 4), "head": (3, 4)}
    weights = {place: rng.tensor(*shape, low=-1, high=1) for place, shape in shapes.items()}
    weights |= {place + ".bias": rng.tensor(shape[0], low=-1, high=1) for place, shape in shapes.items()}
    return {
        "names": dict(zip(places, rng.names(len(places)))),
        "order": rng.shuffled(PLACES),
        "weights": weights,
        "train": train,
    }


def composed(
    net: dict[str, Any], x: Tensor, place: str = "", after: Any = None, before: Any = None
) -> dict[str, Tensor]:
    """What each place of the model gives, by direct composition of functions.

    `after` edits the output of `place`, `before` its input. Keys are places; `<place> in` is an input.
    """
    w, seen = net["weights"], {}

    def step(name: str, function: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
        seen[name + " in"] = value = before(value) if before and name == place else value
        value = function(value)
        seen[name] = value = after(value) if after and name == place else value
        return value

    def branch(h: Tensor) -> Tensor:
        h = step("conv2", lambda t: F.conv2d(t, w["conv2"], w["conv2.bias"]), h)
        return step("act2", lambda t: F.leaky_relu(t, 0.25), h)

    h = step("entry", lambda t: t, x)
    h = step("conv1", lambda t: F.conv2d(t, w["conv1"], w["conv1.bias"], padding=1), h)
    h = step("act1", lambda t: F.leaky_relu(t, 0.5), h)
    h = (h + step("block", branch, h)).mean((2, 3))
    h = step("mid", lambda t: t @ w["mid"].T + w["mid.bias"], h)
    h = step("act3", lambda t: F.leaky_relu(t, 0.125), h)
    step("head", lambda t: t @ w["head"].T + w["head.bias"], h)
    return seen


def written(value: Tensor, indices: list[int], source: Tensor | float, dim: int = 1) -> Tensor:
    """A copy of `value` whose entries at `indices` of `dim` are those of `source`."""
    copy = value.clone()
    at = (slice(None),) * dim + (indices,)
    copy[at] = source[at] if isinstance(source, Tensor) else source
    return copy


def all_different(*tensors: Tensor) -> bool:
    """Whether every two of these differ clearly."""
    return all((a - b).abs().max() > 1e-2 for i, a in enumerate(tensors) for b in tensors[i + 1 :])


FOUR_DIMENSIONS = (
    "The output of a module may have two dimensions, as that of a Linear. `output[:, channels]` indexes dimension 1 "
    "whatever comes after it."
)

CHANGED_CALLERS_TENSOR = (
    "Your hook edited `output` in place. Some modules (Dropout in eval mode, Identity, Flatten) hand on the tensor "
    "that they were given, so the edit reached the caller's input. Clone, edit the clone, return it."
)
