"""Models in which parameters get no gradient, or only zeros, for many reasons at once."""

from typing import Any

from torch import Tensor

from graders.scenes.inspections import InspectedModel
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.planted import defined_in
from graders.scenes.streams import Stream, inspected_stream
from graders.wire.draws import Rng


def without_gradient(rng: Rng, case: Any) -> InspectedModel:
    """For `function(model, loss_fn, x)`. Planted are `model`, a text, and the numbers of two `hooked` layers."""
    planted = defined_in(case.model)
    model = Stream(rng, case, planted["steps"])
    layers: list[Any] = [model.get_submodule(path) for path in model.paths]
    model.changes = {"gain": Tensor.detach}
    one, other = (layers[number] for number in case.hooked)
    callers = CallersHooks(case.hooks).on_module(model, "model").on_module(one, "a layer", backward=True)
    callers.on_parameter(one.weight, "weight").on_parameter(other.weight, "another weight")
    planted["change"](model, layers)
    return inspected_stream(rng, case, model)
