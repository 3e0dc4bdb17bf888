"""Stories for functions that change the gradient of one tensor with hooks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.scene import Call
from graders.scenes.story import Draw, Seen, Watch, told

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
    low, high = {"large": (1.5, 4), "negative": (-3, -0.5), "fraction": (0.2, 0.9)}.get(case.number, (0, 0))
    return ({"zero": 0.0, "one": 1.0}[case.number] if high == 0 else draw.number(low, high, away=0),)


def two_bounds(draw: Draw, case: Any) -> tuple[float, float]:
    """Two bounds; some entries of the gradients lie below, some between and some above them."""
    low, high = draw.number(0.3, 0.9), draw.number(1.1, 1.9)
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
    """A leaf `w`; `t`, which is `w` or a view of it; and `u`, which gets the gradient of `t` through `v`, but later."""
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
    """What a pass of the kind that the case asks for makes of the gradient of `w`."""
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
    """What a pass leaves is what the function makes of it."""
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
    """Each call has its own arguments, and hooks of several calls add up."""
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
    with torch.no_grad():
        call(t, *arguments(draw, case))
        mode = torch.is_grad_enabled()
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
    with torch.no_grad():
        second = call(t, *arguments(draw, case))
    first.remove()
    (g,) = torch.autograd.grad((t * k).sum(), w)
    yield "the gradient after remove() of the first", g
    second.remove()
    (g,) = torch.autograd.grad((t * k).sum(), w)
    yield "the gradient after remove() of both", g
    yield "after remove() of both", before.differences()


def one_of_two_equal_calls(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Equal calls have a hook each."""
    w, t, u, v = a_tensor(draw, case)
    more = arguments(draw, case)
    call(t, *more)
    handle = call(t, *more)
    handle.remove()
    (g,) = torch.autograd.grad((t * draw.tensor()).sum(), w)
    yield "the gradient after remove() of one of two equal calls", g


HANDLES = (one_of_two_equal_calls, removed_by_handles)

# For functions that return several handles, or get functions.

FUNCTIONS = {"collection": ("many", "one", "repeated")}


@told
def some_functions(draw: Draw, case: Any) -> Any:
    """Functions of a gradient that do not commute."""
    if case.collection == "one":
        fs = [lambda g: -1.7 * g]
    if case.collection == "many":
        fs = [lambda g: g + 0.6, lambda g: g.clamp(-1.4, 1.4), lambda g: -1.7 * g]
    if case.collection == "repeated":
        plus = lambda g: g + 0.6  # noqa: E731 - a line of the program
        fs = [lambda g: -1.7 * g, plus, plus]
    return (fs,)


def called_once_in_each_pass(call: Call, draw: Draw, case: Any) -> Seen:
    """Each function is called once for each pass, and not before."""
    w, t, u, v = a_tensor(draw, case)
    calls = []
    call(t, [lambda g: calls.append("first") or g + 1, lambda g: calls.append("last") or 2 * g])
    call(u, [lambda g: calls.append("never") or g + 1])
    yield "the calls before any pass", calls
    (t * draw.tensor() + t * draw.tensor()).sum().backward()
    (0 * t).sum().backward()
    yield "the calls of two passes", calls


def functions_may_raise(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of a function comes through."""
    w, t, u, v = a_tensor(draw, case)
    factors = {"of g": 2}
    call(t, [lambda g: g + 1, lambda g: g * factors["of g"]])
    factors.clear()
    raised = None
    try:
        (t * draw.tensor()).sum().backward()
    except KeyError as error:
        raised = repr(error)
    yield "the exception", raised


def removed_by_a_list(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The handles in the list take away the hooks of their own call, and no other."""
    w, t, u, v = a_tensor(draw, case)
    k = draw.tensor()
    before = Watch(t=t, w=w, u=u)
    first = call(t, *arguments(draw, case))
    yield "the type of what comes back", type(first).__name__
    (g,) = torch.autograd.grad((t * k).sum(), w)
    yield "the gradient after a call", g
    with torch.no_grad():
        second = call(t, *arguments(draw, case))
    for handle in first:
        handle.remove()
    (g,) = torch.autograd.grad((t * k).sum(), w)
    yield "the gradient after the first list is removed", g
    for handle in second:
        handle.remove()
    (g,) = torch.autograd.grad((t * k).sum(), w)
    yield "the gradient after both lists are removed", g
    yield "after both lists are removed", before.differences()


def one_of_two_equal_lists(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Equal calls have hooks each."""
    w, t, u, v = a_tensor(draw, case)
    more = arguments(draw, case)
    call(t, *more)
    for handle in call(t, *more):
        handle.remove()
    (g,) = torch.autograd.grad((t * draw.tensor()).sum(), w)
    yield "the gradient after one of two equal calls is undone", g


HANDLES_IN_A_LIST = (one_of_two_equal_lists, removed_by_a_list)


# For functions that return a dict at once, and fill it in each pass.


def logged_in_each_pass(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The dict is empty at first, and holds what a pass brought."""
    w, t, u, v = a_tensor(draw, case)
    log = call(t, *arguments(draw, case))
    yield "the log at once", log
    loss = (t * draw.tensor()).sum()
    the_gradient(case, loss, w)
    yield "the log after a pass", log
    ((t * draw.tensor()).sum() + (t * draw.tensor()).sum()).backward()
    yield "the log after a pass with two uses", log
    (0 * t).sum().backward()
    yield "the log after a pass of zeros", log
    (t * draw.tensor()).sum().backward()
    yield "the log after another pass", log


def logged_by_each_call(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Each call has a dict of its own, and logs what the hooks before it left."""
    w, t, u, v = a_tensor(draw, case)
    more = arguments(draw, case)
    first = call(t, *more)
    second = call(t, *more)
    third = call(u, *arguments(draw, case))
    ((t + u) * draw.tensor()).sum().backward()
    yield "the log of the first call", first
    yield "the log of the second call", second
    yield "the log of another tensor", third
    yield "two calls have one dict", first is second


def kept_apart(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The entries are copies: nobody who writes into a gradient changes them, and no later pass."""
    w, t, u, v = a_tensor(draw, case)
    log = call(t, *arguments(draw, case))
    t.register_hook(lambda g: g.mul_(0))
    v.register_hook(lambda g: g.mul_(0))
    ((t + v) * draw.tensor()).sum().backward()
    yield "the log after later hooks have overwritten the gradients", log
    raw, clipped = log["raw"], log["clipped"]
    ((t + v) * draw.tensor()).sum().backward()
    yield "the entries of a pass after the next one", [raw, clipped]
    log["raw"].mul_(0)
    yield "the log after its raw entry was overwritten", log


def logged_without_a_graph(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The entries have no graph, also in a pass that makes one."""
    w, t, u, v = a_tensor(draw, case)
    log = call(t, *arguments(draw, case))
    (t * t * draw.tensor()).sum().backward(create_graph=True)
    yield "the log of a pass with create_graph", log


COPIES = (kept_apart, logged_without_a_graph)


# For functions that return the values of `t`, and change the gradient on its way from there.


def a_positive_number(draw: Draw, case: Any) -> tuple[float]:
    """A number above 0."""
    return (draw.number(0.2, 4, away=0),)


def reversed_behind_y(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The values stay, and what passes through y is changed."""
    w, t, u, v = a_tensor(draw, case)
    y = call(t, *arguments(draw, case))
    yield "y", y.detach()
    yield "y is x", y is t
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


def every_call_and_pass(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Another pass through the same y counts, and so does another call."""
    w, t, u, v = a_tensor(draw, case)
    y = call(t, *arguments(draw, case))
    z = call(u, *arguments(draw, case))
    yield "y after another call", y.detach()
    ((y + z) * draw.tensor()).sum().backward(retain_graph=True)
    (y * draw.tensor()).sum().backward()
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
