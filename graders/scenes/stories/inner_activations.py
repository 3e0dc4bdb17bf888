"""Stories for a function that runs a pass, and returns the gradient at what one module of a model returns."""

from typing import Any

import torch
from torch import nn

from graders.scenes.stories.linear_layers import a_loss_that_keeps_its_gradient
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

NAMES = {"first": "0", "nested": "0.1", "last": "2", "root": "", "tuple": "part", "dict": "part"}
MODEL = {
    "dtype": ("float32", "float64"),
    "place": tuple(NAMES),
    "follower": ("plain", "in place"),
    "x_is": ("data", "leaf", "non-leaf"),
    "grad": ("empty", "filled"),
    "mode": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "replacing"),
    "failure": ("KeyError", "ValueError", "RuntimeError", "KeyboardInterrupt"),
    "raised_in": ("loss", "backward", "model"),
}
IMPOSSIBLE = (lambda place, hooks: place in ("tuple", "dict") and hooks == "replacing",)


def the_name(case: Any) -> str:
    """The name of the module in question."""
    return NAMES[case.place]


@told
def a_model_with_packed_values(case: Any) -> Any:
    """A model of which one part returns a tuple or a dict."""

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return (self.layer(x), 3) if case.place == "tuple" else {"h": self.layer(x), "count": 3}

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Part()
            self.head = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            h = self.part(x)[0] if case.place == "tuple" else self.part(x)["h"]
            if case.follower == "in place":
                h.mul_(-2)
            return self.head(h)

    model = Net()
    return model


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model, an input, and a loss, which works in place if nothing else follows."""
    torch.manual_seed(draw.choice(range(100)))
    if case.place in ("tuple", "dict"):
        model = a_model_with_packed_values(case)
    elif case.place == "nested":
        model = nn.Sequential(
            nn.Sequential(nn.Tanh(), nn.Linear(3, 3)), nn.LeakyReLU(inplace=case.follower == "in place")
        )
    else:
        model = nn.Sequential(nn.Linear(3, 3), nn.LeakyReLU(inplace=case.follower == "in place"), nn.Linear(3, 3))
    if draw.is_double:
        model.double()
    if case.mode == "eval":
        model.eval()
    if case.mode == "mixed":
        next(model.children()).eval()
    if case.hooks == "watching":
        model.get_submodule(the_name(case)).register_forward_hook(lambda module, args, out: None)
    if case.hooks == "replacing":
        model.get_submodule(the_name(case)).register_forward_hook(lambda module, args, out: 2 * out)
    x = draw.tensor(2, 3)
    if case.x_is != "data":
        x.requires_grad_()
    k = draw.tensor(2, 3)
    if case.follower == "in place" and case.place in ("last", "root"):
        loss_fn = lambda out: (out.mul_(-3) * k).sum()  # noqa: E731 - a line of the program
    else:
        loss_fn = lambda out: (out * out * k).sum()  # noqa: E731
    return model, x, k, loss_fn


@told
def the_gradient(call: Call, case: Any, model: Any, x: Any, loss_fn: Any) -> Any:
    """What the function returns for the module in question."""
    if case.place == "tuple":
        found = call(model, "part", x, loss_fn, lambda out: out[0])
    elif case.place == "dict":
        found = call(model, "part", x, loss_fn, lambda out: out["h"])
    else:
        found = call(model, the_name(case), x, loss_fn)
    return found


def at_the_module(call: Call, draw: Draw, case: Any) -> Seen:
    """The gradient is that at the value that leaves the module."""
    model, x, k, loss_fn = a_model(draw, case)
    found = the_gradient(call, case, model, x, loss_fn)
    yield "the gradient", found


def at_one_of_two_halves(call: Call, draw: Draw, case: Any) -> Seen:
    """`pick` chooses one of two tensors that come from one operation."""

    class Halves(nn.Module):
        def forward(self, x: Any) -> Any:
            left, right = x.chunk(2, -1)
            return {"left": left, "right": right}

    model, x, k = nn.Sequential(nn.Linear(3, 4), Halves()), draw.tensor(2, 3), draw.tensor(2, 2)
    model[0].weight.data, model[0].bias.data = draw.tensor(4, 3), draw.tensor(4)
    found = call(model, "1", x, lambda out: (2 * out["left"] + k * out["right"]).sum(), lambda out: out["right"])
    yield "the gradient at the second of two halves", found


AT_THE_MODULE = (at_the_module, at_one_of_two_halves)


def anew(call: Call, draw: Draw, case: Any) -> Seen:
    """Neither of two calls affects the result of the other."""
    model, x, k, loss_fn = a_model(draw, case)
    found = the_gradient(call, case, model, x, loss_fn)
    other = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    other[0].weight.data, other[0].bias.data = draw.tensor(3, 3, low=-0.6, high=0.6), draw.tensor(3)
    later = call(other, "0", -x.detach(), lambda out: (out * k).sum())
    yield "the gradient of a later call", later
    nothing = call(other, "1", x, lambda out: (0 * out).sum())
    yield "the gradient for a loss of zero", nothing
    yield "the gradient of the first call after that", found


def when_only_x_requires_grad(call: Call, draw: Draw, case: Any) -> Seen:
    """The model may be frozen, outputs have more dimensions, and gradients lie in memory in any way."""
    model, x, k = (
        nn.Sequential(nn.Linear(3, 2), nn.Tanh()),
        draw.tensor(2, 3, 4).mT.requires_grad_(),
        draw.tensor(4, 2, 2),
    )
    model[0].weight.data, model[0].bias.data = draw.tensor(2, 3, low=-0.6, high=0.6), draw.tensor(2)
    model.requires_grad_(False)
    found = call(model, "1", x, lambda out: (out.transpose(0, 1) * k).sum())
    yield "the gradient in a frozen model", found


ANEW = (anew, when_only_x_requires_grad)


def one_pass(call: Call, draw: Draw, case: Any) -> Seen:
    """The model runs once, in its mode; one backward pass reaches all parameters, or none does."""
    model, x, k, loss_fn = a_model(draw, case)
    if case.grad == "filled":
        for p in model.parameters():
            p.grad = torch.full_like(p, 0.7)
    passes: list[Any] = []

    def counted(out: Any) -> Any:
        loss = loss_fn(out)
        loss.register_hook(lambda grad: passes.append("backward"))
        return loss

    model.register_forward_hook(lambda *args: passes.append("forward, training" if model.training else "forward"))
    the_gradient(call, case, model, x, counted)
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    yield "the gradients of all parameters in a row", torch.cat([grad.flatten() for grad in grads])
    yield "the passes", passes


def called_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A hook of the caller may call the function for another model."""
    model, x, k, loss_fn = a_model(draw, case)
    inner: list[Any] = []

    def calls_inside(grad: Any) -> None:
        with torch.enable_grad():
            t = torch.tensor([1.3, -0.4], requires_grad=True)
            inner.append(call(nn.Sequential(nn.Tanh()), "0", t, lambda out: (out * out).sum()))

    next(model.parameters()).register_hook(calls_inside)
    found = the_gradient(call, case, model, x, loss_fn)
    yield "the gradient around another call", found
    loss_fn = lambda out: inner.append(call(nn.Tanh(), "", k.requires_grad_(), torch.sum)) or out.sum()  # noqa: E731
    found = call(nn.Sequential(nn.Linear(3, 3).to(x.dtype)), "0", x, loss_fn)
    yield "the gradient around a call in the loss", found
    yield "the gradients of the calls inside", inner


def of_its_own(call: Call, draw: Draw, case: Any) -> Seen:
    """Writing into a gradient changes nothing in the result."""
    model, x, k = nn.Tanh(), draw.tensor(3).requires_grad_(), draw.tensor(3)
    Weighted = a_loss_that_keeps_its_gradient(k)
    found = call(model, "", x, Weighted.apply)
    k.zero_()
    yield "the result, and the gradient after it was overwritten", (found, k)


def overwritten_in_the_pass(call: Call, draw: Draw, case: Any) -> Seen:
    """Writing into a gradient further back in the pass changes nothing in the result, either."""
    model, x, k = nn.Tanh(), draw.tensor(3).requires_grad_(), draw.tensor(3)
    Weighted = a_loss_that_keeps_its_gradient(k)
    x.register_hook(lambda grad: k.zero_())
    found = call(model, "", x, Weighted.apply)
    yield "the result where the gradient is overwritten in the pass", found


OF_ITS_OWN = (of_its_own, overwritten_in_the_pass)


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    model, x, k, loss_fn = a_model(draw, case)
    p = next(model.parameters())
    p.grad = torch.full_like(p, 0.7)
    before = Watch(model=model, x=x, k=k)
    found = the_gradient(call, case, model, x, loss_fn)
    yield "by the call", before.differences("grad-filled", "grad-changed")
    yield "the gradient of that call", found


@told
def a_plain_model(draw: Draw) -> Any:
    """A model of two layers, and an input."""
    torch.manual_seed(draw.choice(range(100)))
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    if draw.is_double:
        model.double()
    x = draw.tensor(2, 3)
    return model, x


def something_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of the model, the loss or the backward pass comes through, and nothing is left."""
    model, x = a_plain_model(draw)
    yield "the gradient of a call in which nothing fails", call(model, "0", x, lambda out: out.sum())
    error = draw.error(case.failure)

    def fails(*args: Any) -> None:
        raise error

    if case.raised_in == "model":
        model.register_forward_hook(fails)
    before = Watch(model=model, x=x)
    came = None
    try:
        if case.raised_in == "loss":
            call(model, "0", x, fails)
        else:
            call(model, "0", x, lambda out: [out.register_hook(fails), out.sum()][1])
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences("grad-filled", "grad-changed")
