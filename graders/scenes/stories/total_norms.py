"""Stories for functions that return a list at once, to which each pass appends what arrived and what `.grad` holds."""

from typing import Any

from graders.scenes.stories.gradient_hooks import TENSOR, a_tensor
from graders.scenes.story import Call, Draw, Seen
from graders.scenes.watch import Watch

LEAF = {
    **TENSOR,
    "place": ("leaf", "parameter"),
    "grad": ("empty", "filled", "large"),
    "backward": ("plain", "create_graph"),
}


def recorded_for_all_passes(call: Call, draw: Draw, case: Any) -> Seen:
    """Gradients in any layout count, and so do zeros, and small and large numbers."""
    w, t, u, v = a_tensor(draw, case)
    log = call(t)
    if case.rank > 1:
        (t.mT * draw.tensor().mT.contiguous()).sum().backward()
    (0 * t).sum().backward()
    yield "the list after a pass of zeros", log
    (t * draw.tensor() / 4096).sum().backward()
    yield "the list after a pass of small numbers", log
    (t * draw.tensor(low=-9999.0, high=9999.0)).sum().backward()
    yield "the list after a pass of large numbers", log


def cleared_by_the_caller(call: Call, draw: Draw, case: Any) -> Seen:
    """The total follows when the caller clears `.grad`, or puts another tensor there."""
    w, t, u, v = a_tensor(draw, case)
    log = call(t)
    (t * draw.tensor()).sum().backward()
    (t * draw.tensor()).sum().backward()
    yield "the list after two passes", log
    t.grad = None
    (t * draw.tensor()).sum().backward()
    yield "the list after t.grad was None", log
    t.grad = t.detach() / 4
    (t * draw.tensor()).sum().backward()
    yield "the list after t.grad was another tensor", log


def changed_by_a_later_hook(call: Call, draw: Draw, case: Any) -> Seen:
    """The total is what a later hook left."""
    w, t, u, v = a_tensor(draw, case)
    log = call(t)
    (t * draw.tensor()).sum().backward()
    t.register_hook(lambda grad: grad / 2)
    (t * draw.tensor()).sum().backward()
    yield "the last entry", log[-1]


def nothing_changed(call: Call, draw: Draw, case: Any) -> Seen:
    """The gradients are as usual, and all else of the caller stays."""
    w, t, u, v = a_tensor(draw, case)
    before = Watch(t=t, u=u)
    log = call(t)
    yield "by the call", before.differences()
    ((t + v) * draw.tensor()).sum().backward()
    ((t + v) ** 2 * draw.tensor()).sum().backward(create_graph=True)
    yield "t.grad after two passes", t.grad.detach()
    yield "whether t.grad has a graph", t.grad.requires_grad
    yield "u.grad after two passes", u.grad.detach()
    yield "after two passes", before.differences("grad")
    yield "the list of that call", log
