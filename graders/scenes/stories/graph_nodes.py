"""Stories for a function that runs a backward pass, and returns the gradients that arrive at nodes of its graph."""

from typing import Any

import torch
from torch import nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

AXES = {
    "graph": ("plain", "branches", "several outputs", "zeros", "deep", "many paths"),
    "dtype": ("float32", "float64"),
    "place": ("leaf", "parameter"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching", "replacing"),
    "failure": ("ValueError", "KeyboardInterrupt", "RuntimeError"),
}


@told
def a_graph(draw: Draw, case: Any) -> Any:
    """A leaf, an inner tensor, a scalar at the end, and names of nodes, of which some are in the graph."""
    if case.place == "parameter":
        w = nn.Parameter(draw.tensor(2, 3, low=-1.2, high=1.2))
    else:
        w = draw.tensor(2, 3, low=-1.2, high=1.2).requires_grad_()
    if case.grad == "filled":
        w.grad = torch.ones_like(w)
    h = torch.addcmul(w, w, w)
    if case.hooks == "watching":
        h.register_hook(lambda grad: None)
    if case.hooks == "replacing":
        h.register_hook(lambda grad: -2 * grad)
    if case.graph == "branches":
        t = nn.functional.leaky_relu(h) + h.exp()
    elif case.graph == "several outputs":
        first, last = h.unbind()
        t = first.sin() + last
    elif case.graph == "zeros":
        t = h.sin().clamp(min=7) + h.exp()
    elif case.graph == "deep":
        t = h.exp()
        for _ in range(1500):
            t = t.view_as(t)
    elif case.graph == "many paths":
        t = h.exp()
        for _ in range(40):
            t = t + t
        t = t / 2**40
    else:
        t = h.exp()
    y = (t * draw.tensor(3)).sum()
    nodes = "Sum", "Mul", "Exp", "Sin", "Unbind", "Addcmul", "Relu"
    names = {"torch::autograd::AccumulateGrad"} | {node + "Backward0" for node in nodes}
    return w, h, y, names


@told
def called_by_another_pass(y: Any) -> Any:
    """The functions, but for those of Python and torch, that another pass through the same graph calls."""
    import sys

    called: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        package = frame.f_globals.get("__name__", "").split(".")[0]
        if event == "call" and package not in ("torch", *sys.stdlib_module_names):
            called.append(frame.f_code.co_name)

    try:
        sys.setprofile(note)
        y.backward()
    finally:
        sys.setprofile(None)
    return called


def arriving(call: Call, draw: Draw, case: Any) -> Seen:
    """Of each of these nodes there is the gradient that arrives."""
    w, h, y, names = a_graph(draw, case)
    found = call(y, names)
    yield "the result", found
    found = call((1e-9 * w.exp()).sum(), names)
    yield "the result for tiny gradients", found


def filled(call: Call, draw: Draw, case: Any) -> Seen:
    """Backward runs once, and fills the leaves."""
    w, h, y, names = a_graph(draw, case)
    sums: list[Any] = []
    w.register_post_accumulate_grad_hook(lambda leaf: sums.append(leaf.grad.sum()))
    call(y, names)
    yield "the names", sorted(names)
    yield "w.grad", w.grad
    yield "the sum of w.grad each time it was filled", sums


def afresh(call: Call, draw: Draw, case: Any) -> Seen:
    """Neither of two calls affects the result of the other."""
    w, h, y, names = a_graph(draw, case)
    found = call(y, names)
    later = call((torch.addcmul(w, w, w).exp() * -3).sum(), names)
    yield "the result of a later call", later
    yield "the result of the first call after that", found


def called_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A hook of the caller may make such a call for another graph."""
    w, h, y, names = a_graph(draw, case)
    u = draw.tensor(2).requires_grad_()
    inner: list[Any] = []

    def calls_inside(grad: Any) -> None:
        if not inner:
            inner.append("once")
            with torch.enable_grad():
                inner.append(call((u * u).exp().sum(), {"ExpBackward0", "MulBackward0"}))

    h.register_hook(calls_inside)
    found = call(y, names)
    yield "the result around another call", found
    yield "the result of the call inside", inner


def of_their_own(call: Call, draw: Draw, case: Any) -> Seen:
    """Writing into a gradient changes nothing in the result."""
    w, h, y, names = a_graph(draw, case)
    kept: list[Any] = []
    h.register_hook(kept.append)
    found = call(y, names)
    for grad in (w.grad, *kept):
        grad.zero_()
    yield "the result after the caller overwrote its gradients", found
    for number, name in enumerate(sorted(found)):
        found[name].data.fill_(number)
    yield "the result after its entries were numbered", found


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing else changes."""
    w, h, y, names = a_graph(draw, case)
    before = Watch(w=w, h=h, y=y)
    call(y, names)
    yield "by the call", before.differences("grad")
    yield "w.grad has a graph", w.grad.requires_grad


def no_hook_left(call: Call, draw: Draw, case: Any) -> Seen:
    """No hook is left on the nodes."""
    w = draw.tensor(2, 3).requires_grad_()
    y = (w + w.mT.mT).sum()  # this graph saves nothing, so it can be used again
    call(y, {"AddBackward0", "TransposeBackward0"})
    called = called_by_another_pass(y)
    yield "whether another pass calls a hook that is left", len(called) > 0


def something_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of backward comes through, and no hook is left."""
    w = draw.tensor(2, 3).requires_grad_()
    yield "the result of a call in which nothing fails", call((w * w).sum(), {"MulBackward0", "SumBackward0"})
    y = (w + w.mT.mT).sum()
    error = draw.error(case.failure)

    def fails(grad: Any) -> None:
        raise error

    failing = w.register_hook(fails)
    came = None
    try:
        call(y, {"AddBackward0", "TransposeBackward0"})
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    failing.remove()
    called = called_by_another_pass(y)
    yield "whether another pass calls a hook that is left", len(called) > 0
