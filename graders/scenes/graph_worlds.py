"""A deep graph with branches, at whose nodes hooks may be left: a world for `graders.scenes.recorders.runs_passes`."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from graders.box.callers_hooks import CallersHooks
from graders.box.witness import Change, Witness
from graders.scenes.worlds import Act, World, a_leaf, grads, numbers, put_on
from graders.wire.draws import Rng

OURS = tuple(os.path.join("graders", folder, "") for folder in ("box", "scenes"))
"""Where the caller's hooks are."""


@dataclass
class GraphWorld(World):
    """A world with a graph. Hooks at its nodes do not show, so they are called once more."""

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


def a_graph(rng: Rng, case: Any, backward: Act = None) -> World:
    """A scalar at the end of the graph, and names of nodes: `function(y, node_names)`.

    Some of the names are not in the graph; of these, one is a part of a name that is, and one has such a part. Zeros
    arrive at the node of the sine.
    """
    values, w, weights = numbers(rng, case, 3)
    x = a_leaf(values, case, "x")
    log: list[str] = []
    kept: list[Tensor] = []
    after: Any = x.register_post_accumulate_grad_hook
    after(lambda leaf: log.append("x.grad is filled"))
    bend, other = rng.shuffled(["tanh", "sigmoid"])

    def made(last_first: bool = False) -> tuple[Tensor, Tensor]:
        first, last = torch.stack([x, w]).unbind()
        h = torch.addcmul(last, first, first) if last_first else torch.addcmul(first, first, last)
        CallersHooks(case.hooks).on_tensor(h, "h")
        put_on(h, kept.append, backward)
        t = h.sin().clamp(min=7) - torch.relu(h + 0.05) + h.exp()
        for _ in range(6):
            t = t + t
        t = t / 512
        for _ in range(0 if backward else 1200):
            t = t.expand_as(t)
        return (getattr(torch, bend)(t) * weights).sum(), h

    wanted = [f"{name}Backward0" for name in ("Sum", "Mul", "Exp", "Sin", "Addcmul", "Unbind", "Stack")]
    leaf = get_gradient_edge(x).node.name()
    absent = [f"{other.capitalize()}Backward0", "SumBackward", "LeakyReluBackward0"]
    asked, (y, h) = {*wanted, f"{bend.capitalize()}Backward0", leaf, *absent}, made()

    def look() -> dict[str, Any]:
        has_graph = x.grad is not None and x.grad.requires_grad
        return {"the set of names": sorted(asked), "x.grad has a graph": has_graph, **grads({"x": x})}

    return GraphWorld(
        (y, asked),
        lambda: (made(last_first=True)[0], {"UnbindBackward0", leaf}),
        {"x": x, "w": w, "y": y, "h": h},
        "x",
        log,
        kept,
        look,
        (y, h),
    )
