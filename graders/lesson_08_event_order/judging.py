"""What several exercises of lesson 8 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graders.authoring import Kind, Seen, close, expect, refuse
from graders.lesson_08_event_order.shared import OLD

KEPT = "What earlier calls noted is still there, and your result goes on from it. Start anew in each call."
"""The message for a result that grows from call to call."""


def plain_grads(model: nn.Module, x: Tensor, needs: bool) -> dict[str, Tensor]:
    """The gradients of `model(x).sum()` for the parameters, and for "x" if it requires grad; not what gets none."""
    x = x.detach().clone().requires_grad_(needs)
    wanted: dict[str, Tensor] = {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    if needs:
        wanted["x"] = x
    found = torch.autograd.grad(model(x).sum(), list(wanted.values()), allow_unused=True)
    return {name: gradient for name, gradient in zip(wanted, found) if gradient is not None}


def expect_grad(grads: Seen, name: str, gradient: Tensor | None, grad: str) -> None:
    """Expect this gradient in what `dot_grads` told of a parameter or of "x"; None stands for nothing.

    With `grad="filled"`, the gradient is what there was before, and what was added.
    """
    if gradient is not None and grads[name].value is None:
        refuse(f"a gradient has to come to `{name}`, and `{name}.grad` is `None`", Kind.MISSING)
    elif gradient is not None and grad == "filled" and close(grads[name], gradient - OLD, 1e-4, 1e-4):
        refuse(f"what `{name}.grad` held before is gone, and `backward()` would add to it", Kind.CHANGED)
    elif gradient is not None:
        expect(Seen(grads[name].value, f"{name}.grad")).close_to(gradient, rtol=1e-4, atol=1e-4)
    elif grads[name].value is not None:
        refuse(
            f"`{name}.grad` was `None` before, no gradient comes to `{name}`, and something is there now", Kind.CHANGED
        )
