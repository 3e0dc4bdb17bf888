"""Stories for functions that find the leaf which makes NaN or Inf out of finite numbers.

The weights of the models are drawn outside: nothing here knows which of them are bad.
"""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

NETS = {
    "bad": ("-inf", "nan", "inf"),
    "leaf": ("plain", "in place", "two inputs", "large"),
    "calls": ("once", "bad first", "bad last"),
    "data": ("fine", "bad", "tiny"),
    "dtype": ("float32", "float64"),
    "shape": ("flat", "0-dim", "transposed", "row"),
    "mode": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "cleaning", "spoiling"),
    "grad_mode": ("on", "off"),
    "failure": ("KeyError", "KeyboardInterrupt", "RuntimeError", "StopIteration"),
}


def always_alike(leaf: str, shape: str, data: str) -> bool:
    """What such a model computes is hardly a matter of its numbers; and in place, two weights do not fit one number."""
    return (shape == "0-dim" and leaf != "plain") or (leaf, shape, data) == ("large", "row", "bad")


def large(case: Any) -> float:
    """A number of which two are too many."""
    return torch.finfo(getattr(torch, case.dtype)).max / 1.5


@told
def a_leaf(draw: Draw, case: Any) -> Any:
    """The class of a layer that makes -inf or inf where its weight is 0, or NaN where that is negative."""

    class Layer(nn.Module):
        def __init__(self, w: Any) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.tensor(w))

        def forward(self, x: Tensor, share: float = 1, other: Any = 0) -> Tensor:
            h = x.mul_(self.w) if case.leaf == "in place" else self.w * x
            h = h.reciprocal_() if case.bad == "inf" else h.log_()
            return h + large(case) if case.leaf == "large" else h + share * other

    return Layer


@told
def a_net(draw: Draw, case: Any) -> Any:
    """The class of a net whose layers do not run in the order in which they are defined."""
    Layer = a_leaf(draw, case)

    class Net(nn.Module):
        def __init__(self, a: Any, b: Any, c: Any) -> None:
            super().__init__()
            self.block = nn.Sequential(nn.LeakyReLU(), Layer(b))
            self.head = Layer(a)
            self.stem = Layer(c)

        def forward(self, x: Tensor) -> Any:
            bad = x.masked_fill(x == x.max(), float(case.bad))
            if case.calls == "bad first":
                self.stem(bad.clone())
            if case.leaf == "two inputs":
                h = self.stem(x.nan_to_num(1, 1, 1), 0.5, bad)
            else:
                h = self.stem(x.nan_to_num(1, 1, 1))
            if case.calls == "bad last":
                self.stem(bad)
            return h + self.block(x.nan_to_num(1, 1, 1)) + self.head(x.nan_to_num(1, 1, 1))

    return Net


@told
def an_input(draw: Draw, case: Any) -> Any:
    """Positive numbers; one may be bad already, or all tiny."""
    if case.shape == "0-dim":
        x = draw.tensor(1, low=0.5)[0]
    elif case.shape == "transposed":
        x = draw.tensor(2, 3, low=0.5).mT
    else:
        x = draw.tensor(2, low=0.5) if case.shape == "row" else draw.tensor(3, 2, low=0.5)
    if case.data == "bad":
        x = x.masked_fill(x == x.max(), float(case.bad))
    if case.data == "tiny":
        x = x * 1e-9
    return x


@told
def prepared(model: Any, draw: Draw, case: Any) -> Any:
    """A net in its dtype and mode, with hooks of the caller."""
    if draw.is_double:
        model.double()
    if case.mode == "eval":
        model.eval()
    if case.mode == "mixed":
        model.block.eval()
    if case.hooks == "watching":
        model.stem.register_forward_hook(lambda module, args, out: None)
    if case.hooks == "cleaning":
        model.block[1].register_forward_hook(lambda module, args, out: out.nan_to_num(1, 1, 1))
    if case.hooks == "spoiling":
        model.block.register_forward_hook(lambda module, args, out: out.masked_fill(out == out.max(), float(case.bad)))
    if case.grad_mode == "off":
        torch.set_grad_enabled(False)
    return model


def named(call: Call, draw: Draw, case: Any) -> Seen:
    """The first leaf to blame is named, or None."""
    Net = a_net(draw, case)
    net = Net(*case.first)
    model = prepared(net, draw, case)
    x = an_input(draw, case)
    yield "the result", call(model, x)


def anew(call: Call, draw: Draw, case: Any) -> Seen:
    """Each call begins anew."""
    Net = a_net(draw, case)
    net = Net(*case.first)
    model = prepared(net, draw, case)
    x = an_input(draw, case)
    call(model, x)
    other = Net(*case.second)
    other.to(x.dtype)
    found = call(other, x)
    yield "the result for another model", found
    model.load_state_dict(other.state_dict())
    again = call(model, x)
    yield "the result for the first model with the weights of the other", again


def alone(call: Call, draw: Draw, case: Any) -> Seen:
    """A model may be a leaf itself."""
    Layer = a_leaf(draw, case)
    model = Layer(*case.single)
    x = draw.tensor(3, 2, low=0.5)
    model.to(x.dtype)
    yield "the result for a model without children", call(model, x)


def run_once(call: Call, draw: Draw, case: Any) -> Seen:
    """The model runs once, as it does without the function."""
    Net = a_net(draw, case)
    net = Net(*case.third)
    model = prepared(net, draw, case)
    x = an_input(draw, case)
    ran: list[Any] = []
    model.register_forward_pre_hook(lambda module, args: ran.append((args[0] is x, args[0].nan_to_num(1, 1, 1))))
    model.register_forward_hook(lambda module, args, out: ran.append(out.detach().nan_to_num(1, 1, 1)))
    model.block.register_forward_hook(lambda module, args, out: ran.append([part.training for part in model.modules()]))
    call(model, x)
    yield "run by run: whether it gets x, and which, the modes of its parts, what it returns", ran


def left_alone(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing of the caller changes."""
    Net = a_net(draw, case)
    net = Net(*case.first)
    model = prepared(net, draw, case)
    x = an_input(draw, case)
    before = Watch(model=model, x=x)
    call(model, x)
    yield "by the call", before.differences()


def after_an_exception(call: Call, draw: Draw, case: Any) -> Seen:
    """What raised once is found out when it does not."""
    Net = a_net(draw, case)
    net = Net(*case.third)
    model = prepared(net, draw, case)
    x = an_input(draw, case)
    error = draw.error(case.failure)
    raised: list[Any] = []

    def fails_once(*args: Any) -> None:
        if not raised:
            raised.append(error)
            raise error

    model.head.register_forward_pre_hook(fails_once)
    try:
        call(model, x)
    except (Exception, type(error)):
        pass
    after = call(model, x)
    yield "the result of a call after that", after


def model_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of the model comes through, and nothing is left."""
    Net = a_net(draw, case)
    net = Net(*case.third)
    model = prepared(net, draw, case)
    x = an_input(draw, case)
    error = draw.error(case.failure)

    def fails(*args: Any) -> None:
        raise error

    model.head.register_forward_pre_hook(fails)
    before = Watch(model=model, x=x)
    came = None
    try:
        call(model, x)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()
