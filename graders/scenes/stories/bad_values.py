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
    "net": ("chain", "another order"),
    "calls": ("bad first", "bad last"),
    "data": ("fine", "bad", "tiny"),
    "dtype": ("float32", "float64"),
    "shape": ("flat", "0-dim", "transposed", "row"),
    "mode": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "cleaning", "spoiling"),
    "grad_mode": ("on", "off"),
    "failure": ("KeyError", "KeyboardInterrupt", "RuntimeError", "StopIteration"),
}


def large(case: Any) -> float:
    """So large that the sum of two is infinite."""
    return torch.finfo(getattr(torch, case.dtype)).max / 1.5


@told
def a_net(case: Any) -> Any:
    """The class of a net whose layers do not run in the order in which they are defined."""

    class Net(nn.ModuleDict):
        def forward(self: Any, x: Tensor) -> Any:
            x = self.first(x).nan_to_num(0.3, 0.3, 0.3)
            return self.stem(x) + self.block(x) + self.head(x)

    return Net


def limit(limits: Any, index: int) -> Any:
    """One of the limits, which a program says as a number."""
    return limits[index]


@told
def a_model(limits: Any, draw: Draw, case: Any) -> Any:
    """Three layers that put a bad value in place of what is not above a limit; and their container."""
    bad = float(case.bad)
    stem = nn.Threshold(limit(limits, 0), bad)
    inner = nn.Threshold(limit(limits, 1), bad)
    head = nn.Threshold(limit(limits, 2), bad)
    block = nn.Sequential(inner)
    if case.net == "chain":
        clean = nn.Threshold(0, 0.3)
        model = nn.Sequential(nn.PReLU(), stem, clean, block, clean, head)
    else:
        Net = a_net(case)
        model = Net({"block": block, "head": head, "stem": stem, "first": nn.PReLU()})
    if draw.is_double:
        model.double()
    return model, stem, inner, block, head


def an_input(draw: Draw, case: Any) -> Any:
    """Positive numbers, of which the first is not above 0.5; one may be bad already, or all tiny."""
    shapes = {"0-dim": (1,), "transposed": (3, 2), "row": (2,)}
    x = draw.tensor(*shapes.get(case.shape, (3, 2)), low=0.8)
    x.view(-1)[0] = draw.choice([0.3, 0.4])
    if case.data == "bad":
        x = x.masked_fill(x == x.max(), float(case.bad))
    if case.data == "tiny":
        x = x * 1e-9
    return x[0] if case.shape == "0-dim" else x


@told
def prepared(model: Any, stem: Any, inner: Any, block: Any, case: Any) -> Any:
    """A net in its mode, with hooks of the caller."""
    if case.mode == "eval":
        model.eval()
    if case.mode == "mixed":
        block.eval()
    if case.hooks == "watching":
        stem.register_forward_hook(lambda module, args, out: None)
    if case.hooks == "cleaning":
        inner.register_forward_hook(lambda module, args, out: out.nan_to_num(0.3, 0.3, 0.3))
    if case.hooks == "spoiling":
        block.register_forward_hook(lambda module, args, out: out.masked_fill(out == out.max(), float(case.bad)))
    if case.grad_mode == "off":
        torch.set_grad_enabled(False)


@told
def a_run(limits: Any, draw: Draw, case: Any) -> Any:
    """A model with such limits, and its input."""
    model, stem, inner, block, head = a_model(limits, draw, case)
    prepared(model, stem, inner, block, case)
    x = an_input(draw, case)
    if case.shape == "transposed":
        x = x.mT
    return model, stem, inner, block, head, x


def named(call: Call, draw: Draw, case: Any) -> Seen:
    """The first leaf to blame is named, or None."""
    model, stem, inner, block, head, x = a_run(case.first, draw, case)
    found = call(model, x)
    yield "the result", found


def large_numbers(call: Call, draw: Draw, case: Any) -> Seen:
    """A large but finite output is not blamed."""
    model = nn.Sequential(nn.Threshold(case.single, float(case.bad)), nn.ReLU6(), nn.Threshold(7, large(case)))
    x = an_input(draw, case)
    found = call(model, x)
    yield "the result where numbers are very large", found


def in_place(call: Call, draw: Draw, case: Any) -> Seen:
    """An input counts as it was before a layer overwrote it."""
    model = nn.Sequential(nn.LeakyReLU(), nn.Threshold(case.single, float(case.bad), inplace=True))
    x = an_input(draw, case)
    found = call(model, x)
    yield "the result where a layer works in place", found


def called_twice(call: Call, draw: Draw, case: Any) -> Seen:
    """Each call of a leaf is judged by itself."""

    class Net(nn.ModuleDict):
        def forward(self: Any, x: Tensor) -> Any:
            x = x.nan_to_num(0.3, 0.3, 0.3)
            if case.calls == "bad last":
                self.layer(x)
            h = self.layer(x.masked_fill(x == x.max(), float(case.bad)))
            return self.layer(x) if case.calls == "bad first" else h

    model = Net({"layer": nn.Threshold(case.single, float(case.bad))})
    x = an_input(draw, case)
    found = call(model, x)
    yield "the result where a layer is called twice", found


def two_inputs(call: Call, draw: Draw, case: Any) -> Seen:
    """Every tensor input counts."""

    class Sum(nn.Module):
        def forward(self: Any, x: Tensor, share: float, other: Tensor) -> Any:
            return x + share * other

    class Net(nn.ModuleDict):
        def forward(self: Any, x: Tensor) -> Any:
            x = x.nan_to_num(0.3, 0.3, 0.3)
            return self.sum(x, 0.5, x.masked_fill(x == x.max(), float(case.bad))) + self.head(x)

    model = Net({"sum": Sum(), "head": nn.Threshold(case.single, float(case.bad))})
    x = an_input(draw, case)
    found = call(model, x)
    yield "the result where a layer gets two tensors", found


def anew(call: Call, draw: Draw, case: Any) -> Seen:
    """Each call begins anew."""
    model, stem, inner, block, head, x = a_run(case.first, draw, case)
    call(model, x)
    stem.threshold, inner.threshold, head.threshold = case.second
    again = call(model, x)
    yield "the result for the same model with other limits", again
    other, stem, inner, block, head = a_model(case.third, draw, case)
    found = call(other, x)
    yield "the result for another model", found


def called_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A hook of the model may make such a call for another model."""
    model, stem, inner, block, head, x = a_run(case.first, draw, case)
    other = nn.Threshold(0.5, float(case.bad))
    found_inside: list[Any] = []
    stem.register_forward_hook(lambda *args: found_inside.append(call(other, torch.zeros(2))))
    found = call(model, x)
    yield "the result around another call", found
    yield "the result of the call inside", found_inside


def alone(call: Call, draw: Draw, case: Any) -> Seen:
    """A model may be a leaf itself."""
    model = nn.Threshold(case.single, float(case.bad))
    x = an_input(draw, case)
    found = call(model, x)
    yield "the result for a model without children", found


def run_once(call: Call, draw: Draw, case: Any) -> Seen:
    """The model runs once, as it does without the function."""
    model, stem, inner, block, head, x = a_run(case.sound, draw, case)
    ran: list[Any] = []
    model.register_forward_pre_hook(lambda module, args: ran.append((args[0] is x, args[0].nan_to_num(1, 1, 1))))
    model.register_forward_hook(lambda module, args, out: ran.append(out.detach().nan_to_num(1, 1, 1)))
    block.register_forward_hook(lambda module, args, out: ran.append([part.training for part in model.modules()]))
    call(model, x)
    yield "run by run: whether it gets x, and which, the modes of its parts, what it returns", ran


def left_alone(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing of the caller changes."""
    model, stem, inner, block, head, x = a_run(case.first, draw, case)
    before = Watch(model=model, x=x)
    call(model, x)
    yield "by the call", before.differences()


def after_an_exception(call: Call, draw: Draw, case: Any) -> Seen:
    """After a call that raised, the next one is right."""
    model, stem, inner, block, head, x = a_run(case.first, draw, case)
    error = draw.error(case.failure)
    raised: list[Any] = []

    def fails_once(*args: Any) -> None:
        if not raised:
            raised.append(error)
            raise error

    head.register_forward_pre_hook(fails_once)
    try:
        call(model, x)
    except (Exception, type(error)):
        pass
    sound, stem, inner, block, head = a_model(case.sound, draw, case)
    after = call(sound, x)
    yield "the result of a call after that", after


def model_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of the model comes through, and nothing is left."""
    model, stem, inner, block, head, x = a_run(case.sound, draw, case)
    error = draw.error(case.failure)

    def fails(*args: Any) -> None:
        raise error

    head.register_forward_pre_hook(fails)
    before = Watch(model=model, x=x)
    came = None
    try:
        call(model, x)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()
