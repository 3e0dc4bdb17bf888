"""Stories for functions that compute something step by step, and return the gradient of each step."""

from typing import Any

import torch

from graders.scenes.stories.failing import an_error
from graders.scenes.stories.passes import LEAF, a_leaf
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

LEAF_WITHOUT_GRAD = {
    **{axis: values for axis, values in LEAF.items() if axis != "raised_in"},
    "grad": ("empty",),
    "hooks": ("none", "watching"),
}

# For `function(w, x)`, which computes with two leaves.


def of_two_leaves(call: Call, draw: Draw, case: Any) -> Seen:
    """All four gradients are right."""
    w = a_leaf(draw, case)
    x = a_leaf(draw, case)
    found = call(w, x)
    yield "the result", found


def of_other_leaves(call: Call, draw: Draw, case: Any) -> Seen:
    """Neither of two calls affects the result of the other."""
    w = a_leaf(draw, case)
    x = a_leaf(draw, case)
    y = a_leaf(draw, case)
    found = call(w, x)
    w.grad = None
    later = call(w, y)
    yield "the result of a later call", later
    yield "the result of the first call after that", found


def of_leaves_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A hook of the caller may call the function for other leaves."""
    w = a_leaf(draw, case)
    x = a_leaf(draw, case)

    def calls_inside(grad: Any) -> None:
        with torch.enable_grad():
            r = torch.tensor([1.3, -0.4], requires_grad=True)
            call(r, (3 * r).detach().requires_grad_())

    w.register_hook(calls_inside)
    found = call(w, x)
    yield "the result around another call", found


def around_two_leaves(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    w = a_leaf(draw, case)
    x = a_leaf(draw, case)
    before = Watch(w=w, x=x)
    found = call(w, x)
    yield "by the call", before.differences("grad")
    yield "the result of that call", found


def a_hook_of_a_leaf_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception comes through, and nothing is left."""
    w = a_leaf(draw, case)
    x = a_leaf(draw, case)
    error = an_error(draw, case)
    calls: list[Any] = []

    def fails(grad: Any) -> None:
        calls.append("a call")
        raise error

    w.register_hook(fails)
    before = Watch(w=w, x=x)
    came = None
    try:
        call(w, x)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "an exception is swallowed", bool(calls) and came is None
    yield "by a call that raised", before.differences("grad")


# For `function(fns, x)`, which calls a chain of functions.

CHAIN = {
    **LEAF_WITHOUT_GRAD,
    "chain": ("plain", "in place", "nonlinear", "shapes", "in place on views", "identity", "constant"),
    "raised_in": LEAF["raised_in"],
}


@told
def a_chain(draw: Draw, case: Any) -> Any:
    """A leaf `x`, and functions for a chain from it, of which one may be there twice."""
    x = a_leaf(draw, case)
    k = draw.number(1.1, 1.9)
    if case.chain == "plain":
        fns = [lambda t: k * t, lambda t: t * t, lambda t: t + k]
    if case.chain == "in place":
        fns = [lambda t: t.mul_(k), lambda t: t * t, lambda t: t.add_(k), lambda t: k * t, lambda t: t.mul_(k)]
    if case.chain == "nonlinear":
        fns = [lambda t: t * t.mean(), torch.tanh, lambda t: t.sin_(), lambda t: t * t, lambda t: t.mul_(k)]
    if case.chain == "shapes":
        fns = [lambda t: torch.stack([t, k * t]), lambda t: t.flatten(), lambda t: t.mul_(t.flip(0).clone())]
    if case.chain == "in place on views":
        fns = [lambda t: t.unsqueeze(0).mul_(k), lambda t: t[0].square_(), lambda t: t.add_(k) * t]
    if case.chain == "identity":
        same = lambda t: t  # noqa: E731 - a line of the program
        fns = [same, lambda t: t * t, same, lambda t: k * t, same]
    if case.chain == "constant":
        fns = [lambda t: t * t, lambda t: 0 * t + k, lambda t: t.mul_(t.sum().item())]
    return x, fns


@told
def a_step_that_calls(case: Any, act: Any) -> Any:
    """A function for a chain that calls `act`, or whose result does when its gradient arrives."""
    if case.raised_in == "forward":
        step = lambda t: act(t) or 2 * t  # noqa: E731 - a line of the program
    else:

        def step(t: Any) -> Any:
            h = 2 * t
            h.register_hook(act)
            return h

    return step


def of_each_step(call: Call, draw: Draw, case: Any) -> Seen:
    """Every step has its gradient."""
    x, fns = a_chain(draw, case)
    found = call(fns, x)
    yield "the result", found


def called_once(call: Call, draw: Draw, case: Any) -> Seen:
    """Each function is called once, in order."""
    x = a_leaf(draw, case)
    calls: list[Any] = []
    double = lambda t: calls.append("double") or 2 * t  # noqa: E731 - a line of the program
    call([double, lambda t: calls.append("square") or t * t, double], x)
    yield "the calls", calls


def left_at_the_leaf(call: Call, draw: Draw, case: Any) -> Seen:
    """`x` gets its gradient."""
    x, fns = a_chain(draw, case)
    call(fns, x)
    yield "x.grad", x.grad


CALLED_ONCE = (called_once, left_at_the_leaf)


def of_another_chain(call: Call, draw: Draw, case: Any) -> Seen:
    """Neither of two calls affects the result of the other."""
    x, fns = a_chain(draw, case)
    found = call(fns, x)
    x.grad = None
    later = call([lambda t: 3 * t, *fns], x)
    yield "the result of a later call", later
    yield "x.grad after it", x.grad
    yield "the result of the first call after that", found


def of_a_chain_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A function of the chain, or a hook on what it returns, may call the function for another leaf."""
    x, fns = a_chain(draw, case)
    inner: list[Any] = []

    def calls_inside(grad: Any) -> None:
        with torch.enable_grad():
            r = torch.tensor([1.3, -0.4], requires_grad=True)
            inner.append(call([lambda t: t * t, lambda t: 3 * t], r))

    step = a_step_that_calls(case, calls_inside)
    found = call([*fns, step], x)
    yield "the result around another call", found
    yield "the result of the call inside", inner[:1]  # a hook may run in several passes


CHAINS_AFRESH = (of_another_chain, of_a_chain_inside)


def around_a_chain(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    x, fns = a_chain(draw, case)
    before = Watch(fns=fns, x=x)
    found = call(fns, x)
    yield "by the call", before.differences("grad")
    yield "the result of that call", found


def a_function_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception comes through, and nothing is left."""
    x = a_leaf(draw, case)
    error = an_error(draw, case)

    def fails(*args: Any) -> None:
        raise error

    step = a_step_that_calls(case, fails)
    fns = [lambda t: t * t, step]
    before = Watch(fns=fns, x=x)
    came = None
    try:
        call(fns, x)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences("grad")
