"""Stories for functions that run backward passes with losses of a leaf `p`, and return what each pass brought."""

from typing import Any

import torch
from torch import nn

from graders.scenes.stories.failing import an_error
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

LEAF = {
    "dtype": ("float32", "float64"),
    "rank": (1, 0, 2, 3),
    "place": ("leaf", "parameter"),
    "layout": ("contiguous", "transposed"),
    "grad": ("empty", "filled", "large"),
    "hooks": ("none", "watching", "replacing"),
    "failure": ("KeyError", "KeyboardInterrupt", "ValueError"),
    "raised_in": ("forward", "backward"),
}
IMPOSSIBLE = (lambda rank, layout: rank < 2 and layout == "transposed",)


@told
def a_leaf(draw: Draw, case: Any) -> Any:
    """A leaf with what the case says: its layout, what its `.grad` holds, and hooks."""
    if case.place == "parameter":
        p = nn.Parameter(draw.tensor())
    else:
        p = draw.tensor().requires_grad_()
    if case.layout == "transposed":
        p.data = p.data.mT.contiguous().mT
    if case.grad == "filled":
        p.grad = torch.full_like(p, 0.7)
    if case.grad == "large":
        p.grad = torch.full_like(p, 2.0**60)
    if case.hooks == "watching":
        p.register_hook(lambda grad: None)
    if case.hooks == "replacing":
        p.register_hook(lambda grad: 2 * grad)
    return p


@told
def some_losses(draw: Draw, case: Any) -> Any:
    """Losses of a leaf, and another leaf `q` in them: one is there twice."""
    q = draw.tensor().requires_grad_()
    square = lambda p: (p * p).sum()  # noqa: E731 - a line of the program
    losses = [lambda p: (p * q).sum(), square, lambda p: (0 * p).sum(), square]
    if case.rank > 1:
        losses[0] = lambda p: (p.mT * q.mT.contiguous()).sum()
    return q, losses


@told
def counted_losses(draw: Draw, case: Any) -> Any:
    """Losses that note each call; the one that is there twice differs from call to call."""
    calls: list[Any] = []
    square = lambda p: calls.append("square") or len(calls) * (p * p).sum()  # noqa: E731 - a line of the program
    losses = [square, lambda p: calls.append("zero") or (0 * p).sum(), square]
    return calls, losses


def of_each_loss(call: Call, draw: Draw, case: Any) -> Seen:
    """Each loss counts alone."""
    p = a_leaf(draw, case)
    q, losses = some_losses(draw, case)
    found = call(p, losses)
    yield "the result", found


def evaluated_once(call: Call, draw: Draw, case: Any) -> Seen:
    """Each loss is evaluated once, in order."""
    p = a_leaf(draw, case)
    calls, losses = counted_losses(draw, case)
    found = call(p, losses)
    yield "the calls of losses", calls
    yield "the result where a loss differs from call to call", found


def left_in_grad(call: Call, draw: Draw, case: Any) -> Seen:
    """Gradients add up as in a plain loop."""
    p = a_leaf(draw, case)
    q, losses = some_losses(draw, case)
    passes: list[Any] = []
    p.register_hook(lambda grad: passes.append("a pass"))
    call(p, losses)
    yield "p.grad", p.grad
    yield "q.grad", q.grad
    yield "the passes that reached p", passes


def called_again(call: Call, draw: Draw, case: Any) -> Seen:
    """Neither of two calls affects the result of the other."""
    p = a_leaf(draw, case)
    q, losses = some_losses(draw, case)
    found = call(p, losses)
    later = call(p, losses[1:3])
    yield "the result of a later call", later
    yield "the result of the first call after that", found


def called_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A loss may call the function for another leaf."""
    p = a_leaf(draw, case)
    q, losses = some_losses(draw, case)
    r = draw.tensor().requires_grad_()
    inner: list[Any] = []
    losses.insert(2, lambda p: inner.append(call(r, [lambda r: (r * q).sum()])) or (3 * p).sum())
    found = call(p, losses)
    yield "the result around another call", found
    yield "the result of the call inside", inner


AFRESH = (called_again, called_inside)


def of_their_own(call: Call, draw: Draw, case: Any) -> Seen:
    """Writing into p.grad, or into an entry, changes no other entry."""
    p = a_leaf(draw, case)
    q, losses = some_losses(draw, case)
    found = call(p, losses)
    if p.grad is not None:
        p.grad.zero_()
    yield "the result after p.grad was overwritten", found
    for number, grad in enumerate(found):
        grad.data.fill_(number)
    yield "the result after its entries were numbered", found


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    p = a_leaf(draw, case)
    q, losses = some_losses(draw, case)
    before = Watch(p=p, q=q, losses=losses)
    found = call(p, losses)
    yield "by the call", before.differences("grad")
    yield "the result of that call", found


@told
def losses_that_fail(draw: Draw, case: Any) -> Any:
    """Losses of which the second raises an error, in its forward or its backward pass."""
    q = draw.tensor().requires_grad_()
    error = an_error(draw, case)

    def fails(*args: Any) -> None:
        raise error

    if case.raised_in == "forward":
        losses = [lambda p: (p * q).sum(), fails]
    else:

        def fails_later(p: Any) -> Any:
            loss = (p * p).sum()
            loss.register_hook(fails)
            return loss

        losses = [lambda p: (p * q).sum(), fails_later]
    return q, error, losses


def a_loss_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception comes through, and nothing is left."""
    p = a_leaf(draw, case)
    q, error, losses = losses_that_fail(draw, case)
    before = Watch(p=p, q=q, losses=losses)
    came = None
    try:
        call(p, losses)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences("grad")


def left_in_grad_when_a_loss_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception leaves in p.grad what the plain loop leaves."""
    p = a_leaf(draw, case)
    q, error, losses = losses_that_fail(draw, case)
    try:
        call(p, losses)
    except (Exception, type(error)):
        pass
    yield "p.grad after an exception in a loss", p.grad


def left_in_grad_when_a_hook_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of a hook that is called when p.grad is filled leaves the sum in it."""
    p = a_leaf(draw, case)
    q, losses = some_losses(draw, case)
    p.register_post_accumulate_grad_hook(lambda p: 1 / 0)
    try:  # noqa: SIM105 - a program has plain lines
        call(p, losses)
    except ZeroDivisionError:
        pass
    yield "p.grad after an exception in a hook", p.grad


AS_THE_LOOP = (a_loss_raises, left_in_grad_when_a_loss_raises, left_in_grad_when_a_hook_raises)
