"""Stories that show whether something keeps the graph of a run alive."""

from typing import Any

import torch
from torch import Tensor

from graders.scenes.stories.captures import Function, Names, a_model
from graders.scenes.story import Call, Draw, Seen


def no_graph_kept(call: Call, draw: Draw, case: Any, names: Names, function: Function) -> Seen:
    """Nothing keeps the graph alive."""
    import gc
    import weakref

    capture = function(call, case)
    model, x = a_model(draw, case)
    saved: list[Any] = []

    def pack(t: Tensor) -> Tensor:
        kept = t.detach()
        saved.append(weakref.ref(kept))
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
        found = capture(model, *names(draw, case), x)
    if any(ref() is not None for ref in saved):
        gc.collect()
    yield "tensors that the graph saved, and that are still there", sum(ref() is not None for ref in saved)
    yield "whether the result has a graph", found.requires_grad
