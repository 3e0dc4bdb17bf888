"""What several exercises of lesson 4 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from graders.authoring import FACTOR, Kind, Mistake, Seen, close, expect, refuse


def net_data(rng: Any, dtype: torch.dtype | str, values: str = "round") -> dict[str, Any]:
    """The data of a `Net`: its layers in the order of definition, the order of the calls, the scale."""

    def tensor(*shape: int, low: float, high: float) -> Tensor:
        return rng.tensor(*shape, dtype=dtype, low=low, high=high, values=values)

    names = rng.names(3)
    layers = {name: [tensor(3, 3, low=-1, high=1), tensor(3, low=-0.5, high=0.5)] for name in names}
    calls = rng.shuffled(names)
    return {"layers": layers, "calls": [*calls, calls[0]], "scale": tensor(3, low=0.5, high=1)}


def gradients_at(
    values: dict[str, Tensor], calls: list[str], batch: list[Tensor], *, replaced: str = "", last: str = "tanh"
) -> dict[str, Tensor]:
    """The gradient of `loss_of` a `Net` at these parameters, by name. To make a net takes longer than to run it.

    `calls` are the layers in their order, `last` is what follows the last one, "tanh" or nothing. The gradient of the
    parameter `replaced` is as a replacing hook of the caller leaves it. A layer without a weight shares that of another
    one of the first two.
    """
    leaves = {name: value.detach().requires_grad_() for name, value in values.items()}
    h = batch[0] * leaves["scale"] if "scale" in leaves else batch[0]
    for index, call in enumerate(calls):
        own = f"{call}.weight" in leaves
        weight = leaves[f"{call if own else next(other for other in calls[:2] if other != call)}.weight"]
        h = linear(h, weight, leaves[f"{call}.bias"])
        h = torch.tanh(h) if index + 1 < len(calls) or last == "tanh" else h
    grads = torch.autograd.grad((h - batch[1]).square().sum(), list(leaves.values()))
    return {name: grad * FACTOR if name == replaced else grad for name, grad in zip(leaves, grads)}


RETURNED = Mistake(
    "returned-a-value",
    message="Your hook returned a value, and PyTorch refuses it. A post-accumulate-grad hook has to return `None`, but "
    "a lambda returns the value of its expression. Write a function with `def` that returns nothing.",
    raises=(
        "post accumulate grad hooks should return None",
        "expected Variable, but hook returned",
        "has changed the size of value",
        "has changed the type of value",
    ),
)

OTHERS_GRAD = (
    "The `.grad` that your hook read was not there, or not that of its parameter. Functions made in a loop read the "
    "loop variable when they run, at its last value: use the parameter that the hook receives. And of two hooks of "
    "yours on one parameter, the second finds `None`."
)


def same_tensors(seen: Seen, expected: dict[str, Tensor]) -> None:
    """Expect a tensor for each name, within the tolerance of several steps."""
    for name, tensor in expected.items():
        limit = 1e-10 if tensor.dtype == torch.float64 else 1e-4
        expect(seen[name]).close_to(tensor, rtol=limit, atol=limit)


def autograd_on(modes: Seen) -> None:
    """Expect that the caller's hook behind yours found autograd switched on, in a pass with `create_graph=True`."""
    if modes.value == [False]:
        refuse("in a pass with `create_graph=True`, a hook behind yours finds autograd switched off", Kind.CHANGED)
    expect(modes).equals([True])


def no_error(error: Seen, where: str = "") -> None:
    """Expect that no hook met a `.grad` of None."""
    if error.value != "":
        expect(error).fail(f"{where}your hook raised {error.value}")


def nothing_stored(stored: Seen, when: str) -> None:
    """Expect that every `.grad` is None."""
    for name in expect(stored).of_type(dict):
        if stored[name].value is not None:
            expect(stored[name]).fail(f"{when}, the `.grad` of {name} is not None")


def close_steps(seen: Any, expected: list[dict[str, Tensor]]) -> bool:
    """Whether these are the expected tensors after each step."""
    entries = list(seen)
    return len(entries) == len(expected) and all(
        close(step, values, rtol=1e-4, atol=1e-4) for step, values in zip(entries, expected)
    )


def all_stored(stored: Seen) -> bool:
    """Whether every parameter has a `.grad`."""
    return all(stored[name].tensor is not None for name in stored.keys)


def all_zero(stored: Seen) -> bool:
    """Whether every parameter has a `.grad` of zeros."""
    return all(close(stored[name], 0.0) for name in stored.keys)
