"""Stories for functions that run a pass of a model, and return a number for each layer, in backward order."""

from typing import Any

import torch
from torch import nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

MODEL = {
    "dtype": ("float32", "float64"),
    "model": ("layers", "unordered", "block inside", "block"),
    "x_is": ("data", "leaf", "non-leaf"),
    "grad": ("empty", "filled"),
    "frozen": ("nothing", "weight", "layer"),
    "mode": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "replacing"),
    "failure": ("KeyError", "ValueError", "RuntimeError", "KeyboardInterrupt"),
    "raised_in": ("loss", "backward", "model"),
}
IMPOSSIBLE = (lambda frozen, x_is: frozen == "layer" and x_is == "data",)  # no gradient would reach that layer


@told
def layers_in_another_order(draw: Draw) -> Any:
    """A model that calls its layers in another order than it defines them, and computes something else in training."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3, 3)
            self.stem = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.head(input=torch.tanh(self.stem(x)) * (2 if self.training else 1))

    torch.manual_seed(draw.choice(range(100)))
    model = Net()
    first = model.stem
    return model, first


@told
def a_block(draw: Draw, case: Any) -> Any:
    """A block with a parameter of its own and a layer inside, alone or behind a layer."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor([1.5, -0.7, 0.4]))
            self.inner = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.scale * torch.tanh(self.inner(x))

    torch.manual_seed(draw.choice(range(100)))
    if case.model == "block":
        model = Block()
        first = model.inner
    else:
        model = nn.Sequential(nn.Linear(3, 3), Block())
        first = model[0]  # type: ignore[index]  # one of two classes
    return model, first


@told
def layers(draw: Draw) -> Any:
    """Layers in a row."""
    torch.manual_seed(draw.choice(range(100)))
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    first = model[0]
    return model, first


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model, the layer in it that is called first, an input, and a factor for the output."""
    if case.model == "layers":
        model, first = layers(draw)
    elif case.model == "unordered":
        model, first = layers_in_another_order(draw)
    else:
        model, first = a_block(draw, case)
    if draw.is_double:
        model.double()
    if case.mode == "eval":
        model.eval()
    if case.mode == "mixed":
        first.eval()
    if case.frozen != "nothing":
        first.weight.requires_grad_(False)
    if case.frozen == "layer":
        first.bias.requires_grad_(False)
    if case.hooks == "watching":
        model.register_full_backward_hook(lambda module, gi, go: None)
    if case.hooks == "replacing":
        first.register_forward_hook(lambda module, args, out: 2 * out)
    x = draw.tensor(2, 3)
    if case.x_is != "data":
        x.requires_grad_()
    k = draw.tensor(2, 3)
    return model, first, x, k


def measured(call: Call, draw: Draw, case: Any) -> Seen:
    """Each layer has the mean of the absolute values of its gradient."""
    model, first, x, k = a_model(draw, case)
    flow = call(model, lambda out: (out * out * k).sum(), x)
    yield "the dict", flow


def of_tied_layers(call: Call, draw: Draw, case: Any) -> Seen:
    """Layers may share a weight."""
    model, k = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Tanh(), nn.Linear(3, 3, bias=False)), draw.tensor(2, 3)
    model[0].weight.data = draw.tensor(3, 3, low=-0.6, high=0.6)
    model[2].weight = model[0].weight
    flow = call(model, lambda out: (out * k).sum(), draw.tensor(2, 3))
    yield "the dict of layers with one weight", flow


def of_three_dimensions(call: Call, draw: Draw, case: Any) -> Seen:
    """Outputs may have more dimensions, and gradients may lie in memory in any way."""
    model, x, k = nn.Sequential(nn.Linear(3, 2)), draw.tensor(2, 3, 4).mT, draw.tensor(4, 2, 2)
    model[0].weight.data, model[0].bias.data = draw.tensor(2, 3), draw.tensor(2)
    flow = call(model, lambda out: (out.transpose(0, 1) * k).sum(), x)
    yield "the dict for an output of three dimensions", flow


MEASURED = (measured, of_tied_layers, of_three_dimensions)


def in_backward_order(call: Call, draw: Draw, case: Any) -> Seen:
    """The keys are in the order of the backward pass."""
    model, first, x, k = a_model(draw, case)
    flow = call(model, lambda out: (out * k).sum(), x)
    yield "the keys", list(flow)
    yield "the dict with these keys", flow


def measured_anew(call: Call, draw: Draw, case: Any) -> Seen:
    """Neither of two calls affects the result of the other."""
    model, first, x, k = a_model(draw, case)
    flow = call(model, lambda out: (out * k).sum(), x)
    later = call(model, lambda out: (-3 * out * out * k).sum(), x.detach().requires_grad_())
    yield "the dict of a later call", later
    yield "the dict of the first call after that", flow
    nothing = call(nn.Sequential(first), lambda out: (0 * out).sum(), x)
    yield "the dict for a loss of zero", nothing


def one_pass(call: Call, draw: Draw, case: Any) -> Seen:
    """Model, loss and backward pass run once, and `.grad` accumulates."""
    model, first, x, k = a_model(draw, case)
    if case.grad == "filled":
        first.bias.grad = torch.full_like(first.bias, 0.7)
    calls: list[Any] = []
    first.register_forward_hook(lambda module, args, out: calls.append("the first layer"))

    def loss_fn(out: Any) -> Any:
        calls.append("loss_fn")
        loss = (out * k).sum()
        loss.register_hook(lambda grad: calls.append("backward"))
        return loss

    call(model, loss_fn, x)
    yield "the gradients of all parameters", [p.grad for p in model.parameters()]
    yield "x.grad", x.grad
    yield "the calls", calls


def called_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """The loss may call the function for another model."""
    model, first, x, k = a_model(draw, case)
    other, t, inner = nn.Linear(3, 1).to(x.dtype), draw.tensor(2, 3), []
    other.weight.data = draw.tensor(1, 3)
    flow = call(model, lambda out: inner.append(call(other, lambda u: 3 * u.sum(), t)) or (out * k).sum(), x)
    yield "the dict around another call", flow
    yield "the dict of the call inside", inner


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    model, first, x, k = a_model(draw, case)
    first.bias.grad = torch.full_like(first.bias, 0.7)
    before = Watch(model=model, x=x, k=k)
    flow = call(model, lambda out: (out * k).sum(), x)
    yield "by the call", before.differences("grad-filled", "grad-changed")
    yield "the dict of that call", flow


def something_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of the model, the loss or the backward pass comes through, and nothing is left."""
    model, first, x, k = a_model(draw, case)
    error = draw.error(case.failure)

    def fails(*args: Any) -> None:
        raise error

    if case.raised_in == "model":
        first.register_forward_hook(fails)
    before = Watch(model=model, x=x)
    came = None
    try:
        if case.raised_in == "loss":
            call(model, fails, x)
        else:
            call(model, lambda out: [out.register_hook(fails), out.sum()][1], x)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences("grad-filled", "grad-changed")
