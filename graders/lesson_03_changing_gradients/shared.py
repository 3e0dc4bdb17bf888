"""What probes of several exercises of lesson 3 use, beside the learner's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graders.authoring import CallersHooks, gradients, own_grads, prepared, removed, snapshot

TINY = 2.0**-60
"""A gradient that float16 does not hold."""
FAR = (1e-30, 1e30)
"""Numbers that float32 holds, far from 1."""


def scene(
    x: Tensor, other: Tensor, layout: str, place: str, grad: str = "empty", hooks: str = "none"
) -> tuple[Tensor, Tensor, Tensor]:
    """A leaf `x`; a tensor `t`, which is `x` or a non-leaf that looks at it; a neighbour, `-other`; hooks on `t`.

    The neighbour is made first. Backward reaches it after `t`, so a buffer that they share shows what a hook on
    `t` did to it.
    """
    neighbour = -other.requires_grad_()  # its graph saves nothing, and serves in every pass
    x = prepared(x, layout=layout, place="parameter" if place == "parameter" else "leaf", grad=grad)
    t = x.view_as(x) if place == "non-leaf" else x
    callers = CallersHooks(hooks)
    (callers.on_parameter if t is x else callers.on_tensor)(t, "t")
    return x, t, neighbour


def flow(
    x: Tensor,
    passed: Callable[[], Tensor],
    other: Tensor,
    neighbour: Tensor,
    factors: list[Tensor],
    up: Tensor,
    backward: str,
) -> dict[str, Any]:
    """What arrives at `x` and at `other` in passes of many kinds. `.grad` holds afterwards what it held before.

    `passed()` is the tensor on the way to `x` that changes gradients, asked for anew in every pass.
    """

    def loss(factor: Tensor) -> Tensor:
        return ((passed() + neighbour) * factor).sum()

    def two_uses() -> Tensor:
        t = passed()
        return (t * first).sum() + (t * second).sum()

    (first, second), seen = factors, dict[str, Any]()
    seen["x.grad"], seen["neighbour.grad"] = gradients(lambda: loss(first), [x, other], backward)
    seen["x.grad of another pass"], _ = gradients(lambda: loss(second), [x, other])
    # Every entry of this gradient is the same memory.
    seen["x.grad of a sum"], seen["neighbour.grad of a sum"] = gradients(
        lambda: (passed() + neighbour).sum(), [x, other]
    )
    (seen["x.grad of two uses"],) = gradients(two_uses, [x])
    (seen["x.grad of zeros"],) = gradients(lambda: (passed() * 0.0).sum(), [x])
    (seen["x.grad of infinities"],) = gradients(lambda: (passed() * torch.inf).sum(), [x])
    (seen["x.grad of a tiny gradient"],) = gradients(lambda: (passed() * TINY).sum(), [x])
    # The caller keeps what `torch.autograd.grad` gave: the next pass must not write into it.
    (kept,), _later = (torch.autograd.grad(loss(factor), [x], allow_unused=True) for factor in factors)
    seen["x.grad of a pass, read after the next pass"] = kept
    callers = up.clone()
    with own_grads([x]):
        passed().backward(gradient=callers)
    with own_grads([x]):  # one tensor in two passes
        passed().backward(gradient=callers)
        seen |= {"x.grad of gradient=": snapshot(x.grad), "gradient=": callers}
    seen["x.grad differentiated"] = differentiated(lambda: loss(first), x, first)
    return seen


def differentiated(loss: Callable[[], Tensor], x: Tensor, k: Tensor) -> Tensor | None:
    """The gradient at `k` of the gradient of `loss()` at `x`, added up; None when that has no graph."""
    k.requires_grad_()
    (found,) = torch.autograd.grad(loss(), x, create_graph=True, allow_unused=True)
    has_graph = found is not None and found.requires_grad
    again = torch.autograd.grad(found.sum(), k, allow_unused=True)[0] if has_graph else None
    k.requires_grad_(False)
    return again


def rare(hooked: Callable[[Tensor], Tensor], up: Tensor, later: str = "none") -> dict[str, Any]:
    """What arrives beneath tensors that are rare in one way: one of two outputs of an operation, used twice; a leaf
    whose gradient lies in memory in another order; a leaf without elements.

    `hooked(t)` is the tensor that changes gradients on the way to `t`, and `up`, of shape [2, n, m], what arrives at
    it. The output is the last one of two: whoever changes what the operation gets at its first output, changes the
    gradient of another tensor. With `later` "replacing", the caller puts a hook on it afterwards: three times the
    gradient, plus 1, which commutes with no other change of a gradient.
    """
    pair = torch.zeros_like(up).requires_grad_()
    other, last = (pair * 1).unbind()
    changed = hooked(last)
    if later == "replacing":
        last.register_hook(lambda grad: 3 * grad + 1)
    (both,) = torch.autograd.grad([changed, last, other], [pair], [up[0], up[0], up[1]])
    turned, nothing = torch.zeros_like(up).requires_grad_(), torch.zeros(0, 2, requires_grad=True)
    hooked(turned).backward(gradient=in_another_order(up))
    (hooked(nothing) * 2).sum().backward()
    return {
        "x.grad where t is one of two outputs of an operation": both[1],
        "the gradient of the other output of that operation": both[0],
        "the gradient that lies in another order": turned.grad,
        "the gradient of a tensor without elements": nothing.grad,
    }


def in_another_order(t: Tensor) -> Tensor:
    """A tensor of three dimensions whose entries lie in memory as if the last dimension were the first."""
    return t.permute(2, 0, 1).contiguous().permute(1, 2, 0)


def accumulated(x: Tensor, t: Tensor, neighbour: Tensor, factors: list[Tensor]) -> Tensor | None:
    """What `.grad` of `x` holds after one pass for each factor, added to what it held before."""
    for factor in factors:
        ((t + neighbour) * factor).sum().backward()
    return None if x.grad is None else snapshot(x.grad)


def after_remove(
    which: str, handle: Any, x: Tensor, t: Tensor, factor: Tensor, remove: Callable[[Any], bool] = removed
) -> dict[str, Any]:
    """What arrives at `x` when the handle has removed its hook; the entries are called after `which` handle it is."""
    has_remove = remove(handle)
    return {f"{which} has remove()": has_remove, f"x.grad after {which}.remove()": gradients((t * factor).sum, [x])[0]}
