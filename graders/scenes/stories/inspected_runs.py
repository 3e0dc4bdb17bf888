"""Stories for a function that runs a model, reports what it saw, and changes nothing.

It is called with `(model, x)`. The models are written outside, as text, and planted in the case: `model`, and `other`,
which is called in between.
"""

from typing import Any

import torch
from torch import nn

from graders.scenes.planted import written
from graders.scenes.stories.failing import FAILURES, a_failing_call
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

RUNS = {
    "dtype": ("float32", "float64"),
    "hooks": ("none", "watching", "replacing"),
    **FAILURES,
    "failing_run": (2, 1),
}


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model, and an input."""
    model = written("model", case.model)
    if draw.is_double:
        model.double()
    if case.hooks == "watching":
        model.register_forward_hook(lambda module, args, out: None)
    if case.hooks == "replacing":
        next(model.children()).register_forward_hook(lambda module, args, out: 2 * out)
    x = draw.tensor(4, 3)
    return model, x


@told
def another_model(draw: Draw, case: Any) -> Any:
    """A model for a call in between."""
    other = written("other", case.other)
    if draw.is_double:
        other.double()
    return other


def named(call: Call, draw: Draw, case: Any) -> Seen:
    """The modules are named."""
    model, x = a_model(draw, case)
    found = call(model, x)
    yield "the list", found


def named_anew(call: Call, draw: Draw, case: Any) -> Seen:
    """Neither of two calls affects the result of the other."""
    model, x = a_model(draw, case)
    found = call(model, x)
    for module in model.modules():
        module.training = not module.training
    later = call(model, -x)
    yield "the list of a later call with all modes switched", later
    model.train()
    yield "the list when all modes are the same", call(model, x)
    other = another_model(draw, case)
    yield "the list for another model", call(other, x)
    yield "the list of the first call after that", found


def named_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A hook of the caller may call the function for another model."""
    model, x = a_model(draw, case)
    other = another_model(draw, case)
    inner: list[Any] = []

    def calls_inside(*args: Any) -> None:
        if not inner:
            inner.append(call(other, x))

    next(model.children()).register_forward_hook(calls_inside)
    found = call(model, x)
    yield "the list around another call", found
    yield "the list of the call inside", inner


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    model, x = a_model(draw, case)
    other = another_model(draw, case)
    before = Watch(model=model, x=x, other=other)
    call(model, x)
    call(other, x)
    yield "by the calls", before.differences()
    yield "the next random number", torch.rand(1)
    with torch.no_grad():
        found = call(model, x)
        with_gradients = torch.is_grad_enabled()
    yield "the list of a call under no_grad", found
    yield "by a call under no_grad", before.differences()
    yield "torch.is_grad_enabled() after the call", with_gradients


def something_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception in a call of a module comes through, and nothing is left."""
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3)))
    if draw.is_double:
        model.double()
    model[1].eval()
    error, fails = a_failing_call(draw, case)
    model[1][1].register_forward_hook(fails)  # type: ignore[index]  # it is a Sequential
    torch.manual_seed(draw.choice(range(100)))
    x = draw.tensor(4, 3)
    before = Watch(model=model)
    came = None
    try:
        call(model, x)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()
    yield "the next random number after that", torch.rand(1)
