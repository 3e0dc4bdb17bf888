"""What probes of several exercises of lesson 6 use, beside the learner's code."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import CallersHooks, Failure, every_kind, fill_grads, freeze_part, gradients, in_mode


def layer_of(layers: str, weight: Tensor, rank: int) -> nn.Module:
    """A "linear" layer, a "convolution" of tensors with `rank` dimensions, or an "activation", a sigmoid."""
    if layers == "activation":
        return nn.Sigmoid()
    size = len(weight)
    kind: Any = {"linear": nn.Linear, "convolution": nn.Conv2d if rank == 4 else nn.Conv1d}[layers]
    made = kind(size, size, bias=False) if layers == "linear" else kind(size, size, 1, bias=False)
    made.weight = nn.Parameter(weight.detach().clone().view_as(made.weight))
    return made


def callers_hooks(module: nn.Module, hooks: str, name: str = "module") -> CallersHooks:
    """The caller's hooks on a module. Those that replace make `FACTOR * output + 1` of an output.

    Neither a multiplication nor zeros may come before that or after it with the same result.
    """
    callers = CallersHooks(hooks).on_module(module, name)
    if hooks == "replacing":
        callers.handles.append(module.register_forward_hook(lambda module, args, output: output + 1))
    return callers


def gradients_at(
    leaves: list[Tensor], call: Callable[[], Any], up: Tensor, backward: str = "plain"
) -> list[Tensor | None]:
    """The gradients that come to the leaves when the output of `call()` receives `up`; None when none comes."""
    output = call()
    if not isinstance(output, Tensor) or not output.requires_grad or output.shape != up.shape:
        return [None for _ in leaves]
    return gradients(lambda: (call() * up).sum(), leaves, backward)


def differentiated(call: Callable[[], Any], leaf: Tensor, up: Tensor) -> Tensor | None:
    """The gradient at `up` of the sum of the gradient at the leaf: under `create_graph` it is part of a graph."""
    output, up = call(), up.detach().clone().requires_grad_()
    if not isinstance(output, Tensor) or not output.requires_grad or output.shape != up.shape:
        return None
    (found,) = torch.autograd.grad((output * up).sum(), leaf, create_graph=True, allow_unused=True)
    if found is None or not found.requires_grad:
        return None
    return torch.autograd.grad(found.sum(), up, allow_unused=True)[0]


def arrived(received: tuple[tuple[Any, ...], dict[str, Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """How these arguments of a caller came to `forward`, which received those: "as passed", or one of `NOT_ARRIVED`."""
    found, keywords = received
    if len(found) < len(args):
        return "positional lost"
    if not kwargs.keys() <= keywords.keys():
        return "keywords lost"
    if len(found) > len(args) or keywords.keys() > kwargs.keys():
        return "more"
    same = all(given is passed for given, passed in zip(found, args)) and all(
        keywords[key] is kwargs[key] for key in kwargs
    )
    return "as passed" if same else "others"


SIZE = 5
"""Channels, images in a batch, and positions along each axis of an image: an index into one fits all."""
PLACES = {"first": "entry", "last": "head", "nested": "conv2", "root": "root", "second name": "mid"}
"""Where the module stands that is named, in the words of the circumstances, and its place in a `TwoPath`."""


class TwoPath(nn.Module):
    """A small model with a skip connection, a layer that shows its mode, and names from the draw.

    entry -> conv1 -> act1 -> norm -> h;  h + block(h), averaged over space -> mid -> act3 -> head

    `entry` hands on the very tensor that it gets; `block` holds `conv2` and `act2`; `mid` is called by a second name.
    With images of two dimensions less (`rank` 2) the convolutions are linear layers.
    """

    def __init__(self, net: dict[str, Any], rank: int, follower: str = "plain", passing: str = "position") -> None:
        """`net` is as `drawn_net` makes it; modules are defined in its order, which is not that of execution."""
        super().__init__()
        convolution: Any = {2: nn.Linear, 3: nn.Conv1d, 4: nn.Conv2d}[rank]
        sizes = ((SIZE, SIZE), (SIZE, SIZE)) if rank == 2 else ((SIZE, SIZE, 3, 1, 1), (SIZE, SIZE, 1))
        norm: Any = nn.BatchNorm2d if rank == 4 else nn.BatchNorm1d
        weights, names = net["weights"], net["names"]
        layers = {
            "conv1": convolution(*sizes[0]),
            "conv2": convolution(*sizes[1]),
            "norm": norm(SIZE),
            "mid": nn.Linear(SIZE, SIZE),
            "head": nn.Linear(SIZE, SIZE),
        }
        for place, layer in layers.items():
            layer.to(weights[place].dtype)
            layer.load_state_dict({"weight": weights[place], "bias": weights[place + ".bias"]}, strict=False)
        layers["norm"].running_mean.fill_(0.5)
        layers["norm"].running_var.fill_(2.0)
        act1, act2, act3 = (nn.LeakyReLU(slope, inplace=follower == "in-place") for slope in (0.5, 0.25, 0.125))
        block = nn.Sequential(OrderedDict([(names["conv2"], layers.pop("conv2")), (names["act2"], act2)]))
        parts = {**layers, "entry": nn.Identity(), "act1": act1, "block": block, "act3": act3}
        for place in net["order"]:
            self.add_module(names[place], parts[place])
        self.add_module(names["again"], parts["mid"])
        self.places = {**names, "mid": names["again"]}
        self.passing = passing
        self.note: Callable[[int], Any] = range

    def forward(self, x: Tensor) -> Tensor:
        """Scores, one row for each image. `note` is called at the beginning, with their number."""
        self.note(len(x))

        def run(place: str, value: Tensor) -> Tensor:
            module = self.get_submodule(self.places[place])
            result: Tensor = module(input=value) if self.passing == "keyword" else module(value)
            return result

        h = x
        for place in ("entry", "conv1", "act1", "norm"):
            h = run(place, h)
        h = h + run("block", h)
        h = h.mean(tuple(range(2, h.dim()))) if h.dim() > 2 else h
        for place in ("mid", "act3", "head"):
            h = run(place, h)
        return h


class Doubling(nn.Module):
    """A model around a module that hands its input on."""

    def __init__(self) -> None:
        """With a factor of 2 as its parameter."""
        super().__init__()
        self.inner = nn.Identity()
        self.factor = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        """Twice the input."""
        out: Tensor = self.inner(x) * self.factor
        return out


class Mixing(nn.Module):
    """Each channel becomes twice itself and once the one before it: to change its input is not to change its output."""

    def forward(self, x: Tensor) -> Tensor:
        """A new tensor."""
        return 2 * x + x.roll(1, 1)


ALIKE = {"a.a": 1, "a": 2, "ab": 3, "b.ab": 4, "b.a": 5}
"""By names of modules of `alike`: how many of its five layers have run when the output of this module is there."""


def alike() -> nn.Sequential:
    """Five layers in a row, whose names begin, end and go on as those of others."""
    parts: dict[str, nn.Module] = {
        "a": nn.Sequential(OrderedDict(a=Mixing(), ab=Mixing())),
        "ab": Mixing(),
        "b": nn.Sequential(OrderedDict(ab=Mixing(), a=Mixing())),
    }
    return nn.Sequential(OrderedDict(parts))


class Viewed(nn.Module):
    """Hands on a view of its input: another tensor with the same memory."""

    def forward(self, input: Tensor) -> Tensor:
        """The view."""
        return input.view_as(input)


class ShowsItsMode(nn.Sequential):
    """Changes the sign of its output in eval mode."""

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor in eval mode alone."""
        output: Tensor = super().forward(input)
        return output if self.training else -output


def failures_at_the_end(ask: Callable[[nn.Module], Any], given: Tensor | None = None) -> dict[str, str]:
    """What becomes of exceptions that a model raises when its layers have run, on any input or a `given` one alone."""
    model = nn.Sequential(nn.Identity(), nn.Identity())

    def call(failure: Failure) -> None:
        def end(module: nn.Module, args: tuple[Tensor], output: Tensor) -> None:
            if given is None or torch.equal(args[0], given):
                failure.strike()

        with model.register_forward_hook(end):
            ask(model)

    return every_kind(call)


def is_nan(result: object) -> object:
    """Where a tensor is nan; anything else as it is."""
    return result.isnan() if isinstance(result, Tensor) else result


def two_path(net: dict[str, Any], rank: int, mode: str, frozen: str, follower: str, passing: str) -> TwoPath:
    """The model of a draw; its parameters hold something in `.grad`. Its norm is in training mode with "train" only."""
    model = TwoPath(net, rank, follower, passing)
    in_mode(model, mode)
    if mode == "mixed":
        model.get_submodule(net["names"]["norm"]).eval()
    fill_grads(model)
    freeze_part(model, frozen)
    return model


def dotted(net: dict[str, Any], named: str) -> str:
    """The name of the module that stands there, as `named_modules` gives it."""
    place, names = PLACES[named], net["names"]
    return {"root": "", "conv2": f"{names['block']}.{names['conv2']}"}.get(place) or names.get(place, "")


def hooks_on(model: TwoPath, name: str, hooks: str, hooked: str) -> CallersHooks:
    """The caller's hooks on the model, on the named module, or on a parameter, where they are called "it"."""
    if hooked == "parameter":
        return CallersHooks(hooks).on_parameter(list(model.parameters())[-1], "it")
    return callers_hooks(model if hooked == "root" else model.get_submodule(name), hooks, "it")
