"""Models in which parameters get no gradient, or only zeros, for many reasons at once."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graders.box.callers_hooks import CallersHooks
from graders.scenes.inspections import InspectedModel
from graders.scenes.streams import Step, Stream, inspected_stream
from graders.wire.draws import Rng


def add_to_stream(what: Callable[[Any, Tensor], Any]) -> Step:
    """A step that adds something to the stream, so that a fault in it does not affect the other layers."""
    return lambda layer, h: h + what(layer, h)


def without_a_graph(layer: Any, h: Tensor) -> Tensor:
    """Call the layer under `no_grad`."""
    with torch.no_grad():
        return torch.sin(layer(h))


def call_layer(layer: Any, h: Tensor) -> Tensor:
    """Call the layer."""
    return torch.sin(layer(h))


WAYS: dict[str, Callable[[Any, Tensor], Any]] = {
    "plain": call_layer,
    "tiny": lambda layer, h: 1e-30 * layer(h),
    "forward": lambda layer, h: torch.sin(layer.forward(h)),
    "by mode": lambda layer, h: call_layer(layer, h) if layer.training else 0.0,
    "detach": lambda layer, h: call_layer(layer, h).detach(),
    "no_grad": without_a_graph,
    "cut by a hook": call_layer,
    "forward, detached": lambda layer, h: torch.sin(layer.forward(h)).detach(),
    "times 0": lambda layer, h: 0 * layer(h),
    "dead": lambda layer, h: torch.relu(call_layer(layer, h) - 2),
    "zero by a hook": call_layer,
    "frozen": call_layer,
    "frozen bias": call_layer,
    "frozen, never called": lambda layer, h: 0.0,
    "never called": lambda layer, h: 0.0,
}
"""What a layer adds to the stream, by the name of its fault; the first four have none."""


def without_gradient(rng: Rng, case: Any) -> InspectedModel:
    """For `function(model, loss_fn, x)`. Two layers that are never called share a weight with one that is.

    With `case.stream` "cut", the first half of the steps gets no gradient either; with "no graph", nothing does.
    """
    others = [way for way in WAYS if way not in ("never called", "detach")]
    ways = ["never called", *rng.shuffled(others), "never called", "detach"]
    model = Stream(rng, case, [add_to_stream(WAYS[way]) for way in ways])
    layers: dict[str, Any] = {way: model.get_submodule(path) for path, way in zip(model.paths, ways)}
    first: Any = model.get_submodule(model.paths[0])
    layers["detach"].weight, layers["never called"].weight = first.weight, layers["no_grad"].weight
    for way in ("frozen", "frozen, never called"):
        layers[way].requires_grad_(False)
    layers["frozen bias"].bias.requires_grad_(False)
    layers["cut by a hook"].register_forward_hook(lambda module, args, output: output.detach())
    for parameter in layers["zero by a hook"].parameters():
        parameter.register_hook(lambda grad: 0 * grad)
    callers = CallersHooks(case.hooks).on_module(model, "model").on_module(layers["plain"], "a layer", backward=True)
    callers.on_parameter(layers["plain"].weight, "weight").on_parameter(layers["times 0"].weight, "another weight")
    model.changes = {"gain": Tensor.detach}
    if case.stream in ("cut", "no graph"):
        model.changes["middle" if case.stream == "cut" else "end"] = Tensor.detach
    if case.stream == "frozen":
        model.requires_grad_(False)
    return inspected_stream(rng, case, model)
