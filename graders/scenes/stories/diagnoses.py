"""Stories of 13-diagnose, in which a function of the caller makes models.

What may be wrong with them is written outside, and comes in the case: `model` and `sound`, the texts of such functions,
and the numbers `lr`, `factor` (of the loss) and `shift` (of `y`).
"""

from typing import Any

import torch
from torch import nn

from graders.scenes.planted import written
from graders.scenes.stories.failing import FAILURES, an_error
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

RUNS = {
    "dtype": ("float32", "float64"),
    "x_is": ("data", "leaf"),
    **FAILURES,
    # Each call of the function takes some twenty passes: where it is "first", only the diagnosis is asked for.
    "stories": ("first", "all"),
}


@told
def a_run(draw: Draw, case: Any) -> Any:
    """A function that makes models, and what they get."""
    x = draw.tensor(3, 4, low=-2, high=2)
    y = draw.tensor(3, 4, low=-2, high=2)
    if case.shift:
        y += case.shift
    make = written("make", case.model, x=x)
    if case.factor == 1:
        loss_fn: Any = nn.functional.mse_loss
    else:
        loss_fn = lambda out, y: case.factor * nn.functional.mse_loss(out, y)  # noqa: E731 - a line of the program
    return x, y, make, loss_fn


@told
def leaves(x: Any, y: Any, case: Any) -> Any:
    """The inputs and the targets may need gradients."""
    if case.x_is == "leaf":
        x.requires_grad_()
        y.requires_grad_()


def diagnosed(call: Call, draw: Draw, case: Any) -> Seen:
    """The label and the module are found."""
    x, y, make, loss_fn = a_run(draw, case)
    found = call(make, x, y, loss_fn, case.lr)
    yield "the diagnosis", found


def diagnosed_anew(call: Call, draw: Draw, case: Any) -> Seen:
    """Each call begins anew."""
    if case.stories == "first":
        return
    x, y, make, loss_fn = a_run(draw, case)
    leaves(x, y, case)
    call(make, x, y, loss_fn, case.lr)
    sound = written("sound", case.sound, x=x)
    found = call(sound, x, y, lambda out, y: 1e-6 * ((out - y) ** 2).mean(), 0.002)
    yield "the diagnosis for other models", found


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing of the caller changes."""
    if case.stories == "first":
        return
    x, y, make, loss_fn = a_run(draw, case)
    leaves(x, y, case)
    x.grad, y.grad = torch.full_like(x, 0.7), torch.full_like(y, 0.7)
    before = Watch(x=x, y=y)
    random = torch.get_rng_state()
    call(make, x, y, loss_fn, case.lr)
    yield "by the call", before.differences()
    yield "the random numbers are as before", torch.equal(random, torch.get_rng_state())


@told
def a_small_run(draw: Draw, case: Any) -> Any:
    """Two inputs, of which one has a gradient already, and a function that makes models."""
    x = draw.tensor(3, 4)
    y = draw.tensor(3, 4)
    leaves(x, y, case)
    make = lambda: nn.Sequential(nn.Dropout(0.5), nn.Tanh())  # noqa: E731 - a line of the program
    x.grad = torch.full_like(x, 0.7)
    return x, y, make


def something_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception comes through and nothing is left."""
    if case.stories == "first":
        return
    x, y, make = a_small_run(draw, case)
    error = an_error(draw, case)

    def fails(*args: Any) -> None:
        raise error

    before = Watch(x=x, y=y)
    random = torch.get_rng_state()
    came = None
    try:
        call(make, x, y, fails, case.lr)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()
    yield "the random numbers are as before it", torch.equal(random, torch.get_rng_state())
