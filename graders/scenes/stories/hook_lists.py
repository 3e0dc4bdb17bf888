"""Stories for functions that register several hooks on one tensor and return a list of handles."""

from typing import Any

import torch

from graders.scenes.stories.failing import FAILURES, an_error
from graders.scenes.stories.gradient_hooks import Arguments, a_tensor
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

FUNCTIONS = {"collection": ("many", "one", "repeated"), **FAILURES}


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
    """An exception of a function comes through, and the next pass is right."""
    w, t, u, v = a_tensor(draw, case)
    error = an_error(draw, case)
    due: list[Any] = []

    def fails(g: Any) -> Any:
        if due:
            raise error
        return 2 * g

    call(t, [lambda g: g + 1, fails])
    due.append("now")
    raised = None
    try:
        (t * draw.tensor()).sum().backward()
    except (Exception, type(error)) as caught:
        raised = repr(caught)
    yield "the exception", raised
    due.clear()
    (t * draw.tensor()).sum().backward()
    yield "w.grad after a pass that goes well", w.grad


def removed_by_a_list(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The handles in the list take away the hooks of their own call, and no other."""
    w, t, u, v = a_tensor(draw, case)
    k = draw.tensor()
    before = Watch(t=t, w=w, u=u)
    first = call(t, *arguments(draw, case))
    yield "what comes back is a list", isinstance(first, list)
    (g,) = torch.autograd.grad((t * k).sum(), w)
    yield "the gradient after a call", g
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
