"""Nets and a story for functions that look for the convolutions in a model; `captures.a_model` uses the nets."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.story import Call, Draw, Seen, Value, told

NETS: dict[str, tuple[Value, ...]] = {
    "layer": ("in another order", "nested", "subclass", "other kinds", "two names", "in a plain list"),
    "odd": ("nothing", "keyword", "tuple", "dict", "frozen", "filled", "transposed"),
}


def is_convolutional(case: Any) -> bool:
    """Whether the model has convolutions."""
    return case.layer in NETS["layer"]


@told
def a_net_with_convolutions(draw: Draw, case: Any) -> Any:
    """A net that overwrites what each convolution returns."""

    class Net(nn.ModuleDict):
        def forward(self: Any, x: Tensor) -> Any:
            h = (self.stem(input=x) if case.odd == "keyword" else self.stem(x)).mul_(-0.5)
            h = self.norm(h)
            if case.layer == "in another order":
                h = self.last(h).mul_(-0.5)
            if case.layer == "nested":
                h = self.block["one"](h).mul_(-0.5)
                h = self.block["two"](h).mul_(-0.5)
            if case.layer == "subclass":
                h = self.bounded(h).mul_(-0.5)
            if case.layer == "other kinds":
                h = self.row(self.up(h)[:, 0])
            if case.layer == "in a plain list":
                h = self.loose[0].to(x.dtype)(h)
            if case.odd == "tuple":
                return self.head(h), x
            return {"out": self.head(h)} if case.odd == "dict" else self.head(h)

    torch.manual_seed(draw.choice(range(100)))
    model: Any = Net({"stem": nn.Conv2d(1, 1, 1), "norm": nn.BatchNorm2d(1), "head": nn.Tanh()})
    if case.layer == "in another order":
        model = Net({"last": nn.Conv2d(1, 1, 2), **model})
    if case.layer == "nested":
        model.block = nn.ModuleDict({"two": nn.Sequential(nn.Conv2d(1, 1, 1)), "one": nn.Conv2d(1, 1, 1)})
    if case.layer == "subclass":

        class Bounded(nn.Conv2d):
            def forward(self: Any, input: Tensor) -> Any:
                return self.act(super().forward(input))

        model.bounded = Bounded(1, 1, 1)
        model.bounded.act = nn.Tanh()
    if case.layer == "other kinds":
        model.up = nn.ConvTranspose2d(1, 1, 1)
        model.row = nn.Conv1d(2, 2, 1)
    if case.layer == "two names":
        model.twin = model.stem
    if case.layer == "in a plain list":
        model.loose = [nn.Conv2d(1, 1, 1)]
    return model


def a_convolution_alone(call: Call, draw: Draw, case: Any) -> Seen:
    """A model may be a convolution itself."""
    model = nn.Conv2d(1, 1, 1)
    model.weight.data, model.bias.data = draw.tensor(1, 1, 1, 1), draw.tensor(1)
    x = draw.tensor(1, 2, 2)
    found = call(model, x)
    yield "the result for a convolution", found
