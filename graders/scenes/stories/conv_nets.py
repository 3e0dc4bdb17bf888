"""A model for `graders.scenes.stories.captures`, and more, for functions that look for the convolutions in a model."""

from typing import Any

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
    """The class of a net that overwrites what each convolution returns."""
    if case.layer == "subclass":

        class Bounded(nn.Conv2d):
            def __init__(self) -> None:
                super().__init__(1, 1, 1)
                self.act = nn.Tanh()

            def forward(self, input: Tensor) -> Any:
                return self.act(super().forward(input))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if case.layer == "in another order":
                self.last = nn.Conv2d(1, 1, 2)
            if case.layer == "nested":
                self.block = nn.ModuleDict({"two": nn.Sequential(nn.Conv2d(1, 1, 1)), "one": nn.Conv2d(1, 1, 1)})
            if case.layer == "subclass":
                self.bounded = Bounded()
            if case.layer == "other kinds":
                self.up = nn.ConvTranspose2d(1, 1, 1)
                self.row = nn.Conv1d(2, 2, 1)
            self.stem = nn.Conv2d(1, 1, 1)
            self.norm = nn.BatchNorm2d(1)
            if case.layer == "two names":
                self.twin = self.stem
            if case.layer == "in a plain list":
                self.loose = [nn.Conv2d(1, 1, 1)]
            self.head = nn.Tanh()

        def forward(self, x: Tensor) -> Any:
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

    return Net


def a_convolution_alone(call: Call, draw: Draw, case: Any) -> Seen:
    """A model may be a convolution itself."""
    model = nn.Conv2d(1, 1, 1)
    model.weight.data, model.bias.data = draw.tensor(1, 1, 1, 1), draw.tensor(1)
    x = draw.tensor(1, 2, 2)
    yield "the result for a convolution", call(model, x)
