"""Small drawn models with the peculiarities of real ones.

Parts are defined in another order than they run; some run inside others, some are called twice, and some never. One
takes two tensors, containers return tuples or dicts, and the output of a module may be overwritten in place.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.scenes.chains import CallPart, Chain, Step, multiply_by
from graders.scenes.instruments.models import fill_grads, freeze_part, in_mode
from graders.scenes.small_modules import Fn, draw_parameters
from graders.wire.draws import Rng


class Container(Chain):
    """A chain that keeps a log."""

    def __init__(self, *args: Any) -> None:
        """Takes the arguments of a chain."""
        super().__init__(*args)
        self.log: list[str] = []

    def forward(self, input: Tensor) -> Any:
        """The result of the last step, packed as `output` says."""
        self.log.append("forward begins")
        output = super().forward(input)
        self.log.append("forward ends")
        return output

    def call_part(self, name: str, h: Tensor, **others: Tensor) -> Tensor:
        """Call a part, and log whether gradients can flow through its output."""
        value = super().call_part(name, h, **others)
        has_graph = value.requires_grad or not torch.is_grad_enabled()  # without need of gradients it may be off
        self.log.append(name if has_graph else f"{name}, and there is no graph behind it")
        return value


class Drop(nn.Dropout):
    """Dropout that drops the same entries in every dtype."""

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor in training mode; the input itself in eval mode."""
        if not self.training:
            return input
        return input * (torch.rand(input.shape, dtype=torch.float32) > self.p) / (1 - self.p)


@dataclass
class DrawnModel:
    """A model, the names of its modules by their roles, and a function that draws an input for it."""

    model: Container
    names: dict[str, str]
    """The roles, in the order of the run: "first", "norm", "nested" (it takes two tensors), "often" (a dropout that is
    called five times), "flat" and "identity" (both return their input or a view of it), "second name" (of "often"),
    "last" ("body", the container of "nested", has a part of the same name), "scalar".
    """
    draw: Callable[[], Tensor]


def a_model(rng: Rng, case: Any, *, in_place: bool = False) -> DrawnModel:
    """A model for inputs of shape [samples, channels, length].

    Reads `dtype` of the case, and if it has them `values`, `mode`, `frozen`, `grad`, `output`, `passing`, `length`, and
    `unused`: whether modules that are never called, with the same names as others, are defined "before" or "after"
    those, or there are "none". With `in_place` the next step overwrites what a named module returned.
    """
    get = vars(case).get
    samples, channels, length, out = 3, rng.integer(2, 4), get("length", 4), rng.integer(2, 5)
    first, norm, body, nested, often, flat, identity, second, last, scalar, unused = rng.names(11)
    how = get("passing", "position"), get("output", "tensor")
    step: list[Step] = [multiply_by(-0.5, in_place=True)] if in_place else []

    def mix_two(module: Any, input: Tensor, other: Tensor) -> Tensor:
        """A view. It may use the weight of its layer without calling it, as attention does."""
        layer = module.layer
        value = layer(input) if get("unused") == "none" else F.linear(input, layer.weight)
        return torch.cat([value + other, other])[: len(input)]

    with torch.random.fork_rng(devices=[]):  # what new layers draw depends on their dtype
        targets: dict[str, nn.Module] = {
            first: nn.Linear(length, length),
            norm: nn.BatchNorm1d(channels),
            nested: Fn(mix_two, layer=nn.Linear(length, length, bias=False)),
            often: Drop(0.5),
            flat: nn.Flatten(),
            identity: nn.Identity(),
            last: nn.Linear(channels * length, out),
            scalar: Fn(lambda module, input: input.mean()),
        }
    idle = {unused: nn.ModuleDict(copy.deepcopy(targets))}

    def mix(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
        return call(nested, h, other=x)

    container = Container({last: nn.Tanh(), nested: targets.pop(nested)}, [mix, *step, last], *how)
    parts = targets | {body: container}
    parts = {name: parts[name] for name in rng.shuffled(list(parts))} | {second: parts[often]}
    parts = {"before": idle | parts, "after": parts | idle, "none": parts}[get("unused", "before")]
    groups = ([first], [norm], [body, often], [flat, identity], [second, often], [second], [often], [last], [scalar])
    run = [name for group in groups for name in (*group, *step)]
    model = Container(parts, run, *how).to(getattr(torch, case.dtype))
    in_mode(model, get("mode", "train"))

    def draw() -> Tensor:
        return rng.tensor(samples, channels, length, dtype=case.dtype, values=get("values", "full"))

    draw_parameters(model, rng, low=-1, high=1, dtype=case.dtype)
    # In training, the mean of what it returns is that of its bias, which must not be 0: only rounding would show.
    model.get_parameter(f"{norm}.bias").data.abs_().add_(0.125)
    freeze_part(model, get("frozen", "nothing"))
    if get("grad") == "filled":
        fill_grads(model)
    names = {
        "first": first, "norm": norm, "nested": f"{body}.{nested}", "body": body, "often": often, "flat": flat,
        "identity": identity, "second name": second, "last": last, "scalar": scalar,
    }  # fmt: skip
    return DrawnModel(model, names, draw)
