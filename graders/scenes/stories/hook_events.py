"""Stories for functions that run passes of a model and report which hooks fired: their events, or how often."""

from typing import Any

import torch
from torch import nn

from graders.scenes.stories.gradient_hooks import Arguments
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

PASS = {
    "dtype": ("float32", "float64"),
    "x_is": ("leaf", "data", "non-leaf"),
    "frozen": ("nothing", "first"),
    "grad": ("empty", "filled"),
    "mode": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "replacing"),
    "failure": ("KeyError", "ValueError", "RuntimeError", "KeyboardInterrupt"),
    "raised_in": ("forward", "backward"),
}
MODEL = {"model": ("layers", "nested", "branches", "positive", "activation")}
FIRST = {
    "model": ("layers", "dropout", "last", "positive", "nested"),
    "n": (3, 1, 5),
    "ckpt": (False, True),
}
IMPOSSIBLE = (
    # Something in the model has to require grad, and a frozen layer may not be all that there is.
    lambda frozen, model: frozen == "first" and model in ("activation", "branches", "positive"),
    lambda x_is, model: x_is == "data" and model == "positive",  # only a gradient can be stopped
)
IMPOSSIBLE_COUNTS = (
    *IMPOSSIBLE,
    # A checkpoint has to draw the dropout of this model again.
    lambda model, ckpt, mode: model == "dropout" and (not ckpt or mode == "eval"),
)


def no_more(draw: Draw, case: Any) -> tuple[()]:
    """No other arguments."""
    return ()


def passes(draw: Draw, case: Any) -> tuple[int, bool]:
    """A number of passes, and whether to use a checkpoint."""
    return case.n, case.ckpt


def one_pass(draw: Draw, case: Any) -> tuple[int, bool]:
    """One pass without a checkpoint."""
    return 1, False


@told
def a_model_with_branches(draw: Draw) -> Any:
    """A model that calls a module twice, which has two names, another never, and blocks by keyword."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused, self.often = nn.Linear(2, 2), nn.Tanh()
            self.inner = nn.Sequential(nn.Linear(2, 2), self.often)
            self.last = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.last(self.often(x) + self.inner(input=x))

    torch.manual_seed(draw.choice(range(100)))
    model = Net()
    return model


@told
def a_model_that_stops_gradients(draw: Draw) -> Any:
    """A model whose first module lets no gradient through to its input."""

    class Positive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(1.5))

        def forward(self, x: Any) -> Any:
            return self.weight * (x > 0)

    torch.manual_seed(draw.choice(range(100)))
    model = nn.Sequential(Positive(), nn.Linear(2, 2))
    return model


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model, and an input."""
    torch.manual_seed(draw.choice(range(100)))
    if case.model == "layers":
        model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    elif case.model == "nested":
        model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), nn.Linear(2, 2))
    elif case.model == "branches":
        model = a_model_with_branches(draw)
    elif case.model == "positive":
        model = a_model_that_stops_gradients(draw)
    elif case.model == "activation":
        model = nn.Sequential(nn.Tanh(), nn.Linear(2, 2))
    elif case.model == "dropout":
        model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
        model.append(model[0])
        model.append(nn.Linear(2, 2))
    else:
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        model.append(model[0])
    if draw.is_double:
        model.double()
    if case.frozen == "first":
        next(model.children()).requires_grad_(False)
    if case.mode == "eval":
        model.eval()
    if case.mode == "mixed":
        next(model.children()).eval()
    if case.hooks == "watching":
        next(model.children()).register_full_backward_hook(lambda module, gi, go: None)
    if case.hooks == "replacing":
        next(model.children()).register_forward_hook(lambda module, args, out: 2 * out)
    x = draw.tensor(3, 2)
    if case.x_is != "data":
        x.requires_grad_()
    if case.x_is == "non-leaf":
        t = x.view_as(x)
    else:
        t = x
    return model, x, t


def reported(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """What the hooks saw is reported."""
    model, x, t = a_model(draw, case)
    found = call(model, t, *arguments(draw, case))
    yield "the result", found


def reported_again(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Neither of two calls affects the result of the other, and the second sees what the model has by then."""
    model, x, t = a_model(draw, case)
    found = call(model, t, *arguments(draw, case))
    model.add_module("later", nn.Tanh())
    other = draw.tensor(2, 3, 2)
    if case.x_is == "data":
        other.requires_grad_()
    yield "the result for another input", call(model, other, *arguments(draw, case))
    yield "the result of the first call after that", found


REPORTED = (reported, reported_again)


def of_one_layer(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """A model may be a single layer."""
    model, x = nn.Linear(2, 1).double(), draw.tensor(1, 2).double()
    if case.x_is != "data":
        x.requires_grad_()
    found = call(model, x, *arguments(draw, case))
    yield "the result for one layer", found


def of_one_layer_in_a_row(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """A model may have a single layer."""
    model, x = nn.Sequential(nn.Linear(2, 1).double()), draw.tensor(1, 2).double()
    if case.x_is != "data":
        x.requires_grad_()
    found = call(model, x, *arguments(draw, case))
    yield "the result for one layer", found


def inside(call: Call, draw: Draw, case: Any, plainly: Arguments) -> Seen:
    """A hook of the caller may call the function for another model."""
    model, x, t = a_model(draw, case)
    other, z = nn.Sequential(nn.Linear(2, 1).to(x.dtype), nn.Tanh()), draw.tensor(3, 2)
    inner: list[Any] = []

    def calls_inside(module: Any, args: Any, out: Any) -> None:
        inner.append(call(other, z, *plainly(draw, case)))

    next(model.children()).register_forward_hook(calls_inside)
    found = call(model, t, *plainly(draw, case))
    yield "the result around other calls", found
    yield "the results of the calls inside", inner


def one_plain_pass(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The model runs as asked, on the input itself, and `.grad` accumulates."""
    model, x, t = a_model(draw, case)
    if case.grad == "filled":
        for p in model.parameters():
            p.grad = torch.full_like(p, 0.7)
    calls: list[Any] = []
    model.register_forward_hook(lambda module, args, out: calls.append(f"{args[0].requires_grad}, {module.training}"))
    model.register_full_backward_hook(lambda module, gi, go: calls.append("backward"))
    call(model, t, *arguments(draw, case))
    yield "x.grad", x.grad
    yield "the gradients of all parameters", [p.grad for p in model.parameters()]
    yield "the runs (whether the input requires grad, training mode), and the passes back", calls


def nothing_else(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Everything else stays as it was."""
    model, x, t = a_model(draw, case)
    p = next(model.parameters())
    p.grad = torch.full_like(p, 0.7)
    before = Watch(model=model, x=x)
    found = call(model, t, *arguments(draw, case))
    yield "by the call", before.differences("grad-filled", "grad-changed")
    yield "the result of that call", found


@told
def a_raising_hook(draw: Draw, case: Any, model: Any) -> Any:
    """An error, and the handle of the hook that raises it in the forward or the backward pass."""
    error = draw.error(case.failure)

    def fails(*args: Any) -> None:
        raise error

    if case.raised_in == "forward":
        handle = next(model.children()).register_forward_hook(fails)
    else:
        handle = list(model.parameters())[-1].register_hook(fails)
    return error, handle


def something_raises(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """An exception of the model, in its forward or its backward pass, comes through, and nothing is left."""
    model, x, t = a_model(draw, case)
    yield "the result of a call in which nothing fails", call(model, t, *arguments(draw, case))
    error, handle = a_raising_hook(draw, case, model)
    before = Watch(model=model, x=x)
    came = None
    try:
        call(model, t, *arguments(draw, case))
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences("grad-filled", "grad-changed")
    handle.remove()
    yield "the result of a later call", call(model, t, *arguments(draw, case))
