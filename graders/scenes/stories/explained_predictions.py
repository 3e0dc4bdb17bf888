"""Stories for functions that explain a prediction, by a gradient at the images or at what one layer puts out.

`ask` calls the learner's function, and `wanted` draws the class to ask for, or a class for each image.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

Ask = Callable[[Call, nn.Module, str, Tensor, Any], Any]
Wanted = Callable[[Draw, Any], Any]
LAYERS = {"block": "block", "inside": "block.0", "in place": "block.1", "kinds": "4", "last": "5"}
"""The layer in question in each net. Hooks of others on it only watch."""
IMAGES = {
    "dtype": ("float32", "float64"),
    "batch": (2, 1, 3),
    "channels": (3, 1, 5),
    "x_is": ("data", "leaf", "transposed"),
    "mode": ("eval", "train", "mixed"),
    "odd": ("nothing", "filled", "unused"),
    "hooks": ("none", "watching", "replacing"),
    "failure": ("KeyError", "KeyboardInterrupt", "ValueError", "RuntimeError"),
    "raised_in": ("backward", "model"),
    "frozen": ("nothing", "all", "the first layer"),
}
IMPOSSIBLE = (lambda odd, frozen: odd == "filled" and frozen != "nothing",)  # nothing adds to a `.grad` that is frozen
ALIVE = {"frozen": ("nothing",)}
"""For functions that take the graph of the model's parameters."""
GUIDED = {"hooks": ("none", "watching", "replacing", "backward")}
CLASSES = 4


@told
def for_the_classes(call: Call, model: Any, name: str, x: Any, c: Any) -> Any:
    """For `function(model, x, classes)` and `function(model, x, cls)`."""
    return call(model, x, c)


@told
def for_a_layer(call: Call, model: Any, name: str, x: Any, c: Any) -> Any:
    """For `function(model, layer, x, cls)`."""
    return call(model, model.get_submodule(name), x, c)


def layer_of_row(case: Any) -> str:
    """The name of the layer in question among layers in a row."""
    return "3" if case.net == "last" else "2"


def layer_of_net(case: Any) -> str:
    """The name of the layer in question in another net."""
    return LAYERS[case.net]


def one_class(draw: Draw, case: Any) -> int:
    """The number of a class."""
    return int(draw.choice(range(CLASSES)))


def some_classes(draw: Draw, case: Any) -> Tensor:
    """A class for each image."""
    one, two = draw.shuffled(range(CLASSES))[:2]
    return torch.tensor([one, two, one][: case.batch])


@told
def a_row(draw: Draw, case: Any) -> Any:
    """Layers in a row, as a caller hands them over. In training mode their logits are twice as large."""
    torch.manual_seed(draw.choice(range(100)))
    model = nn.Sequential(
        nn.Conv2d(case.channels, 4, 2), nn.ReLU(), nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(24, 4)
    )
    if draw.is_double:
        model.double()
    if case.mode == "eval":
        model.eval()
    else:
        model.register_forward_hook(lambda module, args, out: 2 * out if module.training else out)
    if case.mode == "mixed":
        model[0].eval()
    if case.odd == "unused":
        model[0].unused = nn.Linear(1, 1)
    if case.odd == "filled":
        for p in model.parameters():
            p.grad = torch.ones_like(p)
    if case.frozen == "all":
        model.requires_grad_(False)
    if case.frozen == "the first layer":
        model[0].requires_grad_(False)
    if case.hooks == "watching":
        model.get_submodule(layer_of_row(case)).register_forward_hook(lambda module, args, out: None)
    if case.hooks == "backward":
        model[1].register_full_backward_hook(lambda module, gi, go: None)
    if case.hooks == "replacing":
        model.register_forward_pre_hook(lambda module, args: (3 * args[0],))
        model.register_forward_hook(lambda module, args, out: -2 * out)
    return model


@told
def with_a_block(case: Any) -> Any:
    """A net with a block, and a skip connection around a ReLU with two names. Its head is defined first."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(24, 4)
            self.stem = nn.Conv2d(case.channels, 4, 2)
            self.spare = self.act = nn.ReLU()
            act = nn.ReLU(inplace=True) if case.net == "in place" else nn.ReLU()
            self.block = nn.Sequential(nn.Conv2d(4, 4, 1, bias=False), act)

        def forward(self, x: Tensor) -> Any:
            h = self.stem(x)
            return self.head(self.block(self.act(h) + h).flatten(1))

    model = Net()
    return model


@told
def with_other_kinds(case: Any) -> Any:
    """Layers in a row, of which some only look like an `nn.ReLU`, and one works in place."""

    class ReLU(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return nn.functional.relu(x)

    model = nn.Sequential(
        nn.Conv2d(case.channels, 4, 2), ReLU(), nn.Conv2d(4, 4, 1), nn.ReLU6(inplace=True),
        nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(24, 4),
    )  # fmt: skip
    return model


@told
def a_net(draw: Draw, case: Any) -> Any:
    """Another net."""
    torch.manual_seed(draw.choice(range(100)))
    if case.net in ("kinds", "last"):
        model = with_other_kinds(case)
    else:
        model = with_a_block(case)
    if draw.is_double:
        model.double()
    return model


@told
def images(draw: Draw, case: Any) -> Any:
    """Images; those that require grad have a `.grad` already, and transposed ones lie in memory in another way."""
    if case.x_is == "transposed":
        x = torch.randn(case.batch, case.channels, 4, 3).mT
    else:
        x = torch.randn(case.batch, case.channels, 3, 4)
    if draw.is_double:
        x = x.double()
    if case.x_is == "leaf":
        x.requires_grad_()
        x.grad = torch.ones_like(x)
    return x


def explained(call: Call, draw: Draw, case: Any, ask: Ask, wanted: Wanted) -> Seen:
    """The result is right for layers in a row."""
    model = a_row(draw, case)
    x = images(draw, case)
    c = wanted(draw, case)
    found = ask(call, model, layer_of_row(case), x, c)
    yield "the result", found


def of_another_net(call: Call, draw: Draw, case: Any, ask: Ask, wanted: Wanted) -> Seen:
    """The result is right for a net with a block, or with other kinds of layers."""
    model = a_net(draw, case)
    x = images(draw, case)
    c = wanted(draw, case)
    found = ask(call, model, layer_of_net(case), x, c)
    yield "the result for another net", found


def left_alone(call: Call, draw: Draw, case: Any, ask: Ask, wanted: Wanted) -> Seen:
    """Nothing of the caller changes."""
    model = a_row(draw, case)
    x = images(draw, case)
    c = wanted(draw, case)
    before = Watch(model=model, x=x, c=c)
    ask(call, model, layer_of_row(case), x, c)
    yield "by the call", before.differences()


def another_net_left_alone(call: Call, draw: Draw, case: Any, ask: Ask, wanted: Wanted) -> Seen:
    """Nothing of another net changes."""
    model = a_net(draw, case)
    x = images(draw, case)
    c = wanted(draw, case)
    before = Watch(model=model)
    ask(call, model, layer_of_net(case), x, c)
    yield "by a call for another net", before.differences()


@told
def that_fails_once(case: Any, model: Any, error: Any) -> Any:
    """Let a model raise, at the end of its run or in the backward pass."""
    errors = [error]

    def fails(*args: Any) -> None:
        if errors:
            raise errors.pop()

    def fails_later(module: nn.Module, args: Any, out: Any) -> None:
        if out.requires_grad:
            out.register_hook(fails)

    model.register_forward_hook(fails_later if case.raised_in == "backward" else fails)
    return model


def something_raises(call: Call, draw: Draw, case: Any, ask: Ask, wanted: Wanted) -> Seen:
    """An exception comes through and nothing is left."""
    model = a_net(draw, case)
    x = images(draw, case)
    c = wanted(draw, case)
    error = draw.error(case.failure)
    model = that_fails_once(case, model, error)
    if case.odd == "filled":
        for p in model.parameters():
            p.grad = torch.ones_like(p)
    before = Watch(model=model, x=x)
    came = None
    try:
        ask(call, model, layer_of_net(case), x, c)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()
    found = ask(call, model, layer_of_net(case), x, c)
    yield "the result of a later call", found


def second_run_raises(call: Call, draw: Draw, case: Any, ask: Ask, wanted: Wanted) -> Seen:
    """Nothing is left when the model runs well at first and raises in its second run."""
    model = a_net(draw, case)
    x = images(draw, case)
    c = wanted(draw, case)
    error = draw.error(case.failure)
    runs: list[Any] = []

    def fails_later(*args: Any) -> None:
        runs.append("one")
        if len(runs) == 2:
            raise error

    model.register_forward_hook(fails_later)
    before = Watch(model=model)
    came = None
    try:
        ask(call, model, layer_of_net(case), x, c)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "whether an exception in the second run is lost", len(runs) > 1 and came != repr(error)
    yield "by a call that raised in the second run", before.differences()


def for_another_class(call: Call, draw: Draw, case: Any, ask: Ask, wanted: Wanted) -> Seen:
    """A later call for another class starts afresh."""
    model = a_row(draw, case)
    x = images(draw, case)
    c = wanted(draw, case)
    ask(call, model, layer_of_row(case), x, c)
    again = ask(call, model, layer_of_row(case), x, (c + 1) % 4)
    yield "the result for another class", again


def of_other_images(call: Call, draw: Draw, case: Any, ask: Ask, wanted: Wanted) -> Seen:
    """A later call for other images starts afresh."""
    model = a_row(draw, case)
    x = images(draw, case)
    c = wanted(draw, case)
    first = ask(call, model, layer_of_row(case), x, c)
    x.data.neg_()
    again = ask(call, model, layer_of_row(case), x, c)
    yield "the result of a later call", again
    yield "the result of the first call after that", first


def called_inside(call: Call, draw: Draw, case: Any, ask: Ask, wanted: Wanted) -> Seen:
    """A hook of the model may make such a call for another model."""
    import copy

    model = a_row(draw, case)
    x = images(draw, case)
    y = images(draw, case)
    c = wanted(draw, case)
    other = copy.deepcopy(model)
    inner: list[Any] = []

    def calls_inside(*args: Any) -> None:
        if len(inner) < 2:
            with torch.enable_grad():
                inner.append(ask(call, other, layer_of_row(case), y, c))

    model.register_forward_pre_hook(calls_inside)
    model.register_forward_hook(calls_inside)
    found = ask(call, model, layer_of_row(case), x, c)
    yield "the result around another call", found
    yield "the results of the calls inside", inner


EXPLAINED = (explained, of_another_net)
PROMISES = {
    "nothing of the caller changes": (left_alone, another_net_left_alone),
    "an exception comes through and nothing is left": something_raises,
    "a later call starts afresh": (for_another_class, of_other_images, called_inside),
}
"""What holds for all of these functions, beside their task."""
OF_TWO_RUNS = {**PROMISES, "an exception comes through and nothing is left": (something_raises, second_run_raises)}
"""What holds for those that run the model twice, with hooks of their own in each run."""
