"""What callers give to functions that run backward passes: worlds for `graders.scenes.recorders.runs_backward`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from graders.box.callers_hooks import CallersHooks
from graders.box.probing import snapshot
from graders.box.tensors import prepared
from graders.box.witness import Change, Witness
from graders.scenes.recorders import World, backwards, numbers, put_on
from graders.wire.draws import Rng, beyond_float32


def a_leaf(rng: Rng, case: Any, shape: tuple[int, ...], name: str) -> Tensor:
    """A leaf with `.grad` and hooks as the case says."""
    grad = "empty" if case.grad == "empty" else "filled"
    leaf = prepared(numbers(rng, case, shape), layout="transposed", place=case.place, grad=grad)
    if case.grad == "with inf" and leaf.grad is not None:
        leaf.grad.view(-1)[0] = torch.inf
    CallersHooks(case.hooks).on_parameter(leaf, name)
    return leaf


def losses_of_a_leaf(rng: Rng, case: Any, strike: Any = None, within: Any = None) -> World:
    """A leaf and a list of losses, of which one comes twice: `function(p, losses)`."""
    shape = rng.shape(case.rank)
    p = a_leaf(rng, case, shape, "p")
    weights, other = numbers(rng, case, shape), numbers(rng, case, shape).requires_grad_()
    if within:
        after: Any = p.register_post_accumulate_grad_hook
        after(within)
    log: list[str] = []
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "linear": lambda q: (backwards(q) * backwards(weights).contiguous()).sum(),
        "square": lambda q: (q * q).sum() / 2,
        "with another leaf": lambda q: (q * other).sum(),
        "without slope": lambda q: (0 * q).sum(),
    }

    def loss_of(kind: str, factor: float) -> Callable[[Tensor], Tensor]:
        factors = [factor]

        def loss(q: Tensor) -> Tensor:
            log.append(f"{kind} loss")
            if kind == "square" and strike and case.raised_in == "loss":
                strike()
            factors[0] += 1  # another loss at each call
            value = factors[0] * ways[kind](q)
            put_on(value, lambda grad: log.append("its backward pass"))
            if kind == "square" and strike:
                put_on(value, strike)
            return value

        return loss

    losses = [loss_of(kind, rng.uniform(0.5, 2)) for kind in ("linear", *rng.shuffled(list(ways)[1:]))]
    losses.append(losses[0])
    leaves = {"p": p, "other": other}
    return World((p, losses), lambda: (p, losses), {**leaves, "losses": losses}, leaves, log)


TAILS: dict[str, Callable[..., Tensor]] = {
    "linear": lambda t, c, other: ((t + other) * c).sum(),
    "square": lambda t, c, other: (c * t * t).sum() / 4,
    "in place": lambda t, c, other: (t.mul_(3).add_(c) * c).sum(),
    "nonlinear in place": lambda t, c, other: (t.mul_(1 / 4).tanh_() * c).sum(),
}
"""Losses of a tensor; two of them write into it."""


def a_loss_of_three_x(rng: Rng, case: Any, strike: Any = None, within: Any = None) -> World:
    """A leaf, a number, and a loss of a tensor, which uses the leaf as well: `function(x, k, loss_fn)`."""
    shape = rng.shape(case.rank)
    x = a_leaf(rng, case, shape, "x")
    c, other = numbers(rng, case, shape), numbers(rng, case, shape).requires_grad_()
    k = {"zero": 0.0, "one": 1.0}.get(case.number) or beyond_float32(rng.number(case.number))
    log: list[str] = []
    got: list[Tensor] = []
    kept: list[Tensor] = []
    put_on(x, lambda grad: log.append("the hook of x"))
    put_on(other, kept.append)
    if within:
        put_on(x, within)

    def loss_fn(t: Tensor) -> Tensor:
        log.append("loss_fn")
        got.append(snapshot(t))
        if strike and case.raised_in == "loss":
            strike()
        loss = TAILS[case.tail](t, c, other) + (x * x).sum()
        put_on(loss, lambda grad: log.append("backward"))
        if strike:
            put_on(loss, strike)
        return loss

    args = x, k, loss_fn
    return World(args, lambda: args, {"x": x}, {"x": x}, log, kept, lambda: {"what loss_fn got": got[:5]})


def tensors_and_a_loss(rng: Rng, case: Any, strike: Any = None, within: Any = None) -> World:
    """A dict of tensors, one of them twice and one out of reach, and a loss: `function(tensors, loss)`."""
    shape = rng.shape(case.rank)
    x = a_leaf(rng, case, shape, "x")
    other, shift, still, off = (numbers(rng, case, shape) for _ in range(4))
    leaves = {"x": x, "other": other.requires_grad_(), "still": still.requires_grad_(), "off": off.requires_grad_()}
    names = rng.names(8)
    log: list[str] = []
    kept: list[Tensor] = []
    if within:
        put_on(x, within)

    def made() -> dict[str, Tensor]:
        a = x / 2
        b = torch.tanh(a)
        c = b + shift  # the same buffer is the gradient of both
        c.retain_grad()
        loss = (backwards(c) * backwards(other).contiguous()).sum() + (0 * still).sum()
        CallersHooks(case.hooks).on_tensor(b, "b").on_tensor(c, "c").on_tensor(loss, "loss")
        for t in (b, c):
            put_on(t, kept.append)
        put_on(loss, lambda grad: log.append("backward"))
        if strike:
            put_on(a, strike)
        return {"x": x, "a": a, "b": b, "c": c, "still": still, "off": off, "loss": loss}

    def only_leaves() -> tuple[dict[str, Tensor], Tensor]:
        return dict(zip(names, (off, still, x))), made()["loss"]

    parts = made()
    args = dict(zip(names, (parts["b"], *parts.values()))), parts["loss"]

    def look() -> dict[str, Any]:
        retained = snapshot(parts["c"].grad)
        try:
            torch.autograd.backward(parts["loss"])
        except RuntimeError:
            return {"c.grad": retained, "the graph is freed": True}
        return {"c.grad": retained, "the graph is freed": False}

    things = {**parts, "other": other, "tensors": args[0]}
    return World(args, only_leaves, things, leaves, log, kept, look)


OURS = tuple(os.path.join("graders", folder, "") for folder in ("box", "scenes"))
"""Where the caller's hooks are."""


@dataclass
class GraphWorld(World):
    """A world with a graph, at whose nodes hooks may be left. They do not show, so they are called once more."""

    ends: tuple[Tensor, ...] = ()
    """The last tensor of the graph, and one at its beginning."""

    def changes(self, witness: Witness) -> list[Change]:
        """Also whether a pass through the graph calls functions of somebody else."""
        called: list[str] = []

        def note(frame: FrameType, event: str, arg: Any) -> None:
            if event == "call" and not any(folder in frame.f_code.co_filename for folder in OURS):
                called.append(frame.f_code.co_name)

        found, before = super().changes(witness), sys.getprofile()
        (end, begin), engine = self.ends, torch.autograd.Variable._execution_engine  # it calls nothing but hooks
        start = torch.ones_like(end)
        sys.setprofile(note)
        try:
            engine.run_backward((end,), (start,), True, False, (begin,), accumulate_grad=False)
        except Exception:  # the graph is freed: the pass ends at the first node that notices
            pass
        finally:
            sys.setprofile(before)
        return [*found, ["hook-left", "the graph"]] if called else found


def a_graph(rng: Rng, case: Any, strike: Any = None, within: Any = None) -> World:
    """A scalar at the end of a deep graph with branches, and names of nodes: `function(y, node_names)`.

    Some of the names are not in the graph; of these, one is a part of a name that is, and one has such a part. Zeros
    arrive at the node of the sine.
    """
    shape = rng.shape(case.rank)
    x = a_leaf(rng, case, shape, "x")
    w, weights = numbers(rng, case, shape), numbers(rng, case, shape)
    log: list[str] = []
    kept: list[Tensor] = []
    after: Any = x.register_post_accumulate_grad_hook
    after(lambda leaf: log.append("x.grad is filled"))
    if within:
        put_on(x, within)
    bend, other = rng.shuffled(["tanh", "sigmoid"])

    def made(last_first: bool = False) -> tuple[Tensor, Tensor]:
        first, last = torch.stack([x, w]).unbind()
        h = torch.addcmul(last, first, first) if last_first else torch.addcmul(first, first, last)
        CallersHooks(case.hooks).on_tensor(h, "h")
        put_on(h, kept.append, *([strike] if strike else []))
        t = h.sin().clamp(min=7) - torch.relu(h + 0.05) + h.exp()
        for _ in range(6):
            t = t + t
        t = t / 512
        for _ in range(0 if strike or within else 1200):
            t = t.expand_as(t)
        return (getattr(torch, bend)(t) * weights).sum(), h

    wanted = [f"{name}Backward0" for name in ("Sum", "Mul", "Exp", "Sin", "Addcmul", "Unbind", "Stack")]
    leaf = get_gradient_edge(x).node.name()
    absent = [f"{other.capitalize()}Backward0", "SumBackward", "LeakyReluBackward0"]
    names = {*wanted, f"{bend.capitalize()}Backward0", leaf, *absent}
    asked, (y, h) = set(names), made()
    things = {"x": x, "w": w, "y": y, "h": h}

    def look() -> dict[str, Any]:
        return {"the set of names": sorted(asked), "x.grad has a graph": x.grad is not None and x.grad.requires_grad}

    def again() -> tuple[Tensor, set[str]]:
        return made(last_first=True)[0], {"UnbindBackward0", leaf}

    return GraphWorld((y, asked), again, things, {"x": x}, log, kept, look, (y, h))
