"""Stories for functions that change the gradient of one tensor with hooks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

Arguments = Callable[[Draw, Any], tuple[Any, ...]]
"""The other arguments of the call, besides the tensor."""
TENSOR = {
    "dtype": ("float32", "float64"),
    "rank": (1, 0, 2, 3),
    "place": ("leaf", "non-leaf", "parameter"),
    "layout": ("contiguous", "transposed"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching", "replacing"),
    "backward": ("plain", "create_graph", "autograd.grad", "after an aborted one"),
}
IMPOSSIBLE = (lambda rank, layout: rank < 2 and layout == "transposed",)
NUMBER = {"number": ("large", "negative", "zero", "fraction", "one")}
BOUNDS = {"bounds": ("between", "below 0", "above 0", "from 0", "up to 0", "wide")}
ROWS = {"rank": (1, 2, 3), "place": ("parameter",), "sizes": ("equal",), "rows": ("one", "many", "repeated", "all")}


def a_number(draw: Draw, case: Any) -> tuple[float]:
    """A number, as the case says."""
    number = {
        "large": draw.number(1.5, 4),
        "negative": draw.number(-3, -0.5),
        "zero": 0.0,
        "fraction": draw.number(0.2, 0.9, away=0),
        "one": 1.0,
    }[case.number]
    return (number,)


def two_bounds(draw: Draw, case: Any) -> tuple[float, float]:
    """Two bounds. Except for "wide", some entries of the gradients lie below, some between and some above them.

    None lies on a bound, where `maximum` has half the derivative of `clamp`.
    """
    low, high = round(draw.number(0.3, 0.9) + 0.04, 2), round(draw.number(1.1, 1.9) + 0.04, 2)
    return {
        "between": (-low, high), "below 0": (-high, -low), "above 0": (low, high),
        "from 0": (0.0, high), "up to 0": (-high, 0.0), "wide": (-1e6, 1e3),
    }[case.bounds]  # fmt: skip


def some_rows(draw: Draw, case: Any) -> tuple[list[int]]:
    """Indexes of rows: one; all but one; all; or two, the first of them twice."""
    rows = draw.shuffled(range(draw.shape[0]))
    many = {"one": rows[:1], "many": rows[1:], "repeated": [rows[0], rows[1], rows[0]], "all": rows}
    return (many[case.rows],)


@told
def a_tensor(draw: Draw, case: Any) -> Any:
    """A leaf `w`; `t`, which is `w` or a view of it; and another leaf `u`, with `v = -u`.

    In a loss of `t + v`, both share one gradient, and `t` gets it first: a hook that writes into it spoils `u.grad`.
    """
    u = draw.tensor().requires_grad_()
    v = -u
    if case.place == "parameter":
        w = nn.Parameter(draw.tensor())
    else:
        w = draw.tensor().requires_grad_()
    if case.layout == "transposed":
        w.data = w.data.mT.contiguous().mT
    if case.grad == "filled":
        w.grad = torch.full_like(w, 0.7)
    if case.grad == "large":
        w.grad = torch.full_like(w, 2.0**60)
    if case.place == "non-leaf":
        t = w.view_as(w)
    else:
        t = w
    if case.hooks == "watching":
        t.register_hook(lambda grad: None)
    if case.hooks == "replacing":
        t.register_hook(lambda grad: 2 * grad)
    return w, t, u, v


@told
def the_gradient(case: Any, loss: Tensor, w: Tensor) -> Any:
    """Run a pass of the kind that the case asks for; returns the gradient of `w`."""
    if case.backward == "after an aborted one":
        broken = w.register_hook(lambda grad: 1 / 0)
        try:
            loss.backward(retain_graph=True)
        except ZeroDivisionError:
            broken.remove()
    if case.backward == "autograd.grad":
        (g,) = torch.autograd.grad(loss, w)
    elif case.backward == "create_graph":
        loss.backward(create_graph=True)
        g = w.grad.detach()
    else:
        loss.backward()
        g = w.grad
    return g


def changed_in_a_pass(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """A pass leaves the changed gradient."""
    w, t, u, v = a_tensor(draw, case)
    call(t, *arguments(draw, case))
    loss = (t * draw.tensor()).sum()
    g = the_gradient(case, loss, w)
    yield "the gradient of w", g


def changed_in_each_of_two(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Passes are changed one by one."""
    w, t, u, v = a_tensor(draw, case)
    call(t, *arguments(draw, case))
    (t * draw.tensor()).sum().backward()
    (t * draw.tensor()).sum().backward()
    yield "w.grad after two passes", w.grad


def changed_as_a_whole(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """A pass is changed once, however its gradient reaches the tensor."""
    w, t, u, v = a_tensor(draw, case)
    call(t, *arguments(draw, case))
    if case.rank > 1:
        (t.mT * draw.tensor().mT.contiguous()).sum().backward()
    ((t * draw.tensor()).sum() + (t * draw.tensor()).sum()).backward()
    yield "w.grad after a pass with two uses", w.grad


def changed_for_all_numbers(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Zeros and large numbers are changed, too."""
    w, t, u, v = a_tensor(draw, case)
    call(t, *arguments(draw, case))
    (0 * t).sum().backward()
    yield "w.grad after a pass of zeros", w.grad
    (t * draw.tensor(low=-9999.0, high=9999.0)).sum().backward()
    yield "w.grad after a pass of large numbers", w.grad


EVERY_PASS = (changed_in_each_of_two, changed_as_a_whole, changed_for_all_numbers)


def differentiated_again(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The changed gradient has a graph if the pass makes one."""
    w, t, u, v = a_tensor(draw, case)
    call(t, *arguments(draw, case))
    k = draw.tensor().requires_grad_()
    (g,) = torch.autograd.grad((t * k).sum(), w, create_graph=True)
    again = torch.autograd.grad(g.sum(), k, allow_unused=True)[0] if g.requires_grad else None
    yield "the gradient differentiated", again


def several_at_a_time(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Each call has its own arguments, and hooks of several calls act one after the other."""
    w, t, u, v = a_tensor(draw, case)
    k = draw.tensor()
    call(t, *arguments(draw, case))
    call(u, *arguments(draw, case))
    (g, h) = torch.autograd.grad(((t + u) * k).sum(), [w, u])
    yield "the gradient of w", g
    yield "the gradient of u", h
    call(t, *arguments(draw, case))
    (g,) = torch.autograd.grad((t * k).sum(), w)
    yield "the gradient of w after two calls", g


def nothing_else(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The neighbour has its usual gradient, and all else of the caller stays."""
    w, t, u, v = a_tensor(draw, case)
    more = arguments(draw, case)
    before = Watch(t=t, w=w, u=u, more=more)
    call(t, *more)
    yield "by the call", before.differences()
    ((t + v) * draw.tensor()).sum().backward()
    yield "the gradient of u", u.grad
    ((t + v) * draw.tensor()).sum().backward(create_graph=True)
    yield "the gradient of u after a pass with create_graph", u.grad.detach()


def nothing_under_no_grad(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """A call under `no_grad` leaves everything as it is, and works."""
    w, t, u, v = a_tensor(draw, case)
    before = Watch(t=t, w=w)
    raised = None
    with torch.no_grad():
        try:
            call(t, *arguments(draw, case))
        except RuntimeError as error:
            raised = repr(error)
        mode = torch.is_grad_enabled()
    yield "an error under no_grad", raised
    yield "by a call under no_grad", before.differences()
    yield "grad mode after it", mode
    (t * draw.tensor()).sum().backward()
    yield "w.grad after a call under no_grad", w.grad


NOTHING_ELSE = (nothing_else, nothing_under_no_grad)


def removed_by_handles(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Each handle takes away the hook of its own call, and no other."""
    w, t, u, v = a_tensor(draw, case)
    k = draw.tensor()
    before = Watch(t=t, w=w, u=u)
    first = call(t, *arguments(draw, case))
    (g,) = torch.autograd.grad((t * k).sum(), w)
    yield "the gradient after a call", g
    second = call(t, *arguments(draw, case))
    first.remove()
    (g,) = torch.autograd.grad((t * k).sum(), w)
    yield "the gradient after remove() of the first", g
    second.remove()
    (g,) = torch.autograd.grad((t * k).sum(), w)
    yield "the gradient after remove() of both", g
    yield "after remove() of both", before.differences()


def one_of_two_equal_calls(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Two equal calls register two hooks."""
    w, t, u, v = a_tensor(draw, case)
    more = arguments(draw, case)
    call(t, *more)
    handle = call(t, *more)
    handle.remove()
    (g,) = torch.autograd.grad((t * draw.tensor()).sum(), w)
    yield "the gradient after remove() of one of two equal calls", g


HANDLES = (one_of_two_equal_calls, removed_by_handles)
