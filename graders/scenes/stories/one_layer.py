"""Stories for functions that run a model and return the output of one of its layers."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

MODELS = {
    "dtype": ("float32", "float64"),
    "model": ("in a row", "nested", "a class"),
    "layer": ("middle", "first", "last", "block"),
    "rank": (1, 2, 3),
    "hooks": ("none", "replacing"),
}
IMPOSSIBLE = (lambda model, layer: model == "in a row" and layer == "block",)
PATHS = {
    "in a row": {"first": "0", "middle": "1", "last": "2"},
    "nested": {"first": "0.0", "middle": "0.1.0", "last": "1.0", "block": "0.1"},
    "a class": {"first": "first", "middle": "block.1.0", "last": "last", "block": "block"},
}


def path_to(case: Any, layer: str) -> str:
    """The path to a layer of the case's model."""
    return PATHS[case.model][layer]


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model, whose layers look the same, one of them, and an input."""
    torch.manual_seed(draw.choice(range(100)))
    if case.model == "in a row":
        model: Any = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    elif case.model == "nested":
        inner = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
        model = nn.Sequential(inner, nn.Sequential(nn.Linear(2, 2)))
    else:

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.last = nn.Linear(2, 2)
                self.block = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
                self.first = nn.Linear(2, 2)

            def forward(self, x: Tensor) -> Any:
                return self.last(x - self.block(self.first(x)))

        model = Net()
    if draw.is_double:
        model.double()
    layer = model.get_submodule(path_to(case, case.layer))
    if case.hooks == "replacing":
        layer.register_forward_hook(lambda module, args, output: 2 * output)
    x = draw.tensor(*(2, 3, 2)[-case.rank :])
    return model, layer, x


def of_the_layer(call: Call, draw: Draw, case: Any) -> Seen:
    """The output of the layer is returned."""
    model, layer, x = a_model(draw, case)
    found = call(model, layer, x)
    yield "the output", found


def of_a_later_call(call: Call, draw: Draw, case: Any) -> Seen:
    """Each call returns its own output."""
    model, layer, x = a_model(draw, case)
    found = call(model, layer, x)
    later = call(model, layer, 3 * x)
    yield "the output of a later call", later
    other = model.get_submodule(path_to(case, "first" if case.layer == "last" else "last"))
    third = call(model, other, x)
    yield "the output of another layer", third
    yield "the output of the first call after that", found


def as_it_was(call: Call, draw: Draw, case: Any) -> Seen:
    """The model runs once, no hook is left, and nothing else has changed."""
    model, layer, x = a_model(draw, case)
    layer.eval()
    before = Watch(model=model, x=x)
    found = call(model, layer, x)
    yield "by the call", before.differences()
    yield "the output of that call", found
    calls: list[str] = []
    ends: list[str] = []
    forward = layer.forward
    layer.forward = lambda x: calls.append("called") or forward(x)
    last = model.get_submodule(path_to(case, "last"))
    last.register_forward_hook(lambda module, args, output: ends.append("called"))
    call(model, layer, x)
    yield "the calls of the layer", calls
    yield "the calls of the last layer", ends
