"""Stories for a function that puts one hook on several tensors. It returns a list, with a float per pass, and a handle.

The caller does not use `torch.autograd.grad`, because torch's joint hooks do not support it.
"""

from typing import Any

import torch
from torch import nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

AXES = {
    "dtype": ("float32", "float64"),
    "place": ("leaf", "non-leaf", "parameter"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching", "replacing"),
}


@told
def a_group(draw: Draw, case: Any) -> Any:
    """A leaf, the tensor that is made from it or itself, and two more leaves of other shapes."""
    if case.place == "parameter":
        w = nn.Parameter(draw.tensor(2, 2))
    else:
        w = draw.tensor(2, 2).requires_grad_()
    a = w
    if case.place == "non-leaf":
        a = 2 * w
    b = draw.tensor(3).requires_grad_()
    c = draw.tensor(1)[0].requires_grad_()
    if case.grad == "filled":
        w.grad, c.grad = torch.ones_like(w), torch.ones_like(c)
    if case.hooks == "watching":
        a.register_hook(lambda grad: None)
    if case.hooks == "replacing":
        a.register_hook(lambda grad: -2 * grad)
    return w, a, b, c


def appended(call: Call, draw: Draw, case: Any) -> Seen:
    """Each pass appends the joint norm of what arrives."""
    w, a, b, c = a_group(draw, case)
    log, handle = call([a, b, c])
    (3 * a.mT.sum() + 2 * (b * b).sum() + c).backward(retain_graph=True)
    yield "the list after a pass that reaches all", log
    (a.sum() + (draw.tensor(2, 2) * a).sum()).backward(retain_graph=True)
    yield "the list after a pass that reaches one", log
    b.sum().backward()
    (2 * b.sum() - c).backward()
    yield "the list after passes that reach others", log


def zeros(call: Call, draw: Draw, case: Any) -> Seen:
    """Zeros count, where nothing arrives there is no entry, and a call under no_grad is like any other."""
    w, a, b, c = a_group(draw, case)
    log, handle = call([a, b])
    (0 * (a.sum() + b.sum())).backward(retain_graph=True)
    yield "the list after a pass of zeros", log
    (2 * c).backward()
    yield "the list after a pass that reaches none", log
    torch.set_grad_enabled(False)
    other, of_c = call([c])
    enabled = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    yield "grad mode after a call under no_grad", enabled
    (-3 * c).backward()
    of_c.remove()
    (-2 * c).backward()
    yield "the list of one tensor", other


def stopped(call: Call, draw: Draw, case: Any) -> Seen:
    """A pass that an exception stops appends nothing, and leaves nothing for the next."""
    w, a, b, c = a_group(draw, case)
    first = 1 * a  # made first, so that a backward pass comes here last
    log, handle = call([a, b, c])

    def fails(grad: Any) -> None:
        raise ValueError("on purpose")

    failing = first.register_hook(fails)
    try:
        (first.sum() + 3 * b.sum() + 4 * c).backward(retain_graph=True)
    except ValueError:
        failing.remove()
    yield "the list after a pass that was stopped", log
    (first.sum() + 4 * b.sum()).backward()
    yield "the list after the next pass", log


def several_calls(call: Call, draw: Draw, case: Any) -> Seen:
    """Each call has a list of its own, whether or not its handle is kept."""
    w, a, b, c = a_group(draw, case)
    log, handle = call([a, b])
    other = call([b, c])[0]
    again = call([a, b])[0]
    (a.sum() + 2 * b.sum()).backward(retain_graph=True)
    (3 * c).backward()
    yield "the list of the first call", log
    yield "the list of a call for other tensors", other
    yield "the list of a second call for the same tensors", again
    u = draw.tensor(2).requires_grad_()
    alone = call([u])[0]
    (u * u * u).sum().backward(create_graph=True)
    yield "the list after a pass with create_graph", alone


def unchanged_flow(call: Call, draw: Draw, case: Any) -> Seen:
    """Gradients arrive as they would without the hook."""
    w, a, b, c = a_group(draw, case)
    call([a, b, c])
    ((draw.tensor(2, 2) * a).sum() + 2 * b.sum()).backward()
    yield "w.grad", w.grad
    yield "b.grad and c.grad", (b.grad, c.grad)
    u = draw.tensor(2).requires_grad_()
    call([u])
    (u * u).sum().backward(create_graph=True)
    yield "u.grad of a pass with create_graph", u.grad


def removed(call: Call, draw: Draw, case: Any) -> Seen:
    """Each handle ends the logging of its own call."""
    w, a, b, c = a_group(draw, case)
    log, handle = call([a, b])
    again, second = call([a, b])
    handle.remove()
    (a.sum() + 2 * b.sum()).backward(retain_graph=True)
    yield "the list after its remove()", log
    yield "the list of another call", again
    second.remove()
    (a.sum() + 2 * b.sum()).backward()
    yield "both lists after the other remove()", (log, again)


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing else changes, and no hook is left."""
    w, a, b, c = a_group(draw, case)
    tensors = [a, b, c]
    before = Watch(w=w, a=a, b=b, c=c, tensors=tensors)
    log, handle = call(tensors)
    (a.sum() + 2 * b.sum()).backward()
    yield "the list", log
    handle.remove()
    yield "after remove()", before.differences("grad")
