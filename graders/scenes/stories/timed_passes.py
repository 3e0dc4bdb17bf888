"""Stories for functions that run a pass of a model, and report how long the modules took in its backward half.

The clock is the caller's: it stands still but for the modules, and the hooks of the caller, that move it forward.
"""

from typing import Any

import torch
from torch import nn

from graders.scenes.stories.hook_events import a_raising_hook
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

PASS = {
    "model": ("layers", "nested", "sum", "residual", "chain"),
    "dtype": ("float32", "float64"),
    "rank": (1, 2, 0, 3),
    "x_is": ("leaf", "data", "non-leaf"),
    "frozen": ("nothing", "first"),
    "grad": ("empty", "filled"),
    "mode": ("any", "train", "eval"),
    "hooks": ("none", "on the model", "on a part", "in between"),
    "failure": ("KeyError", "ValueError", "RuntimeError", "KeyboardInterrupt"),
    "raised_in": ("forward", "backward"),
}


def a_time(draw: Draw) -> float:
    """How long something takes. The sums of such numbers are exact."""
    return float(draw.choice(range(5, 20))) / 8


@told
def slow_layers(draw: Draw, case: Any) -> Any:
    """A class of layers whose backward pass takes a while, the times of its clock so far, and the clock itself."""
    now = [a_time(draw)]

    class Slow(nn.Module):
        def __init__(self, time: float) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(time))

        def forward(self, x: Any) -> Any:
            if case.mode == "any":
                out = self.weight * x
            else:
                out = self.weight * x if self.training else x / self.weight
            if case.frozen == "first":
                if out.requires_grad:
                    out.register_hook(lambda grad: now.append(now[-1] + self.weight.item()))
            else:
                out.register_hook(lambda grad: now.append(now[-1] + self.weight.item()))
            return out.clone()  # a hook on it fires before the one above moves the clock

    clock = lambda: now[-1]  # noqa: E731 - one line of the program
    return Slow, now, clock


@told
def a_slow_net(draw: Draw, case: Any, Slow: Any) -> Any:
    """A model that takes a while itself, calls a module twice, which has two names, and another never."""

    class Net(Slow):  # type: ignore[misc] # which mypy takes for a value
        def forward(self, x: Any) -> Any:
            if case.model == "sum":
                return super().forward(self.last(self.often(x) + self.inner(x)))
            elif case.model == "residual":
                return super().forward(self.last(x + self.inner(self.often(x))))
            else:
                return super().forward(self.inner(self.last(self.often(x))))

    model = Net(a_time(draw))
    model.often, model.unused, model.last = Slow(a_time(draw)), Slow(a_time(draw)), Slow(a_time(draw))
    model.inner = nn.Sequential(nn.Tanh(), model.often)
    return model


@told
def a_timed_model(draw: Draw, case: Any) -> Any:
    """A model, its clock, an input, and what is given to the model."""
    Slow, now, clock = slow_layers(draw, case)
    if case.model == "layers":
        model = nn.Sequential(Slow(a_time(draw)), nn.Tanh(), Slow(a_time(draw)))
    elif case.model == "nested":
        model = nn.Sequential(nn.Sequential(Slow(a_time(draw)), nn.Tanh()), Slow(a_time(draw)))
    else:
        model = a_slow_net(draw, case, Slow)
    if draw.is_double:
        model.double()
    if case.frozen == "first":
        next(model.children()).requires_grad_(False)
    if case.mode == "eval":
        model.eval()
    if case.hooks == "on the model":
        model.register_full_backward_pre_hook(lambda module, go: now.append(now[-1] + 10))
        model.register_full_backward_hook(lambda module, gi, go: now.append(now[-1] + 20))
    if case.hooks == "on a part":
        next(model.children()).register_full_backward_pre_hook(lambda module, go: now.append(now[-1] + 10))
        next(model.children()).register_full_backward_hook(lambda module, gi, go: now.append(now[-1] + 20))
    if case.hooks == "in between":
        list(model.parameters())[-1].register_hook(lambda grad: now.append(now[-1] + 10))
    if case.x_is == "data":
        x = draw.tensor()
    else:
        x = draw.tensor().requires_grad_()
    if case.x_is == "non-leaf":
        t = x.view_as(x)
    else:
        t = x
    return model, clock, x, t


def timed(call: Call, draw: Draw, case: Any) -> Seen:
    """Each time is right."""
    model, clock, x, t = a_timed_model(draw, case)
    found = call(model, t, clock)
    yield "the result", found


def timed_again(call: Call, draw: Draw, case: Any) -> Seen:
    """Neither of two calls, for two inputs, affects the result of the other."""
    model, clock, x, t = a_timed_model(draw, case)
    found = call(model, t, clock)
    other = draw.tensor()
    if case.x_is == "data":
        other.requires_grad_()
    yield "the result for another input", call(model, other, clock)
    yield "the result of the first call after that", found


def one_slow_layer(call: Call, draw: Draw, case: Any) -> Seen:
    """A model may be a single layer."""
    Slow, now, clock = slow_layers(draw, case)
    model, x = Slow(a_time(draw)).double(), draw.tensor().double()
    if case.x_is != "data":
        x.requires_grad_()
    found = call(model, x, clock)
    yield "the result for one layer", found


def timed_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A hook of the caller calls the function for another model."""
    Slow, now, clock = slow_layers(draw, case)
    model, other = nn.Sequential(Slow(a_time(draw)), nn.Tanh()), nn.Sequential(Slow(a_time(draw)))
    x, z = draw.tensor(3), draw.tensor(2)
    inner: list[Any] = []

    def calls_inside(module: Any, args: Any, out: Any) -> None:
        inner.append(call(other, z, clock))

    model[1].register_forward_hook(calls_inside)
    found = call(model, x, clock)
    yield "the result around other calls", found
    yield "the results of the calls inside", inner


def gradients_accumulated(call: Call, draw: Draw, case: Any) -> Seen:
    """`.grad` accumulates as usual."""
    model, clock, x, t = a_timed_model(draw, case)
    if case.grad == "filled":
        for p in model.parameters():
            p.grad = torch.full_like(p, 0.7)
    call(model, t, clock)
    yield "x.grad", x.grad
    yield "the gradients of all parameters", [p.grad for p in model.parameters()]


def one_timed_pass(call: Call, draw: Draw, case: Any) -> Seen:
    """It is one pass forward and one back."""
    model, clock, x, t = a_timed_model(draw, case)
    calls: list[Any] = []
    model.register_forward_hook(lambda module, args, out: calls.append(args[0].requires_grad))
    model.register_full_backward_hook(lambda module, gi, go: calls.append(go[0].sum()))
    call(model, t, clock)
    yield "whether the inputs of the model required grad, and what passed back", calls


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    model, clock, x, t = a_timed_model(draw, case)
    before = Watch(model=model, x=t)
    found = call(model, t, clock)
    yield "by the call", before.differences("grad-filled", "grad-changed")
    yield "the result of that call", found


def something_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of the model, in its forward or its backward pass, comes through, and nothing is left."""
    model, clock, x, t = a_timed_model(draw, case)
    yield "the result of a call in which nothing fails", call(model, t, clock)
    error, handle = a_raising_hook(draw, case, model)
    before = Watch(model=model, x=t)
    came = None
    try:
        call(model, t, clock)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences("grad-filled", "grad-changed")
    handle.remove()
    yield "the result of a later call", call(model, t, clock)
