"""Models with hooks of every kind, some of which change gradients."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import count_module_hooks
from graders.scenes.inspections import InspectedModel
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.planted import defined_in
from graders.scenes.scene import Call
from graders.scenes.small_modules import drawn_linear
from graders.scenes.streams import SIZE, Stream, inspected_stream
from graders.wire.draws import Rng


def negate_gradient(parameter: Any) -> None:
    """A post-accumulate-grad hook that changes the gradient, but not its norm."""
    parameter.grad.neg_()


def hooked_stream(rng: Rng, case: Any) -> tuple[Stream, list[Any]]:
    """A model, and the handles of the hooks on it.

    Each block works on a constant, so that a hook affects only its own block. The last module and the last parameter
    have hooks that change gradients. A hook on the model itself affects what lies around the blocks, or cuts off
    everything (`case.on_the_model`). Planted are `model`, a text, and the number of the `watched` block.
    """
    planted = defined_in(case.model)
    model = Stream(rng, case, planted["steps"])
    blocks = list[Any]()
    for path in model.paths:
        first: Any = model.get_submodule(path)
        second = drawn_linear(rng, SIZE, SIZE, dtype=case.dtype)
        blocks.append(nn.Sequential(first, second).train(first.training))
        group, name = path.split(".")
        model.get_submodule(group).add_module(name, blocks[-1])
    idle = blocks[case.watched]
    idle[0].bias.requires_grad_(False)
    handles = planted["register"](blocks, rng.choice((-1.5, 2.0, 3.0)), negate_gradient)
    last_parameter: Any = [*model.parameters()][-1]
    handles.append(last_parameter.register_post_accumulate_grad_hook(negate_gradient))
    if case.on_the_model == "detached":
        handles.append(model.register_forward_hook(lambda module, args, out: out.detach(), prepend=True))
    handles.append(model.register_forward_pre_hook(lambda module, args: (args[0].roll(1, 1),)))
    watching = CallersHooks("watching").on_module(model, "model", backward=True)
    watching.on_module(idle, "block", backward=True).on_parameter(model.gain, "gain")
    return model, [*handles, *watching.handles]


def with_hooks(rng: Rng, case: Any) -> InspectedModel:
    """For `function(model, loss_fn, x)`. Reads `on_the_model` of the case."""
    return inspected_stream(rng, case, hooked_stream(rng, case)[0])


def hooks_stay(call: Call, rng: Rng, case: Any, seen: dict[str, Any]) -> None:
    """Show what the hooks of a model do after a call, and whether their handles still remove them."""
    model, handles = hooked_stream(rng, case)
    patient = inspected_stream(rng, case, model)
    patient.ask(call)

    def gradients(model: Any, loss_fn: Callable[[Tensor], Tensor], x: Tensor) -> dict[str, Tensor | None]:
        model.zero_grad()
        loss = loss_fn(model(x.detach()))
        if loss.requires_grad:
            torch.autograd.backward(loss)
        return {name: p.grad for name, p in model.named_parameters()}

    seen["the gradients of a pass"] = patient.ask(gradients)
    for handle in handles:
        handle.remove()
    seen["hooks that their handles have not removed"] = count_module_hooks(model)
