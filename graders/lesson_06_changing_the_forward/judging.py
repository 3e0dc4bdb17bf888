"""What several exercises of lesson 6 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from graders.authoring import FACTOR, Rng, Seen, refuse
from graders.lesson_06_changing_the_forward.shared import ALIKE, PLACES, SIZE

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
        refuse(f"{call}, {NOT_ARRIVED.get(str(told.value), 'nobody knows what arrived')}")


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


def drawn_net(rng: Rng, rank: int, dtype: str, values: str) -> dict[str, Any]:
    """Names, order of definition and weights of a `TwoPath`."""
    places = ["entry", "conv1", "act1", "norm", "block", "mid", "act3", "head"]
    space = rank - 2
    shapes = {
        "conv1": (SIZE, SIZE, *[3] * space),
        "conv2": (SIZE, SIZE, *[1] * space),
        "norm": (SIZE,),
        "mid": (SIZE, SIZE),
        "head": (SIZE, SIZE),
    }
    weights = {place: rng.tensor(*shape, dtype=dtype, values=values, low=-1, high=1) for place, shape in shapes.items()}
    biases = {f"{place}.bias": rng.tensor(SIZE, dtype=dtype, values=values, low=-1, high=1) for place in shapes}
    every = [*places, "conv2", "act2", "again"]
    return {
        "names": dict(zip(every, rng.names(len(every)))),
        "order": rng.shuffled(places),
        "weights": weights | biases,
    }


def composed(
    net: dict[str, Any],
    x: Tensor,
    mode: str,
    *,
    after: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
    before: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
) -> dict[str, Tensor]:
    """What each place of the model gives, by direct composition of functions.

    `after` edits the output of places, `before` their input. Keys are places; `<place> in` is an input, and "root"
    stands for the model.
    """
    w, seen = net["weights"], {}

    def step(place: str, function: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
        seen[place + " in"] = value = (before or {}).get(place, _same)(value)
        seen[place] = value = (after or {}).get(place, _same)(function(value))
        return value

    def convolved(place: str, padding: int) -> Callable[[Tensor], Tensor]:
        if x.dim() == 2:
            return affine(place)
        function = F.conv1d if x.dim() == 3 else F.conv2d
        return lambda t: function(t, w[place], w[place + ".bias"], padding=padding)

    def affine(place: str) -> Callable[[Tensor], Tensor]:
        return lambda t: t @ w[place].T + w[place + ".bias"]

    def normed(t: Tensor) -> Tensor:
        mean, variance = torch.full_like(w["norm"], 0.5), torch.full_like(w["norm"], 2.0)
        return F.batch_norm(t, mean, variance, w["norm"], w["norm.bias"], training=mode == "train")

    def branch(h: Tensor) -> Tensor:
        return step("act2", lambda t: F.leaky_relu(t, 0.25), step("conv2", convolved("conv2", 0), h))

    def whole(h: Tensor) -> Tensor:
        h = step("conv1", convolved("conv1", 1), step("entry", _same, h))
        h = step("norm", normed, step("act1", lambda t: F.leaky_relu(t, 0.5), h))
        h = h + step("block", branch, h)
        h = h.mean(tuple(range(2, h.dim()))) if h.dim() > 2 else h
        h = step("act3", lambda t: F.leaky_relu(t, 0.125), step("mid", affine("mid"), h))
        return step("head", affine("head"), h)

    step("root", whole, x)
    return seen


def _same(value: Tensor) -> Tensor:
    return value


def hooks_of(named: str, hooks: str, hooked: str) -> dict[str, Callable[[Tensor], Tensor]]:
    """What the caller's hooks make of outputs, by place, for `composed`."""
    if hooked == "parameter":
        return {}
    return {"root" if hooked == "root" else PLACES[named]: lambda value: after_hooks(value, hooks)}


def then(
    first: Mapping[str, Callable[[Tensor], Tensor]], place: str, last: Callable[[Tensor], Tensor]
) -> dict[str, Callable[[Tensor], Tensor]]:
    """The same edits, and one more of the output of a place, after them."""
    own = first.get(place, _same)
    return {**first, place: lambda value: last(own(value))}


def some_channels(rng: Rng, collection: str) -> list[int]:
    """Channels in no order and with gaps: none, one, several, or one of them twice."""
    several = rng.choice(([4, 0, 2], [3, 1, 0, 4], [1, 4, 3]))
    return {"empty": [], "one": several[:1], "many": several, "repeated": [several[0], several[1], several[0]]}[
        collection
    ]


def the_others(channels: list[int]) -> list[int]:
    """The channels that are not listed."""
    return [channel for channel in range(SIZE) if channel not in channels]


def written(value: Tensor, indices: list[int], source: Tensor | float, dim: int = 1) -> Tensor:
    """A copy of `value` whose entries at `indices` of `dim` are those of `source`."""
    copy = value.clone()
    at = (slice(None),) * dim + (indices,)
    copy[at] = source[at] if isinstance(source, Tensor) else source
    return copy


def counted(rank: int) -> Tensor:
    """The numbers from 1 on, 3 along each axis; of rank 3 in half precision, as in a model of text."""
    numbers = torch.arange(1.0, 3**rank + 1).view((3,) * rank)
    return numbers.bfloat16() if rank == 3 else numbers


def transposed(rank: int) -> str:
    """What a probe makes of `counted(rank)`, in words: no `view` can merge the last two axes."""
    return f"a transposed tensor of {rank} dimensions" + (", in bfloat16" if rank == 3 else "")


def all_different(*tensors: Tensor) -> bool:
    """Whether every two of these differ clearly."""
    return all((a - b).abs().max() > 1e-2 for i, a in enumerate(tensors) for b in tensors[i + 1 :])


def through_alike(x: Tensor, name: str, edit: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """What comes out of the named module and of all layers, when the output of the module is edited."""
    kept = x
    for ran in range(1, 6):
        x = 2 * x + x.roll(1, 1)
        if ran == ALIKE[name]:
            kept, x = x, edit(x)
    return kept, x


FOUR_DIMENSIONS = (
    "The output of a module may have two dimensions, as that of a Linear. `output[:, channels]` indexes dimension 1 "
    "whatever comes after it."
)

CHANGED_CALLERS_TENSOR = (
    "Your hook edited `output` in place. Some modules (Dropout in eval mode, Identity, Flatten) hand on the tensor "
    "that they were given, so the edit reached the caller's input. Clone, edit the clone, return it."
)

IN_PLACE = (
    "a leaf Variable that requires grad",
    "is a view of a leaf",
    "refers to a single memory location",
    "is a view and is being modified inplace",
)
"""What PyTorch says when a hook writes into a tensor that a module handed on."""

EXPANDED = (
    "Either your hook edited `output` in place (some modules, such as Identity, hand on the tensor that they were "
    "given, so the edit reaches the caller's input), or it returned an expanded tensor, into which a later in-place "
    "layer cannot write. Clone, edit the clone, return it."
)

BEFORE_OTHER_HOOKS = (
    "Your change comes first, and then a hook of the caller changes the output once more. What counts is the output as "
    "the next layer gets it: register your hook behind the others, without `prepend=True`, and leave `forward` alone."
)

CALLED_FORWARD = (
    'You called `model.forward(x)`, which runs no hook of the model itself: neither yours, when the name is `""`, nor '
    "those of the caller. Call the model: `model(x)`."
)

RAN_IN_EVAL = (
    "The model ran in eval mode, and it was in training mode. A norm then computes something else. Call the model as "
    "it is, and leave modes alone."
)

REMOVED_OTHERS = "Hooks of the caller are gone. Remove your own hook only, by its handle."
