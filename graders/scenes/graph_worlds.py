"""A world for `graders.scenes.recorders.runs_passes`: a deep graph with branches, whose nodes may get hooks."""

import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.witness import Change, Witness
from graders.scenes.worlds import Callback, World, a_leaf, draw_tensors, leaf_grads, register_hooks
from graders.wire.draws import Rng


@dataclass
class GraphWorld(World):
    """A world with a graph. Hooks left on its nodes cannot be listed, so another pass shows whether any are called."""

    ends: tuple[Tensor, ...] = ()
    """The last tensor of the graph, and one near its beginning."""

    def changes(self, witness: Witness) -> list[Change]:
        """The changes, and whether a pass through the graph calls a function that is not the caller's."""
        called: list[str] = []

        def note(frame: FrameType, event: str, arg: Any) -> None:
            if event == "call" and not frame.f_globals.get("__name__", "").startswith(
                ("graders.sandbox.inside", "graders.scenes")
            ):
                called.append(frame.f_code.co_name)

        found = super().changes(witness)
        (end, begin), engine = self.ends, torch.autograd.Variable._execution_engine  # it calls nothing but hooks
        start = torch.ones_like(end)
        sys.setprofile(note)
        try:
            engine.run_backward((end,), (start,), True, False, (begin,), accumulate_grad=False)
        except Exception:  # the graph was freed, and the pass ended at the first node that needs what it saved
            pass
        finally:
            sys.setprofile(None)
        return [*found, ["hook-left", "the graph"]] if called else found


def a_graph(rng: Rng, case: Any, backward: Callback = None) -> World:
    """For `function(y, node_names)`: a scalar at the end of the graph, and names of nodes, one of which is not in it.

    The node of the sine gets a gradient of zeros.
    """
    values, w, weights = draw_tensors(rng, case, 3)
    x, log, kept = a_leaf(values, case, "x"), list[str](), list[Tensor]()
    after: Any = x.register_post_accumulate_grad_hook
    after(lambda leaf: log.append("x.grad is filled"))
    bend, other = rng.shuffled(["tanh", "sigmoid"])

    def made() -> tuple[Tensor, Tensor]:
        first, last = torch.stack([x, w]).unbind()
        h = torch.addcmul(first, first, last)
        CallersHooks(case.hooks).on_tensor(h, "h")
        register_hooks(h, kept.append, backward)
        t = h.sin().clamp(min=7) + h.exp()
        for _ in range(6):
            t = t + t
        t = t / 512
        for _ in range(0 if backward else 1200):
            t = t.expand_as(t)
        return (getattr(torch, bend)(t) * weights).sum(), h

    leaf = get_gradient_edge(x).node.name()
    names = "Sum", "Mul", "Exp", "Sin", "Addcmul", "Unbind", "Stack", bend.capitalize(), other.capitalize()
    asked, (y, h) = {leaf, *(f"{name}Backward0" for name in names)}, made()

    def look() -> dict[str, Any]:
        has_graph = x.grad is not None and x.grad.requires_grad
        return {"the set of names": sorted(asked), "x.grad has a graph": has_graph, **leaf_grads({"x": x})}

    return GraphWorld(
        (y, asked),
        lambda: (made()[0], {"UnbindBackward0", leaf}),
        {"x": x, "w": w, "y": y, "h": h},
        "x",
        log,
        kept,
        look,
        (y, h),
    )
