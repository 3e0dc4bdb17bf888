"""Stories for functions that run one backward pass, and return gradients of several tensors."""

from typing import Any

import torch

from graders.scenes.stories.failing import an_error
from graders.scenes.stories.passes import a_leaf
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

# For `function(tensors, loss)`, with a dict of tensors.


@told
def named_tensors(draw: Draw, case: Any) -> Any:
    """A leaf `x`, and tensors on the way from it to a loss: one under two names, two that share their gradients."""
    x = a_leaf(draw, case)
    q = draw.tensor().requires_grad_()
    zeroed = draw.tensor().requires_grad_()
    unused = draw.tensor().requires_grad_()
    a = x / 2
    b = a * a
    c = b + q
    c.retain_grad()
    if case.rank > 1:
        loss = (c.mT * draw.tensor().mT.contiguous()).sum() + (0 * zeroed).sum()
    else:
        loss = (c * draw.tensor()).sum() + (0 * zeroed).sum()
    if case.hooks == "replacing":
        b.register_hook(lambda grad: 2 * grad)
        loss.register_hook(lambda grad: 3 * grad)
    tensors = {"loss": loss, "x": x, "a": a, "b": b, "c": c, "q": q, "zeroed": zeroed, "unused": unused, "again": loss}
    return x, q, zeroed, a, b, c, loss, tensors


def gradients_of_three(call: Call, draw: Draw, case: Any) -> Seen:
    """Each tensor on a plain way from a leaf to the loss has its gradient under its name."""
    x = a_leaf(draw, case)
    a = x / 2
    b = a * a
    loss = (b * draw.tensor()).sum()
    found = call({"b": b, "x": x, "a": a}, loss)
    yield "the result of three tensors", found


def gradients_by_name(call: Call, draw: Draw, case: Any) -> Seen:
    """Each tensor that the gradient reaches has its own under its name."""
    x, q, zeroed, a, b, c, loss, tensors = named_tensors(draw, case)
    found = call(tensors, loss)
    yield "the result", found


def one_backward(call: Call, draw: Draw, case: Any) -> Seen:
    """`backward()` runs once, without arguments, and fills what it always fills, also for a leaf without a name."""
    x, q, zeroed, a, b, c, loss, tensors = named_tensors(draw, case)
    tensors.pop("q")
    passes: list[Any] = []
    loss.register_hook(lambda grad: passes.append("a pass"))
    call(tensors, loss)
    yield "x.grad", x.grad
    yield "q.grad", q.grad
    yield "zeroed.grad", zeroed.grad
    yield "c.grad, for which the caller asked", c.grad
    yield "the passes", passes
    freed = False
    try:
        loss.backward()
    except RuntimeError:
        freed = True
    yield "the graph is freed", freed


def named_again(call: Call, draw: Draw, case: Any) -> Seen:
    """Later calls get other names, and keep the results of earlier ones."""
    x, q, zeroed, a, b, c, loss, tensors = named_tensors(draw, case)
    found = call(tensors, loss)
    later = call({"b": x, "new": zeroed}, (3 * x).sum())
    yield "the result of a later call", later
    yield "the result of the first call after that", found


def named_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A hook of the caller may call the function for another loss."""
    x, q, zeroed, a, b, c, loss, tensors = named_tensors(draw, case)
    inner: list[Any] = []

    def calls_inside(grad: Any) -> None:
        with torch.enable_grad():
            r = torch.tensor([1.3, -0.4], requires_grad=True)
            inner.append(call({"x": r, "r": r}, (r * r).sum()))

    a.register_hook(calls_inside)
    found = call(tensors, loss)
    yield "the result around another call", found
    yield "the result of the call inside", inner


NAMED_AFRESH = (named_again, named_inside)


def named_copies(call: Call, draw: Draw, case: Any) -> Seen:
    """Writing into a gradient or an entry changes no other entry."""
    x, q, zeroed, a, b, c, loss, tensors = named_tensors(draw, case)
    kept: list[Any] = []
    b.register_hook(kept.append)
    c.register_hook(kept.append)
    found = call(tensors, loss)
    for grad in (*kept, x.grad, c.grad, q.grad, zeroed.grad):
        grad.zero_()
    yield "the result after gradients were overwritten", found
    for number, name in enumerate(sorted(found)):
        found[name].data.fill_(number)
    yield "the result after its entries were numbered", found


def nothing_else_named(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    x, q, zeroed, a, b, c, loss, tensors = named_tensors(draw, case)
    before = Watch(x=x, q=q, a=a, b=b, c=c, loss=loss, tensors=tensors)
    found = call(tensors, loss)
    yield "by the call", before.differences("grad")
    yield "the result of that call", found


def a_hook_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception in the backward pass comes through, and nothing is left."""
    x, q, zeroed, a, b, c, loss, tensors = named_tensors(draw, case)
    error = an_error(draw, case)

    def fails(grad: Any) -> None:
        raise error

    a.register_hook(fails)
    before = Watch(x=x, q=q, a=a, b=b, c=c, loss=loss, tensors=tensors)
    came = None
    try:
        call(tensors, loss)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences("grad")
    yield "q.grad after an exception", q.grad


# For `function(x, k, loss_fn)`, which overwrites a tensor.

TAILS = {
    "number": ("negative", "one", "zero", "fraction"),
    "tail": ("linear", "in place", "nonlinear in place", "in place on a view"),
}


def a_factor(draw: Draw, case: Any) -> float:
    """A number, as the case says."""
    numbers = {"zero": 0.0, "one": 1.0, "negative": -draw.number(0.5, 3), "fraction": draw.number(0.3, 0.9)}
    return numbers[case.number]


@told
def a_loss_of_three_x(draw: Draw, case: Any) -> Any:
    """A leaf `x`, a number, and a loss of a tensor that also uses `x`, and another leaf `q`."""
    x = a_leaf(draw, case)
    k = a_factor(draw, case)
    c = draw.tensor()
    q = draw.tensor().requires_grad_()
    if case.tail == "linear":
        loss_fn = lambda t: ((t + q) * c).sum() + (x * x).sum()  # noqa: E731 - a line of the program
    if case.tail == "in place":
        loss_fn = lambda t: (t.mul_(3).add_(q) * c).sum() + (x * x).sum()  # noqa: E731
    if case.tail == "nonlinear in place":
        loss_fn = lambda t: ((t.mul_(0.25).tanh_() + q) * c).sum() + (x * x).sum()  # noqa: E731
    if case.tail == "in place on a view":
        loss_fn = lambda t: ((t.unsqueeze(0).mul_(3)[0] + q) * c).sum() + (x * x).sum()  # noqa: E731
    return x, k, q, loss_fn


def old_and_new(call: Call, draw: Draw, case: Any) -> Seen:
    """The old value has its gradient, and the new one its own."""
    x, k, q, loss_fn = a_loss_of_three_x(draw, case)
    pair = call(x, k, loss_fn)
    yield "the pair", pair


def one_pass_to_x(call: Call, draw: Draw, case: Any) -> Seen:
    """One pass adds the gradient of x to x.grad."""
    x, k, q, loss_fn = a_loss_of_three_x(draw, case)
    calls: list[Any] = []
    passes: list[Any] = []
    x.register_hook(lambda grad: passes.append("a pass"))
    call(x, k, lambda t: calls.append("loss_fn") or loss_fn(t))
    yield "x.grad", x.grad
    yield "the calls of loss_fn", calls
    yield "the passes that reached x", passes


def another_pair(call: Call, draw: Draw, case: Any) -> Seen:
    """Neither of two calls affects the result of the other."""
    x, k, q, loss_fn = a_loss_of_three_x(draw, case)
    pair = call(x, k, loss_fn)
    later = call(x, k + 1, lambda t: (3 * t).sum())
    yield "the pair of a later call", later
    yield "the pair of the first call after that", pair


def a_pair_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """The loss may call the function for another leaf."""
    x, k, q, loss_fn = a_loss_of_three_x(draw, case)
    r = draw.tensor().requires_grad_()
    inner: list[Any] = []
    pair = call(x, k, lambda t: inner.append(call(r, 2.6, lambda t: (t * r).sum())) or loss_fn(t))
    yield "the pair around another call", pair
    yield "the pair of the call inside", inner


def a_pair_inside_a_pass(call: Call, draw: Draw, case: Any) -> Seen:
    """A hook of the caller may call the function for another leaf."""
    x, k, q, loss_fn = a_loss_of_three_x(draw, case)
    inner: list[Any] = []

    def calls_inside(grad: Any) -> None:
        with torch.enable_grad():
            r = torch.tensor([1.3, -0.4], requires_grad=True)
            inner.append(call(r, 2.6, lambda t: (t * r).sum()))

    x.register_hook(calls_inside)
    pair = call(x, k, loss_fn)
    yield "the pair around a call in the backward pass", pair
    yield "the pair of the call in the backward pass", inner


PAIRS_AFRESH = (another_pair, a_pair_inside, a_pair_inside_a_pass)


def a_pair_of_its_own(call: Call, draw: Draw, case: Any) -> Seen:
    """Writing into a gradient or an entry changes no other entry."""
    x, k, q, loss_fn = a_loss_of_three_x(draw, case)
    kept: list[Any] = []
    q.register_hook(kept.append)
    pair = call(x, k, loss_fn)
    for grad in (*kept, x.grad):
        grad.zero_()
    yield "the pair after gradients were overwritten", pair
    for number, grad in enumerate(pair):
        grad.data.fill_(number)
    yield "the pair after its entries were numbered", pair


def nothing_else_of_x(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    x, k, q, loss_fn = a_loss_of_three_x(draw, case)
    before = Watch(x=x, q=q)
    pair = call(x, k, loss_fn)
    yield "by the call", before.differences("grad")
    yield "the pair of that call", pair


def a_loss_of_t_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception in the loss comes through, and nothing is left."""
    x, k, q, loss_fn = a_loss_of_three_x(draw, case)
    error = an_error(draw, case)

    def fails(*args: Any) -> None:
        raise error

    if case.raised_in == "backward":
        failing = lambda t: (loss := loss_fn(t)).register_hook(fails) and loss  # noqa: E731
    else:
        failing = fails
    before = Watch(x=x, q=q)
    came = None
    try:
        call(x, k, failing)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences("grad")
    yield "x.grad after an exception", x.grad
