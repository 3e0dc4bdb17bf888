"""Worlds for `graders.scenes.recorders.runs_passes`: what callers give to functions that run backward passes.

Each is made by `world(rng, case, forward=None, backward=None)`; the caller's code calls these two in such passes.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from graders.probing.asking import detached_copy
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Change, Witness
from graders.wire.draws import Rng, beyond_float32

Callback = Callable[..., Any] | None


@dataclass
class World:
    """What a caller has and passes to a function that runs backward passes. `args` are the arguments of the call."""

    args: tuple[Any, ...]
    again: Callable[[], tuple[Any, ...]]
    """Makes the arguments of a later call, with the same leaves."""
    things: dict[str, Any]
    """What the function must not change, by name."""
    fills: Sequence[str]
    """The leaves among these things whose `.grad` it may write."""
    log: list[str] = field(default_factory=list)
    """Which of the caller's functions and hooks were called."""
    kept: list[Tensor] = field(default_factory=list)
    """Gradients that the caller's hooks have kept."""
    look: Callable[[], dict[str, Any]] = dict
    """Returns what else shows after a call."""

    def changes(self, witness: Witness) -> list[Change]:
        """The changes that a witness reports, except in `.grad` of the leaves in `fills`."""
        return [change for change in witness.changes() if change[0][:4] != "grad" or change[1] not in self.fills]


def draw_tensors(rng: Rng, case: Any, count: int) -> list[Tensor]:
    """`count` tensors of one shape, for the case."""
    shape = rng.shape(case.rank)
    return [rng.tensor(*shape, dtype=case.dtype, values=case.values, low=-2.0, high=2.0) for _ in range(count)]


def reverse_dimensions(t: Tensor) -> Tensor:
    """The tensor with its dimensions in reverse order; a gradient that comes back through it is not contiguous."""
    return t.permute(*reversed(range(t.dim()))) if t.dim() else t


def register_hooks(t: Any, *hooks: Callback) -> None:
    """Register hooks of the caller on a tensor; those that are None are skipped."""
    for hook in filter(None, hooks):
        t.register_hook(hook)


def act_in_passes(t: Tensor, forward: Callback, backward: Callback) -> Tensor:
    """Call `forward` now, and `backward` when a gradient arrives at `t`; returns `t`."""
    register_hooks(t, backward)
    if forward:
        forward()
    return t


def a_leaf(values: Tensor, case: Any, name: str, old: float = 0.7) -> Tensor:
    """A leaf with the hooks of the case. If the case has filled gradients, its `.grad` is filled with `old`."""
    leaf = prepare_tensor(values, layout="transposed", place=case.place, grad=case.grad, old=old)
    CallersHooks(case.hooks).on_parameter(leaf, name)
    return leaf


def leaf_grads(leaves: dict[str, Tensor]) -> dict[str, Tensor | None]:
    """Copies of the leaves' current `.grad`."""
    return {f"{name}.grad": detached_copy(leaf.grad) for name, leaf in leaves.items()}


def two_leaves(rng: Rng, case: Any, backward: Callback = None) -> World:
    """For `function(w, x)`."""
    first, second, later = draw_tensors(rng, case, 3)
    w, x = a_leaf(first, case, "w"), a_leaf(second, case, "x")
    register_hooks(w, backward)

    def again() -> tuple[Tensor, Tensor]:
        x.data, w.grad, x.grad = later, None, None
        return w, x

    return World((w, x), again, {"w": w, "x": x}, "wx")


STEPS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "scale": lambda t, k: k * t,
    "square": lambda t, k: t * t / 2 + k,
    "tanh": lambda t, k: torch.tanh(k * t / 4),
    "mixing": lambda t, k: k * t * (1 + t.mean()),
    "in place": lambda t, k: t.mul_(k),
    "identity": lambda t, k: t,
    "constant": lambda t, k: 0 * t + k,
    "stretch": lambda t, k: torch.stack([t, k * t]),
}
"""Functions of a tensor and a number for the steps of a chain; in "mixing" each element depends on all others."""
END = ("mixing", "tanh", "scale", "in place", "square", "in place", "stretch", "identity", "scale")


def a_chain(rng: Rng, case: Any, forward: Callback = None, backward: Callback = None) -> World:
    """For `function(fns, x)`: some functions overwrite their argument, some change its shape, and one occurs twice."""
    values, later = draw_tensors(rng, case, 2)
    x, log = a_leaf(values / 2, case, "x"), list[str]()

    def step_of(kind: str) -> Callable[[Tensor], Tensor]:
        k = rng.uniform(0.5, 2) + 1 / 16  # never 1

        def step(t: Tensor) -> Tensor:
            log.append(kind)
            result = STEPS[kind](t, k)
            return act_in_passes(result, forward, backward) if kind == "tanh" else result

        return step

    fns = [step_of(kind) for kind in (*case.chain.split(", "), *END)]
    fns.append(fns[0])
    same = list(fns)

    def again() -> tuple[Any, Tensor]:
        x.data, x.grad = later / 2, None
        return same, x

    return World((fns, x), again, {"fns": fns, "x": x}, "x", log, look=lambda: leaf_grads({"x": x}))


def losses_of_a_leaf(
    rng: Rng, case: Any, forward: Callback = None, backward: Callback = None, alone: bool = False
) -> World:
    """For `function(p, losses)`: one loss occurs twice, one is constant, and each differs from call to call.

    With `alone`, passes may be run in any way and may leave anything in `.grad`, which is so large beforehand that
    nobody can subtract it again.
    """
    values, weights, other = draw_tensors(rng, case, 3)
    leaves = {"p": a_leaf(values, case, "p", old=1e30 if alone else 0.7), "other": other.requires_grad_()}
    log = list[str]()
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "linear": lambda q: (reverse_dimensions(q) * reverse_dimensions(weights).contiguous()).sum(),
        "square": lambda q: (q * q).sum() / 2,
        "with another leaf": lambda q: (q * other).sum(),
        "without slope": lambda q: (0 * q).sum(),
    }

    def loss_of(kind: str, factor: float) -> Callable[[Tensor], Tensor]:
        def loss(q: Tensor) -> Tensor:
            nonlocal factor
            factor += 1
            value = factor * ways[kind](q)
            log.append(f"{kind} loss")
            register_hooks(value, None if alone else lambda grad: log.append("its backward pass"))
            return act_in_passes(value, forward, backward if alone else None) if kind == "square" else value

        return loss

    losses = [loss_of(kind, rng.uniform(0.5, 2)) for kind in ("linear", *rng.shuffled(list(ways)[1:]))]
    losses.append(losses[0])
    same = list(losses)
    p, things = leaves["p"], {**leaves, "losses": losses}
    register: Any = p.register_post_accumulate_grad_hook
    if backward and not alone:
        register(backward)
    return World(
        (p, losses), lambda: (p, same), things, list(leaves), log, look=lambda: {} if alone else leaf_grads(leaves)
    )


def losses_alone(rng: Rng, case: Any, **acts: Any) -> World:
    """`losses_of_a_leaf` with `alone`."""
    return losses_of_a_leaf(rng, case, alone=True, **acts)


TAILS: dict[str, Callable[..., Tensor]] = {
    "linear": lambda t, c, other: ((t + other) * c).sum(),
    "in place": lambda t, c, other: (t.mul_(3).add_(c) * c).sum(),
    "nonlinear in place": lambda t, c, other: (t.mul_(1 / 4).tanh_() * c).sum(),
}
"""Loss functions of a tensor; two of them write into it."""


def a_loss_of_three_x(rng: Rng, case: Any, forward: Callback = None, backward: Callback = None) -> World:
    """For `function(x, k, loss_fn)`: a leaf, a number, and a loss of a tensor that also uses the leaf itself."""
    values, c, other = draw_tensors(rng, case, 3)
    x, other = a_leaf(values, case, "x"), other.requires_grad_()
    k = 1.0 if case.number == "one" else beyond_float32(rng.number(case.number))
    log, kept = list[str](), list[Tensor]()
    register_hooks(x, lambda grad: log.append("the hook of x"), backward)
    register_hooks(other, kept.append)

    def loss_fn(t: Tensor) -> Tensor:
        log.append("loss_fn")
        loss = TAILS[case.tail](t, c, other) + (x * x).sum()
        return act_in_passes(loss, forward, lambda grad: log.append("backward"))

    args = x, k, loss_fn
    return World(args, lambda: (x, k + 1, loss_fn), {"x": x}, "x", log, kept, lambda: leaf_grads({"x": x}))


def tensors_and_a_loss(rng: Rng, case: Any, backward: Callback = None) -> World:
    """For `function(tensors, loss)`: a dict that has one tensor twice and one that the loss does not depend on."""
    values, other, still, off, shift = draw_tensors(rng, case, 5)
    x = a_leaf(values, case, "x")
    leaves = {"x": x, "other": other.requires_grad_(), "still": still.requires_grad_(), "off": off.requires_grad_()}
    names, log, kept = rng.names(8), list[str](), list[Tensor]()

    def made() -> dict[str, Tensor]:
        a = x / 2
        b = torch.tanh(a)
        c = b + shift  # both get the same buffer as their gradient
        c.retain_grad()
        loss = (reverse_dimensions(c) * reverse_dimensions(other).contiguous()).sum() + (0 * still).sum()
        CallersHooks(case.hooks).on_tensor(b, "b").on_tensor(c, "c").on_tensor(loss, "loss")
        register_hooks(a, backward)
        for t in (b, c):
            register_hooks(t, kept.append)
        register_hooks(loss, lambda grad: log.append("backward"))
        return {"loss": loss, "x": x, "a": a, "b": b, "c": c, "still": still, "off": off}

    def again() -> tuple[Any, Tensor]:
        return dict(zip(names, (off, still, x))), made()["loss"]

    parts = made()
    args = dict(zip(names, (*parts.values(), parts["loss"]))), parts["loss"]

    def look() -> dict[str, Any]:
        seen: dict[str, Any] = {"c.grad": detached_copy(parts["c"].grad), **leaf_grads(leaves)}
        with contextlib.suppress(RuntimeError):
            torch.autograd.backward(parts["loss"])
            seen["the graph is kept"] = True
        return seen

    return World(args, again, {**parts, "other": other, "tensors": args[0]}, list(leaves), log, kept, look)
