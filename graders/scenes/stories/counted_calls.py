"""Stories for functions that run a model once, and count something in the calls of its modules."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

Made = Callable[[Draw, Any], Any]
"""Makes a model with a `head`, and its input."""
MODEL = {
    "dtype": ("float32", "float64"),
    "mode": ("train", "eval", "mixed"),
    "passing": ("position", "keyword"),
    "output": ("tensor", "tuple", "dict"),
    "hooks": ("none", "watching", "replacing"),
    "grad_mode": ("on", "off"),
    "raised_in": ("the head", "the model"),
    "failure": ("KeyError", "KeyboardInterrupt", "ValueError", "RuntimeError"),
}
CALLS = {
    "calls": (
        "plain",
        "nested",
        "again",
        "same name",
        "listed",
        "made on the way",
        "direct",
        "unused",
        "in training",
    )
}
LAYERS = {
    "conv": ("plain", "groups", "stride", "kernel", "dilation", "same", "subclass"),
    "more": (
        "nothing",
        "twice",
        "two names",
        "tokens",
        "holds another",
        "transposed",
        "one dimension",
        "function",
        "unused",
        "in training",
    ),
}


def no_odd_calls(calls: str, passing: str, output: str) -> bool:
    """Layers one after the other are called with one tensor, and the last one's output comes back."""
    return calls == "plain" and (passing, output) != ("position", "tensor")


def no_odd_layers(more: str, passing: str, output: str) -> bool:
    """The same for the other models."""
    return more == "nothing" and (passing, output) != ("position", "tensor")


IMPOSSIBLE = [no_odd_calls, no_odd_layers]


@told
def in_its_mode(model: Any, draw: Draw, case: Any) -> Any:
    """A model with a `head`, in the dtype and mode of the case, with hooks of the caller."""
    if draw.is_double:
        model.double()
    if case.mode == "eval":
        model.eval()
    if case.mode == "mixed":
        model.head.eval()
    if case.hooks == "watching":
        nn.modules.module.register_module_forward_hook(lambda *args: None)
        nn.modules.module.register_module_forward_pre_hook(lambda *args: None)
    if case.hooks == "replacing":
        model.head.register_forward_pre_hook(lambda module, args: (2 * args[0],))
    if case.grad_mode == "off":
        torch.set_grad_enabled(False)


@told
def a_model_of_calls(draw: Draw, case: Any) -> Any:
    """A model that calls modules in a way that is easily missed, and its input."""
    if case.calls == "plain":
        model: Any = nn.Sequential(nn.Tanh(), nn.Sequential(nn.Linear(2, 2), nn.ELU()))
        model.again = model[0]
        model.head = nn.Linear(2, 1)
    else:
        model = a_model_of_more_calls(draw, case)
    in_its_mode(model, draw, case)
    x = draw.tensor(3, 2)
    return model, x


@told
def a_model_of_more_calls(draw: Draw, case: Any) -> Any:
    """A model that is not one layer after the other."""
    if case.calls == "same name":

        class Other:
            class Tanh(nn.Softsign):
                def _get_name(self) -> str:
                    return "Gate"

    if case.calls == "again":
        times = draw.choice((2, 3, 4))

    class Net(nn.ModuleDict):
        def forward(self: Any, x: Any) -> Any:
            h = self.act(input=x) if case.passing == "keyword" else self.act(x)
            if case.calls == "nested":
                h = self.block(h)
            if case.calls == "again":
                for _ in range(times):
                    h = self.act(h)
            if case.calls == "same name":
                h = self.twin(h)
            if case.calls == "listed":
                h = self.listed[0](h)
            if case.calls == "made on the way":
                h = nn.Sigmoid()(h)
            if case.calls == "direct":
                h = self.spare.forward(torch.relu(h))
            if case.calls == "in training":
                h = self.noise(h) if self.training else h
            if case.output == "tuple":
                return self.head(h), h
            elif case.output == "dict":
                return {"out": self.head(h)}
            else:
                return self.head(h)

    model: Any = Net({"act": nn.Tanh(), "head": nn.Linear(2, 1)})
    if case.calls == "nested":
        model.block = nn.Sequential(nn.Linear(2, 2), nn.ELU())
    if case.calls == "same name":
        model.twin = Other.Tanh()
    if case.calls == "listed":
        model.listed = [nn.Sequential(nn.Mish())]
    if case.calls in ("direct", "unused"):
        model.spare = nn.Softplus()
    if case.calls == "in training":
        model.noise = nn.Dropout()
    return model


@told
def a_convolution(case: Any) -> Any:
    """A convolution of each kind."""
    if case.conv == "subclass":

        class Conv(nn.Conv2d):
            pass

        conv: Any = Conv(4, 6, 3)
    elif case.conv == "groups":
        conv = nn.Conv2d(4, 6, 3, groups=2)
    elif case.conv == "stride":
        conv = nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False)
    elif case.conv == "kernel":
        conv = nn.Conv2d(4, 6, (3, 2))
    elif case.conv == "dilation":
        conv = nn.Conv2d(4, 6, 3, dilation=(1, 2))
    elif case.conv == "same":
        conv = nn.Conv2d(4, 6, 3, padding="same")
    else:
        conv = nn.Conv2d(4, 6, 3)
    return conv


@told
def a_model_of_layers(draw: Draw, case: Any) -> Any:
    """A model of a convolution, a linear layer and what else may come between them, and its input."""
    if case.more == "nothing":
        model: Any = nn.Sequential(nn.Conv2d(4, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        model.head = nn.Linear(6, 1)
    else:
        model = a_model_of_more_layers(case)
    in_its_mode(model, draw, case)
    k = draw.tensor(draw.choice((2, 3, 4)), 1, 1, 1)
    x = k.expand(-1, 4, 5, 6)
    return model, x


@told
def a_model_of_more_layers(case: Any) -> Any:
    """A model that is not one layer after the other."""
    if case.more == "holds another":

        class Head(nn.Linear):
            def forward(self: Any, x: Any) -> Any:
                return self.inner(super().forward(x))

    class Net(nn.ModuleDict):
        def forward(self: Any, x: Any) -> Any:
            h = self.conv(input=x) if case.passing == "keyword" else self.conv(x)
            if case.more == "twice":
                h = self.again(self.again(h))
            if case.more == "two names":
                h = self.alias(h)
            if case.more == "in training":
                h = self.again(h) if self.training else h
            if case.more == "tokens":
                h = self.tokens(input=h.transpose(1, 3)).transpose(1, 3)
            if case.more == "function":
                h = nn.functional.linear(h.transpose(1, 3), self.tokens.weight).transpose(1, 3)
            if case.more == "transposed":
                h = self.up(h)
            if case.more == "one dimension":
                h = self.along(h.flatten(2))[..., None]
            h = h.mean((2, 3))
            if case.output == "tuple":
                return self.head(h), h
            elif case.output == "dict":
                return {"out": self.head(h)}
            else:
                return self.head(h)

    model: Any = Net(
        {"conv": nn.Conv2d(4, 6, 3), "head": Head(6, 2) if case.more == "holds another" else nn.Linear(6, 1)}
    )
    if case.more == "holds another":
        model.head.inner = nn.Linear(2, 2)
    if case.more in ("twice", "two names", "in training"):
        model.again = nn.Sequential(nn.PReLU(), nn.Conv2d(6, 6, 2))
    if case.more == "two names":
        model.alias = model.again
    if case.more in ("tokens", "function", "unused"):
        model.tokens = nn.Linear(6, 6)
    if case.more == "transposed":
        model.up = nn.ConvTranspose2d(6, 6, 2)
    if case.more == "one dimension":
        model.along = nn.Conv1d(6, 6, 1)
    return model


def counted(call: Call, draw: Draw, case: Any, made: Made) -> Seen:
    """All is counted."""
    model, x = made(draw, case)
    found = call(model, x)
    yield "the result", found


def one_convolution(call: Call, draw: Draw, case: Any) -> Seen:
    """A convolution of each kind, alone."""
    conv = a_convolution(case)
    if draw.is_double:
        conv.double()
    k = draw.tensor(draw.choice((2, 3, 4)), 1, 1, 1)
    x = k.expand(-1, 4, 5, 6)
    found = call(conv, x)
    yield "the result for a convolution", found


def anew(call: Call, draw: Draw, case: Any, made: Made) -> Seen:
    """A later call begins anew."""
    model, x = made(draw, case)
    found = call(model, x)
    second = call(model, torch.cat([x, x, x]))
    yield "the result of a second call", second
    yield "the result of the first call after that", found


def called_inside(call: Call, draw: Draw, case: Any, made: Made) -> Seen:
    """A hook of the model makes such a call for another model."""
    model, x = made(draw, case)
    other = nn.Sequential(nn.Linear(2, 3).to(x.dtype), nn.ReLU())
    y = draw.tensor(2, 2)
    inner: list[Any] = []
    model.head.register_forward_pre_hook(lambda *args: inner.append(call(other, y)))
    found = call(model, x)
    yield "the result of the call inside", inner
    yield "the result around it", found


def run_once(call: Call, draw: Draw, case: Any, made: Made) -> Seen:
    """The model runs once, to its end, as it does without the function."""
    model, x = made(draw, case)
    ran: list[Any] = []
    model.register_forward_pre_hook(lambda module, args: ran.append(args[0].sum()))
    model.head.register_forward_hook(lambda module, args, out: ran.append(out.shape))
    model.register_forward_hook(lambda module, args, out: ran.append(type(out).__name__))
    call(model, x)
    yield "the sums of inputs, the shapes out of the head, and the kinds of outputs", ran


def left_alone(call: Call, draw: Draw, case: Any, made: Made) -> Seen:
    """Nothing of the caller changes."""
    model, x = made(draw, case)
    before = Watch(model=model, x=x)
    call(model, x)
    yield "by the call", before.differences()


def model_raises(call: Call, draw: Draw, case: Any, made: Made) -> Seen:
    """An exception of the model comes through, and nothing is left."""
    model, x = made(draw, case)
    before = Watch(model=model, x=x)
    yield "the result of a call in which nothing fails", call(model, x)
    error = draw.error(case.failure)

    def fails(*args: Any) -> None:
        raise error

    place = model.head if case.raised_in == "the head" else model
    failing = place.register_forward_pre_hook(fails)
    came = None
    try:
        call(model, x)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    failing.remove()
    yield "by a call that raised", before.differences()
    yield "the result of the next call", call(model, x)


def one_layer(call: Call) -> Seen:
    """A linear layer alone, on inputs of any number of dimensions, and on zeros."""
    layer = nn.Linear(3, 4)
    yield "the result for one dimension", call(layer, torch.ones(3))
    yield "the result for four dimensions", call(layer, torch.ones(2, 1, 5, 3))
    yield "the result for zeros", call(layer, torch.zeros(2, 3))
