"""Stories for functions that take a linear layer, an input and a loss, and return gradients of weight and bias."""

from typing import Any

import torch
from torch import nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

LINEAR = {
    "dtype": ("float32", "float64"),
    "rank": (2, 1, 3, 4),
    "layout": ("contiguous", "transposed"),
    "x_is": ("data", "leaf", "non-leaf"),
    "grad": ("empty", "filled"),
    "frozen": ("nothing", "weight", "bias"),
    "hooks": ("none", "watching", "replacing"),
    "failure": ("KeyError", "ValueError", "RuntimeError", "KeyboardInterrupt"),
    "raised_in": ("forward", "backward"),
}
IMPOSSIBLE = (lambda rank, layout: rank < 2 and layout == "transposed",)


def lead(case: Any) -> tuple[int, ...]:
    """The dimensions before the last one."""
    return (4, 2, 1)[: case.rank - 1]


@told
def a_loss_that_keeps_its_gradient(k: Any) -> Any:
    """A weighted sum whose backward pass hands out its own weights as the gradient, and not a copy."""

    class Weighted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, y: Any) -> Any:
            return (y * k).sum()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return k

    return Weighted


@told
def a_layer(draw: Draw, case: Any) -> Any:
    """A linear layer with hooks of the caller, an input `x` that may depend on a leaf, and a factor for the output."""
    lin = nn.Linear(3, 2)
    lin.weight.data, lin.bias.data = draw.tensor(2, 3, low=-1, high=1), draw.tensor(2)
    if case.frozen == "weight":
        lin.weight.requires_grad_(False)
    if case.frozen == "bias":
        lin.bias.requires_grad_(False)
    if case.hooks == "watching":
        lin.register_full_backward_hook(lambda module, gi, go: None)
    if case.hooks == "replacing" and case.frozen != "weight":
        lin.weight.register_hook(lambda grad: 0 * grad)
    if case.hooks == "replacing" and case.frozen != "bias":
        lin.bias.register_hook(lambda grad: 2 * grad)
    x = draw.tensor(*lead(case), 3)
    if case.layout == "transposed":
        x = x.mT.contiguous().mT
    if case.x_is != "data":
        x.requires_grad_()
    k = draw.tensor(*lead(case), 2)
    return lin, x, k


def rebuilt(call: Call, draw: Draw, case: Any) -> Seen:
    """Weight and bias have their gradients."""
    lin, x, k = a_layer(draw, case)
    if case.x_is == "non-leaf":
        x = -x
    found = call(lin, x, lambda y: (y * y * k).sum())
    yield "the result", found


def for_another_x(call: Call, draw: Draw, case: Any) -> Seen:
    """Another input and another loss have other gradients."""
    lin, x, k = a_layer(draw, case)
    found = call(lin, x, lambda y: (y * k).sum())
    later = call(lin, draw.tensor(3).requires_grad_(), lambda y: 3 * y.sum())
    yield "the result for a single row", later
    nothing = call(lin, x.requires_grad_(), lambda y: (0 * y).sum())
    yield "the result for a loss of zero", nothing
    yield "the result of the first call after that", found


def when_only_x_requires_grad(call: Call, draw: Draw, case: Any) -> Seen:
    """A layer may be frozen."""
    lin, x, k = a_layer(draw, case)
    lin.requires_grad_(False)
    found = call(lin, x.requires_grad_(), lambda y: (y * k).sum())
    yield "the result of a frozen layer", found
    yield "whether the result is a tuple", isinstance(found, tuple)


def for_another_layout(call: Call, draw: Draw, case: Any) -> Seen:
    """The gradient of the output may lie in memory in any way, and rows may belong together."""
    lin, x, k = a_layer(draw, case)
    t = draw.tensor(2, 4, 3).requires_grad_()
    m = draw.tensor(4, 2, 2)
    found = call(lin, t, lambda y: (y.transpose(0, 1) * m).sum())
    yield "the result for a loss that transposes y", found
    found = call(lin, t, lambda y: (y[0] * y[1] * m[0, 0]).sum())
    yield "the result for a loss that multiplies rows", found


ANY_LAYER = (when_only_x_requires_grad, for_another_layout)


def called_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """The loss may call the function for another layer."""
    lin, x, k = a_layer(draw, case)
    other, z = nn.Linear(2, 1).to(x.dtype), draw.tensor(3, 2)
    inner: list[Any] = []
    found = call(lin, x, lambda y: inner.append(call(other, z, lambda u: 3 * u.sum())) or (y * k).sum())
    yield "the result around another call", found
    yield "the result of the call inside", inner[-1:]


def of_its_own(call: Call, draw: Draw, case: Any) -> Seen:
    """Writing into a gradient changes nothing in the result."""
    lin, x, k = a_layer(draw, case)
    t, k = draw.tensor(4, 3).requires_grad_(), draw.tensor(4, 2)
    Weighted = a_loss_that_keeps_its_gradient(k)
    found = call(lin, t, Weighted.apply)
    k.zero_()
    yield "the result, and the gradient at y after it was overwritten", (found, k)


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    lin, x, k = a_layer(draw, case)
    if case.grad == "filled":
        lin.weight.grad = torch.full_like(lin.weight, 0.7)
    before = Watch(lin=lin, x=x, k=k)
    found = call(lin, x, lambda y: (y * k).sum())
    yield "by the call", before.differences("grad-filled", "grad-changed")
    yield "the result of that call", found


def a_loss_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception in the loss or in its backward pass comes through, and nothing is left."""
    lin, x, k = a_layer(draw, case)
    error = draw.error(case.failure)

    def fails(*args: Any) -> None:
        raise error

    before = Watch(lin=lin, x=x, k=k)
    came = None
    try:
        if case.raised_in == "forward":
            call(lin, x, fails)
        else:
            call(lin, x, lambda y: [y.register_hook(fails), (y * k).sum()][1])
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences("grad-filled", "grad-changed")
