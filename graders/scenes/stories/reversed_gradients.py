"""Stories for functions that return the values of a tensor, and change the gradient on its way from there."""

from typing import Any

import torch

from graders.scenes.stories.gradient_hooks import Arguments, a_tensor, the_gradient
from graders.scenes.story import Call, Draw, Seen
from graders.scenes.watch import Watch


def a_positive_number(draw: Draw, case: Any) -> tuple[float]:
    """A number above 0."""
    return (draw.number(0.2, 4, away=0),)


def reversed_behind_y(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The values stay, and what passes through y is changed."""
    w, t, u, v = a_tensor(draw, case)
    y = call(t, *arguments(draw, case))
    yield "y", y.detach()
    loss = (y * draw.tensor()).sum()
    g = the_gradient(case, loss, w)
    yield "the gradient of w", g
    tiny = torch.tensor([1e-6, -3e-7], requires_grad=True)
    z = call(tiny, *arguments(draw, case))
    yield "y of small values", z.detach()


def only_behind_y(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """What reaches w by another way stays as it is."""
    w, t, u, v = a_tensor(draw, case)
    y = call(t, *arguments(draw, case))
    ((y * draw.tensor()).sum() + (t * draw.tensor()).sum()).backward()
    yield "w.grad of two ways", w.grad
    yield "y is x", y is t


def every_call_and_pass(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Another pass through the same y counts, and so does another call."""
    w, t, u, v = a_tensor(draw, case)
    y = call(t, *arguments(draw, case))
    z = call(u, *arguments(draw, case))
    yield "y after another call", y.detach()
    ((y + z) * draw.tensor()).sum().backward(retain_graph=True)
    loss = (y * draw.tensor()).sum()
    if case.rank > 1:
        loss = (y.mT * draw.tensor().mT.contiguous()).sum()
    loss.backward()
    yield "w.grad after two passes", w.grad
    yield "u.grad", u.grad


def reversed_again(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The reversed gradient has a graph if the pass makes one."""
    w, t, u, v = a_tensor(draw, case)
    k = draw.tensor().requires_grad_()
    y = call(t, *arguments(draw, case))
    (g,) = torch.autograd.grad((y * k).sum(), w, create_graph=True, allow_unused=True)
    again = torch.autograd.grad(g.sum(), k, allow_unused=True)[0] if g is not None and g.requires_grad else None
    yield "the gradient differentiated", again


def neighbours_of_y(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """What gets the same gradient as y has its usual one."""
    w, t, u, v = a_tensor(draw, case)
    y = call(t, *arguments(draw, case))
    ((y + v) * draw.tensor()).sum().backward()
    yield "the gradient of u", u.grad


def left_alone(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The call leaves everything of the caller as it is."""
    w, t, u, v = a_tensor(draw, case)
    before = Watch(t=t, w=w)
    call(t, *arguments(draw, case))
    yield "by the call", before.differences()


def of_a_constant(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The values of a tensor that requires no grad come back."""
    x = draw.tensor()
    y, raised = None, None
    try:
        y = call(x, *arguments(draw, case))
    except RuntimeError as error:
        raised = repr(error)
    yield "an error where x requires no grad", raised
    yield "y of a tensor that requires no grad", y.detach()
    yield "y requires grad", y.requires_grad


def under_no_grad(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The values come back under `no_grad`, without a graph, and nothing is left."""
    w, t, u, v = a_tensor(draw, case)
    before = Watch(t=t, w=w)
    y, raised = None, None
    try:
        with torch.no_grad():
            y = call(t, *arguments(draw, case))
    except RuntimeError as error:
        raised = repr(error)
    yield "an error under no_grad", raised
    yield "y under no_grad", y.detach()
    yield "y has a graph", y is not t and y.grad_fn is not None
    yield "by a call under no_grad", before.differences()


WITHOUT_GRADIENTS = (of_a_constant, under_no_grad)
