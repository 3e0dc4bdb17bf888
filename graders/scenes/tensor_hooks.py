"""Scenes for functions that put a hook on one tensor: `function(t, *arguments) -> handle`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from graders.box.callers_hooks import CallersHooks
from graders.box.passes import gradients, own_grads
from graders.box.probing import removed, snapshot
from graders.box.tensors import prepared
from graders.box.witness import Witness
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng, beyond_float32


def a_number(rng: Rng, case: Any) -> tuple[float]:
    """One that float32 does not hold, so that a detour through float32 shows; never 1."""
    return (beyond_float32(rng.number(case.number) * 9 / 7),)


def two_bounds(rng: Rng, case: Any) -> tuple[float, float]:
    """The lower and the upper one, on either side of many of the numbers that are drawn; one of them may be 0."""
    about = {"zero": (0.0, 1.0), "negative": (-2.0, -0.5), "fraction": (-0.875, 0.5), "large": (-1.0, 1.75)}
    lo, hi = (bound and beyond_float32(bound + rng.uniform(0, 0.25) * 9 / 7) for bound in about[case.number])
    return lo, hi


@family(
    sections=(
        "the gradient is {changed}",
        "every pass is {changed} once",
        "the gradient can be differentiated again",
        "several tensors keep to their own",
        "nothing else changes",
        "the handle removes its hook and no other",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "rank": (0, 1, 2, 3),
        "values": ("round", "full"),
        "place": ("leaf", "non-leaf", "parameter"),
        "grad": ("empty", "filled"),
        "number": ("zero", "negative", "fraction", "large"),
        "hooks": ("none", "watching", "replacing"),
        "backward": ("plain", "create_graph", "autograd.grad", "after an aborted one"),
    },
    impossible=(lambda place, grad: place == "non-leaf" and grad == "filled",),
)
def changes_gradient(
    call: Callable[..., Any],
    rng: Rng,
    case: Any,
    seen: Sections,
    arguments: Callable[[Rng, Any], tuple[Any, ...]],
    special: Sequence[tuple[Any, ...]] = (),
) -> None:
    """For a function that changes the gradient which arrives at `t`, before it goes on.

    `arguments(rng, case)` draws what is given beside `t`; each of `special` is tried on a leaf of its own.
    """
    changed, passes, graph, several, same, handles = seen.values()
    shape = rng.shape(case.rank)
    x, other, up, *factors = (rng.tensor(*shape, dtype=case.dtype, values=case.values) for _ in range(5))
    x, t, neighbour = _around(x, other, case)
    things = {"t": t, "x": x, "other": other, "factors": factors}
    before = Witness(**things)
    args, others = arguments(rng, case), arguments(rng, case)
    alone = torch.ones_like(x).requires_grad_()
    handle = call(t, *args)
    same["changed"] = before.changes()
    kept = [call(alone, *others)]  # a handle may keep its hook alive

    def loss(factor: Tensor) -> Tensor:
        return ((t + neighbour) * factor).sum()

    def note(name: str, loss: Callable[[], Tensor], where: dict[str, Any], way: str = "plain") -> None:
        where[f"x.grad {name}"], same[f"the neighbour's gradient {name}"] = gradients(loss, [x, other], way)

    note("of a pass", lambda: loss(factors[0]), changed, case.backward)
    note("of another pass", lambda: loss(factors[1]), passes)
    note("of a sum", lambda: (t + neighbour).sum(), passes)  # every entry of this gradient is the same memory
    note("of two uses", lambda: (t * factors[0]).sum() + (t * factors[1]).sum(), passes)
    (late,), _ = (torch.autograd.grad(loss(factor), [x], allow_unused=True) for factor in factors)
    passes["x.grad of a pass, read after the next pass"] = late
    for _ in range(2):  # the caller's own tensor, in two passes
        with own_grads([x]):
            torch.autograd.backward(t, up)
            passes["x.grad of gradient="], same["gradient="] = snapshot(x.grad), snapshot(up)
    graph["x.grad differentiated"] = _differentiated(lambda: loss(factors[0]), x, factors[0])
    for factor in factors:
        torch.autograd.backward(loss(factor))
    passes["x.grad after two passes"] = snapshot(x.grad)

    torch.autograd.backward((alone * factors[0]).sum(), inputs=[alone])
    several["the gradient of a second tensor"] = alone.grad
    several["the gradient of one of two outputs"], several["the gradient of the other"] = _two_outputs(call, args, rng)
    for which in special:
        several[f"the gradient with {', '.join(map(str, which))}"] = _on_a_leaf(call, which)

    second = call(t, *others)
    note("with two hooks", lambda: loss(factors[0]), several)
    for name, one in (("the first handle", handle), ("the second handle", second)):
        handles[f"{name} has remove()"] = removed(one)
        note(f"after remove() of {name}", lambda: loss(factors[0]), handles)
    handles["changed after remove()"] = [change for change in before.changes() if not change[0].startswith("grad-")]
    del kept


def _around(x: Tensor, other: Tensor, case: Any) -> tuple[Tensor, Tensor, Tensor]:
    """A leaf `x`; `t`, which is `x` or looks at it; a neighbour that backward reaches after `t`; the caller's hooks."""
    neighbour = -other.requires_grad_()
    x = prepared(x, layout="contiguous", place="parameter" if case.place == "parameter" else "leaf", grad=case.grad)
    t = x.view_as(x) if case.place == "non-leaf" else x
    callers = CallersHooks(case.hooks)
    (callers.on_parameter if t is x else callers.on_tensor)(t, "t")
    return x, t, neighbour


def _differentiated(loss: Callable[[], Tensor], x: Tensor, k: Tensor) -> Tensor | None:
    """The gradient at `k` of the gradient of `loss()` at `x`, added up; None when that has no graph."""
    k.requires_grad_()
    (found,) = torch.autograd.grad(loss(), x, create_graph=True, allow_unused=True)
    has_graph = found is not None and found.requires_grad
    again = torch.autograd.grad(found.sum(), k, allow_unused=True)[0] if has_graph else None
    k.requires_grad_(False)
    return again


def _two_outputs(call: Callable[..., Any], args: tuple[Any, ...], rng: Rng) -> tuple[Tensor, Tensor]:
    """The gradients beneath two outputs of one operation, of which the last has the hook and is used twice."""
    up = rng.tensor(2, 3)
    pair = torch.zeros_like(up).requires_grad_()
    other, last = (pair * 1).unbind()
    handle = call(last, *args)
    (both,) = torch.autograd.grad([last, last, other], [pair], [up[0], up[0], up[1]])
    del handle
    return both[1], both[0]


def _on_a_leaf(call: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    """The gradient of a leaf in a pass with the hook, and in one more after `remove()`."""
    t = torch.ones(5, requires_grad=True)
    arriving = torch.tensor([3.0, 0.75, -0.75, 1e4, -1e4])
    handle = call(t, *args)
    torch.autograd.backward((arriving * t).sum())
    first = snapshot(t.grad)
    has_remove = removed(handle)
    torch.autograd.backward((arriving * t).sum())
    return [first, has_remove, snapshot(t.grad)]
