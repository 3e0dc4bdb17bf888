"""What several exercises of lesson 7 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graders.authoring import FACTOR, MISSING, Mistake, Rng, Seen, expect, freeze_part
from graders.lesson_07_module_backward_hooks.shared import made, outputs

Scene = dict[str, Any]
"""What goes into a module of `made`, and what comes back to it: weights, x, b, k, ups (a gradient for each output), and
side (the gradient that another use sends to x)."""


ON_ALL_MODULES = Mistake(
    "hooked-all-modules",
    lambda seen: seen["in place elsewhere"].value is False,
    "Your hook is on all modules. It may leave the others alone, but PyTorch does not: with a full backward hook it "
    "makes every output a view, and an in-place layer in any other model raises an error now. Register on `module`.",
)


GAVE_OUT = "From the second pass on, nothing is {done} any more. The hook has to stay until its handle removes it."
"""Messages about handles and numbers, for what is "clamped" or "scaled"."""
TOOK_BOTH = (
    "After `remove()` on the second of two handles, nothing is {done}: the first hook is gone, too. A call leaves the "
    "hooks of earlier calls alone, and a handle removes its own hook and no other."
)
ONE_NUMBER = (
    "Every module is {done} with the number of the latest call. Each call has its own: keep it in the hook, and not in "
    "a global or an attribute of the function."
)
SWITCHED_OFF = (
    "A call of the module that came before `remove()` is not {done} any more. `remove()` is for calls that come later: "
    "it takes the hook off the module, and the hooks of a call that is over stay in its graph."
)


def near(seen: Seen, path: str, expected: Tensor, size: float = 1.0) -> None:
    """Expect a gradient, named by `path`, which a sum of terms that are ten or a hundred times as large may have made.

    `size` is by what the terms are larger than those of the draw.
    """
    limit = 1e-4 if expected.dtype == torch.float32 else 1e-10
    expect(Seen(seen.value, path)).close_to(expected, rtol=limit, atol=size * limit)


def others_work(in_place: Seen) -> None:
    """Expect that an in-place layer of another model works while the hook is there."""
    expect(in_place).is_true("while your hook is there, an in-place layer of another model raises an error")


def drawn_scene(rng: Rng, kind: str, dtype: str, rank: int, layout: str, values: str) -> Scene:
    """A scene whose `x` has this rank."""
    like = {"dtype": dtype, "values": values}
    lead = rng.shape(rank - 1) if rank else ()
    ins, row = ((*lead, 3), (3,)) if rank else ((), ())
    first = ins if kind == "blend" else (*lead, 2)
    return {
        "weights": [
            rng.tensor(3, 4, low=-1, high=1, **like),
            rng.tensor(2, 4, **like),
            rng.tensor(*row, **like),
        ],
        "x": rng.tensor(*ins, low=-1, high=1, layout=layout, **like),
        "b": rng.tensor(*ins, **like),
        "k": rng.choice((1.5, -2.5)),
        "ups": [rng.tensor(*first, layout=layout, **like), rng.tensor(*ins, layout=layout, **like)],
        "side": rng.tensor(*ins, **like),
    }


def sent(
    scene: Scene, kind: str, hooks: str, frozen: str = "nothing", *ups: Tensor, create_graph: bool = False
) -> tuple[list[Tensor], list[Tensor]]:
    """What the module sends to its tensor inputs, and to its parameters, without any hook of ours: by a clean twin.

    The hooks of the caller double the output, what is sent to the inputs, and what is sent to the parameters.
    """
    module = freeze_part(made(kind, scene["weights"]), "nothing" if kind == "blend" else frozen)
    names = ("x", "b") if kind == "blend" else ("x",)
    inputs = [scene[name].detach().clone().requires_grad_() for name in names]
    outs = outputs(module, kind, inputs[0], inputs[-1], scene["k"])
    loss = sum((times(hooks) * up * out).sum() for up, out in zip(ups or scene["ups"][:1], outs))
    found = torch.autograd.grad(
        loss,
        [*inputs, *(p for p in module.parameters() if p.requires_grad)],
        create_graph=create_graph,
        allow_unused=True,
        materialize_grads=True,
    )
    doubled = [times(hooks) * gradient for gradient in found]
    return doubled[: len(inputs)], doubled[len(inputs) :]


def stretch(place: str) -> float:
    """By what the input of the module is larger than the leaf."""
    return 2.0 if place == "non-leaf" else 1.0


def through_gate(scene: Scene) -> Tensor:
    """What three times a `Gate` sends to its weight."""
    row = scene["weights"][2]
    return 3 * (scene["x"] > 0).to(row.dtype).reshape(-1, *row.shape).sum(0)


def differ(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors of equal shape can be told apart."""
    return bool((first - second).abs().max() > 0.05)


def times(hooks: str) -> float:
    """By what a hook of the caller multiplies."""
    return FACTOR if hooks == "replacing" else 1.0


def differentiated_as(seen: Seen, expected: Tensor) -> None:
    """Expect what differentiating a gradient again has found. Where that is 0 everywhere, it needs no graph."""
    if seen.value is MISSING and expected.any():
        expect(seen).fail(
            "under `create_graph=True` the gradient has to keep its graph, so that it can be differentiated again; "
            "your function cut it off (`detach()`, `.data`, or `no_grad`)"
        )
    if seen.value is not MISSING:
        near(seen, seen.path, expected)
