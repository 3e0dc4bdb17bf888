"""Models with hooks of every kind, of which some change gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.callers_hooks import CallersHooks
from graders.scenes.names_parameters import SIZE, Hooked, Stream
from graders.scenes.small_modules import drawn_linear
from graders.wire.draws import Rng


def dropped(parameter: Any) -> None:
    """A post-accumulate-grad hook, as somebody has it who steps in backward."""
    parameter.grad = None


def a_little_more(grad: Tensor) -> Tensor:
    """Another number in the last digits."""
    return grad * (1 + 4 * torch.finfo(grad.dtype).eps)


HOOKS: dict[str, Callable[[Any, float], list[Any]]] = {
    "a weight": lambda block, k: [block[0].weight.register_hook(lambda grad: k * grad)],
    "a small gradient": lambda block, k: [block[1].bias.register_hook(lambda grad: k * grad)],
    "a shared weight": lambda block, k: [block[1].weight.register_hook(lambda grad: k * grad)],
    "accumulated": lambda block, k: [
        block[1].bias.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(-k), None)[1])
    ],
    "dropped": lambda block, k: [block[1].weight.register_post_accumulate_grad_hook(dropped)],
    "pre": lambda block, k: [block[1].register_forward_pre_hook(lambda module, args: (k * args[0],))],
    "pre, by keyword": lambda block, k: [
        block.register_forward_pre_hook(
            lambda module, args, kwargs: (
                tuple(k * arg for arg in args),
                {name: k * arg for name, arg in kwargs.items()},
            ),
            with_kwargs=True,
        )
    ],
    "forward": lambda block, k: [block[1].register_forward_hook(lambda module, args, out: k * out)],
    "a block": lambda block, k: [block.register_forward_hook(lambda module, args, out: k * out, always_call=True)],
    "detaching": lambda block, k: [block[0].register_forward_hook(lambda module, args, out: out.detach())],
    "zeros": lambda block, k: [block[0].register_forward_hook(lambda module, args, out: out.detach())],
    "planting": lambda block, k: [
        block[0].register_forward_hook(lambda module, args, out: (out.register_hook(lambda grad: k * grad), None)[1])
    ],
    "backward pre": lambda block, k: [block[1].register_full_backward_pre_hook(lambda module, grads: (k * grads[0],))],
    "backward": lambda block, k: [
        block[1].register_full_backward_hook(lambda module, grads, out: (k * grads[0],), prepend=True)
    ],
    "last digits": lambda block, k: [block[0].weight.register_hook(a_little_more)],
    "frozen": lambda block, k: [block[0].weight.register_hook(lambda grad: k * grad)],
    "by mode": lambda block, k: [block[0].bias.register_hook(lambda grad: k * grad)],
    "nothing": lambda block, k: [],
}
"""Registers on a block, two linear layers in a row, what changes something in it."""


def hooked(rng: Rng, case: Any) -> Hooked:
    """A model for `names_parameters`. Its blocks work each on a constant, so that a hook acts in one of them only.

    A hook on the model itself acts on what lies around them, or cuts off all of it (`case.on_the_model`).
    """
    kinds = rng.shuffled(list(HOOKS))

    def step(kind: str) -> Callable[[Any, Tensor], Tensor]:
        def add(block: Any, h: Tensor) -> Tensor:
            out = block(input=torch.ones_like(h)) * {"a small gradient": 1e-12, "zeros": 0.0}.get(kind, 1.0)
            added: Tensor = out.detach() if kind == "by mode" and not block.training else out
            return h + added

        return add

    model = Stream(rng, case, [step(kind) for kind in kinds])
    blocks: dict[str, Any] = {}
    for kind, path in zip(kinds, model.paths):
        first: Any = model.get_submodule(path)
        second = drawn_linear(rng, SIZE, SIZE, dtype=case.dtype)
        blocks[kind] = nn.Sequential(first, second).train(first.training)
        group, name = path.split(".")
        model.get_submodule(group).add_module(name, blocks[kind])
    blocks["a shared weight"][1].weight = blocks["nothing"][1].weight
    k = rng.choice((-1.5, 2.0, 3.0))
    handles = [handle for kind, register in HOOKS.items() for handle in register(blocks[kind], k)]
    if case.on_the_model == "detached":
        handles.append(model.register_forward_hook(lambda module, args, out: out.detach(), prepend=True))
    handles.append(model.register_forward_pre_hook(lambda module, args: (args[0].roll(1, 1),)))
    blocks["frozen"].requires_grad_(False)
    watching = CallersHooks("watching").on_module(model, "model", backward=True)
    watching.on_module(blocks["nothing"], "block", backward=True).on_parameter(model.gain, "gain")
    watching.on_parameter(blocks["nothing"][0].weight, "weight")
    return model, [*handles, *watching.handles]
