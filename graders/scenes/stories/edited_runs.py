"""Stories for functions that run a model with some channels of one layer's output replaced."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.stories.model_states import in_its_state, is_chain
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

Ask = Callable[[Call, nn.Module, str, list[int], Tensor, Tensor], Any]
"""Calls the learner's function for a layer of a model, channels, an input, and one from which channels may be taken."""
MODEL = {
    "layer": ("norm; chain", "norm", "block.act", "head", ""),
    "dtype": ("float32", "float64"),
    "rank": (2, 3, 4),
    "collection": ("many", "one", "repeated", "empty"),
    "mode": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "replacing"),
    "odd": ("nothing", "keyword", "frozen", "filled"),
    "failure": ("KeyError", "KeyboardInterrupt", "ValueError", "RuntimeError"),
    "breaks": ("at the end", "at the start"),
}


def name_of(case: Any) -> str:
    """The name of the layer in question."""
    name: str = case.layer.partition("; ")[0]
    return name


@told
def ablated(call: Call, model: Any, name: str, channels: Any, x: Any, y: Any) -> Any:
    """For `function(model, name, channels, x)`."""
    return call(model, name, channels, x)


@told
def patched(call: Call, model: Any, name: str, channels: Any, x: Any, y: Any) -> Any:
    """For `function(model, name, clean, corrupt, channels)`."""
    return call(model, name, y, x, channels)


def size_of(case: Any) -> int:
    """The size of every dimension, so that a channel used in the wrong dimension raises no error."""
    return {2: 4, 3: 3, 4: 2}[case.rank]


def an_input(draw: Draw, case: Any) -> Tensor:
    """An input for the model."""
    return draw.tensor(*(size_of(case),) * case.rank)


def some_channels(draw: Draw, case: Any) -> list[int]:
    """Channel indexes, unsorted."""
    shuffled = draw.shuffled(range(size_of(case)))
    repeated = [shuffled[0], shuffled[1], shuffled[0]]
    lists = {"empty": [], "one": shuffled[:1], "many": shuffled[1:], "repeated": repeated}
    return lists[case.collection]


@told
def a_chain(case: Any) -> Any:
    """Layers one after the other, of which one overwrites in place what it gets: this makes the shortest programs."""
    model = nn.Sequential()
    model.norm = nn.BatchNorm2d(size_of(case)) if case.rank == 4 else nn.BatchNorm1d(size_of(case))
    model.relu = nn.LeakyReLU(0.5, inplace=True)
    model.head = nn.Tanh()
    return model


@told
def a_net(case: Any) -> Any:
    """The class of a net with the layer in question. It overwrites in place what it can, and may add up channels."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Tanh()
            if case.layer == "block.act":
                self.act = nn.Identity()
                self.block = nn.ModuleDict({"act": nn.LeakyReLU(0.5)})
            self.norm = nn.BatchNorm2d(size_of(case)) if case.rank == 4 else nn.BatchNorm1d(size_of(case))

        def forward(self, x: Tensor) -> Any:
            h = (self.norm(input=x) if case.odd == "keyword" else self.norm(x)).mul_(-0.5)
            if case.layer == "block.act":
                h = self.act(self.block["act"](h).mul_(-0.5)).cumsum(1)
            return self.head(h)

    return Net


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model with the layer in question, and two inputs."""
    if is_chain(case):
        model = a_chain(case)
    else:
        Net = a_net(case)
        model = Net()
    in_its_state(model, draw, case)
    if case.hooks == "watching":
        model.get_submodule(name_of(case)).register_forward_hook(lambda module, args, out: None)
    if case.hooks == "replacing":
        model.get_submodule(name_of(case)).register_forward_hook(lambda module, args, out: out.roll(1, 1) + 1)
    x = an_input(draw, case)
    y = an_input(draw, case)
    if case.odd == "frozen" or case.layer == "":
        x.requires_grad_()
    return model, x, y


def edited(call: Call, draw: Draw, case: Any, ask: Ask) -> Seen:
    """The listed channels are replaced in this run."""
    model, x, y = a_model(draw, case)
    channels = some_channels(draw, case)
    out = ask(call, model, name_of(case), channels, x, y)
    yield "the result", out


def whole(call: Call, draw: Draw, case: Any) -> Seen:
    """Without channels, the whole output is replaced."""
    model, x, y = a_model(draw, case)
    out = call(model, name_of(case), y, x)
    yield "the result", out


def around(call: Call, draw: Draw, case: Any, ask: Ask) -> Seen:
    """What goes around the layer stays as it is."""

    class Net(nn.ModuleDict):
        def forward(self: Any, x: Tensor) -> Any:
            return self.skip(x) + 2 * x

    model = Net({"skip": nn.Identity()})
    one_channel = [1]
    x = draw.tensor(2, 3)
    y = draw.tensor(2, 3)
    out = ask(call, model, "skip", one_channel, x, y)
    yield "the result where the input goes around the layer, too", out


def later(call: Call, draw: Draw, case: Any, ask: Ask) -> Seen:
    """A later call starts afresh."""
    model, x, y = a_model(draw, case)
    channels = some_channels(draw, case)
    z = an_input(draw, case)
    one_channel = [0]
    first = ask(call, model, name_of(case), channels, x, y)
    again = ask(call, model, name_of(case), one_channel, z, x)
    yield "the result of a later call", again
    yield "the result of the first call after that", first
    out = model(z)
    yield "the output of the model after both", out.detach()


def called_inside(call: Call, draw: Draw, case: Any, ask: Ask) -> Seen:
    """A hook of the model makes such a call with another model."""
    import copy

    model, x, y = a_model(draw, case)
    channels = some_channels(draw, case)
    z = an_input(draw, case)
    other = copy.deepcopy(model)
    one_channel = [1]
    inner: list[Any] = []
    model.norm.register_forward_pre_hook(lambda *args: inner.append(ask(call, other, name_of(case), one_channel, z, y)))
    out = ask(call, model, name_of(case), channels, x, y)
    yield "the result around another call", out
    yield "the results of the calls inside", inner
    after = other(z)
    yield "the output of the other model afterwards", after.detach()


def run_as_it_is(call: Call, draw: Draw, case: Any, ask: Ask) -> Seen:
    """The model gets each input once, in order."""
    model, x, y = a_model(draw, case)
    channels = some_channels(draw, case)
    ran: list[Any] = []
    model.register_forward_pre_hook(lambda module, args: ran.append(args[0].detach().clone()))
    ask(call, model, name_of(case), channels, x, y)
    yield "the inputs of the model", ran


def run_for_equal_inputs(call: Call, draw: Draw, case: Any, ask: Ask) -> Seen:
    """It runs for each of two equal inputs."""
    model, x, y = a_model(draw, case)
    one_channel = [1]
    ran: list[Any] = []
    model.register_forward_pre_hook(lambda module, args: ran.append("a run"))
    out = ask(call, model, name_of(case), one_channel, x, x)
    yield "the result", out
    yield "the runs", ran


def left_alone(call: Call, draw: Draw, case: Any, ask: Ask) -> Seen:
    """Inputs and model are as before."""
    model, x, y = a_model(draw, case)
    channels = some_channels(draw, case)
    before = Watch(model=model, x=x, y=y, channels=channels)
    ask(call, model, name_of(case), channels, x, y)
    yield "by the call", before.differences()
    with torch.no_grad():
        out = ask(call, model, name_of(case), channels, x, y)
        enabled = torch.is_grad_enabled()
    yield "the result under no_grad", out
    yield "grad mode after a call under no_grad", enabled


def left_alone_by_identity(call: Call, draw: Draw, case: Any) -> Seen:
    """The input stays, even if the layer that is replaced passes it on."""
    x = draw.tensor(2, 3)
    y = draw.tensor(2, 3)
    before = Watch(x=x, y=y)
    call(nn.Identity(), "", y, x)
    yield "by a call without channels", before.differences()


@told
def that_breaks(case: Any, model: Any, error: Any, runs: int) -> Any:
    """Let a model raise at the start of its first run, or at the end of the run of this number; returns its runs."""
    ran: list[Any] = []

    def fails(*args: Any) -> None:
        if len(ran) == (1 if case.breaks == "at the start" else runs):
            raise error

    model.norm.register_forward_pre_hook(lambda *args: ran.append("a run"))
    if case.breaks == "at the start":
        model.norm.register_forward_pre_hook(fails)
    else:
        model.register_forward_hook(fails)
    return ran


def model_raises(call: Call, draw: Draw, case: Any, ask: Ask, runs: int) -> Seen:
    """An exception comes through and nothing is left."""
    model, x, y = a_model(draw, case)
    error = draw.error(case.failure)
    channels = [1, 0]
    ran = that_breaks(case, model, error, runs)
    before = Watch(model=model, x=x, y=y)
    came = None
    try:
        ask(call, model, name_of(case), channels, x, y)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()
    yield "whether the model began to run", len(ran) > 0


def switched_off(call: Call, draw: Draw, case: Any) -> Seen:
    """The channels are zero whatever they were, and all others stay."""
    x = torch.tensor([[float("inf"), 1.5, float("nan"), -float("inf")], [0.5, -2.5, float("inf"), 1e-9]])
    out = call(nn.Identity(), "", [0], x)
    yield "the result for inf, numbers and nan", out
    out = call(nn.Identity(), "", [2, 3], x)
    yield "the result for other channels", out
    yield "whether they are exactly 0", bool((out[:, 2:] == 0).all())


def single_channel(call: Call, draw: Draw, case: Any) -> Seen:
    """One channel and one sample will do, also of an input with a graph."""
    w = draw.tensor(3, 1).requires_grad_()
    x = 2 * w
    out = call(nn.Identity(), "", [0], x)
    yield "the result for one channel", out
    x = draw.tensor(1, 3)
    out = call(nn.Identity(), "", [0], x)
    yield "the result for one sample", out


def replaced_exactly(call: Call, draw: Draw, case: Any) -> Seen:
    """Channels are replaced digit by digit, even by nan."""
    clean = torch.tensor([[0.3, -0.7, float("nan")], [float("nan"), float("inf"), 0.1], [-0.2, 1e-9, 2.3]])
    corrupt = torch.tensor([[3.0, float("inf"), 1e9], [1.7, 1.0, float("inf")], [2.0, 1e9, 5.0]])
    out = call(nn.Identity(), "", clean, corrupt, [1, 2, 1])
    yield "the result", out
    yield "whether the channels are exactly those", bool((out[:, 1] == clean[:, 1]).all())
    out = call(nn.Identity(), "", clean, corrupt)
    yield "the result without channels", out


def single_channel_replaced(call: Call, draw: Draw, case: Any) -> Seen:
    """One channel and one sample will do."""
    x = draw.tensor(3, 1)
    y = draw.tensor(3, 1)
    out = call(nn.Identity(), "", y, x, [0])
    yield "the result for one channel", out
    x = draw.tensor(1, 3)
    y = draw.tensor(1, 3)
    out = call(nn.Identity(), "", y, x, [0])
    yield "the result for one sample", out
