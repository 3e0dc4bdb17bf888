"""Small drawn models with the peculiarities of real ones.

Parts are defined in another order than they run; some run inside others, some are called twice, and some never. One
takes two tensors, containers return tuples or dicts, and the output of a module may be overwritten in place.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.box.models import fill_grads, freeze_part, in_mode, pack_output, unpack_output
from graders.wire.draws import Rng

IN_PLACE = "in place"
"""A step of a container that is not a module: it overwrites its input."""


class Container(nn.Module):
    """Calls its parts in the order of its steps, and keeps a log."""

    def __init__(self, parts: Mapping[str, nn.Module], steps: Sequence[str], passing: str, output: str) -> None:
        """`steps` are names of parts; `passing` is "position" or "keyword", `output` "tensor", "tuple" or "dict"."""
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.steps, self.passing, self.output = tuple(steps), passing, output
        self.log: list[str] = []

    def forward(self, input: Tensor) -> Any:
        """The result of the last step, packed as `output` says."""
        self.log.append("forward begins")
        value = input
        for step in self.steps:
            if step == IN_PLACE:
                value = value.mul_(-0.5)
                continue
            part = self.get_submodule(step)
            beside = {"other": input} if isinstance(part, Mix) else {}
            value = part(input=value, **beside) if self.passing == "keyword" else part(value, *beside.values())
            value = unpack_output(value)
            has_graph = value.requires_grad or not torch.is_grad_enabled()  # without need of gradients it may be off
            self.log.append(step if has_graph else f"{step}, and there is no graph behind it")
        self.log.append("forward ends")
        return pack_output(value, self.output)


class Mix(nn.Module):
    """Takes two tensors of one shape. It may use the weight of its layer without calling it, as attention does."""

    def __init__(self, size: int, calls: bool) -> None:
        """`size` is the size of the last dimension; `calls` says whether the layer is called."""
        super().__init__()
        self.layer, self.calls = nn.Linear(size, size, bias=False), calls

    def forward(self, input: Tensor, other: Tensor) -> Tensor:
        """A view: half of a larger tensor."""
        value = self.layer(input) if self.calls else F.linear(input, self.layer.weight)
        return torch.cat([value + other, other])[: len(input)]


class Drop(nn.Dropout):
    """Dropout that drops the same entries in every dtype."""

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor in training mode; the input itself in eval mode."""
        if not self.training:
            return input
        return input * (torch.rand(input.shape, dtype=torch.float32) > self.p) / (1 - self.p)


class Mean(nn.Module):
    """The mean of all numbers."""

    def forward(self, input: Tensor) -> Tensor:
        """A tensor without dimensions."""
        return input.mean()


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
    step = [IN_PLACE] if in_place else []
    with torch.random.fork_rng(devices=[]):  # what new layers draw depends on their dtype
        targets: dict[str, nn.Module] = {
            first: nn.Linear(length, length),
            norm: nn.BatchNorm1d(channels),
            nested: Mix(length, calls=get("unused") == "none"),
            often: Drop(0.5),
            flat: nn.Flatten(),
            identity: nn.Identity(),
            last: nn.Linear(channels * length, out),
            scalar: Mean(),
        }
    idle = {unused: nn.ModuleDict(copy.deepcopy(targets))}
    container = Container({last: nn.Tanh(), nested: targets.pop(nested)}, [nested, *step, last], *how)
    parts = targets | {body: container}
    parts = {name: parts[name] for name in rng.shuffled(list(parts))} | {second: parts[often]}
    parts = {"before": idle | parts, "after": parts | idle, "none": parts}[get("unused", "before")]
    groups = ([first], [norm], [body, often], [flat, identity], [second, often], [second], [often], [last], [scalar])
    run = [name for group in groups for name in (*group, *step)]
    model = Container(parts, run, *how).to(getattr(torch, case.dtype))
    in_mode(model, get("mode", "train"))

    def draw() -> Tensor:
        return rng.tensor(samples, channels, length, dtype=case.dtype, values=get("values", "full"))

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(rng.tensor(*parameter.shape, low=-1, high=1, dtype=case.dtype))
    freeze_part(model, get("frozen", "nothing"))
    if get("grad") == "filled":
        fill_grads(model)
    names = {
        "first": first, "norm": norm, "nested": f"{body}.{nested}", "body": body, "often": often, "flat": flat,
        "identity": identity, "second name": second, "last": last, "scalar": scalar,
    }  # fmt: skip
    return DrawnModel(model, names, draw)
