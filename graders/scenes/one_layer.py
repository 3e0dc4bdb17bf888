"""Scenes for functions that run a model and return the output of one of its layers."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.scenes.small_modules import drawn_linear
from graders.wire.draws import Rng


def call_with_layer(call: Call, model: nn.Module, name: str, x: Tensor) -> Any:
    """For `function(model, layer, x)`; whether its result has a graph does not matter."""
    result = call(model, model.get_submodule(name), x)
    return result.detach() if isinstance(result, Tensor) else result


@family(
    sections=("{captured}", "no hook is left and nothing has changed"),
    axes={"layer": (0, 1, 2), "rank": (1, 2, 3), "dtype": ("float32", "float64")},
)
def runs_one_layer(call: Call, rng: Rng, case: Any, seen: Sections, use: Callable[..., Any]) -> None:
    """For a function that runs a model. `use(call, model, name, x)` calls it and returns its result."""
    captured, rest = seen.values()
    size = rng.integer(2, 4)
    x, later = (rng.tensor(*(2, 3, size)[-case.rank :], dtype=case.dtype) for _ in range(2))
    model = nn.Sequential(*(drawn_linear(rng, size, size, dtype=case.dtype) for _ in range(3)))
    name = str(case.layer)
    CallersHooks("watching").on_module(model.get_submodule(name), name)
    before = Witness(model=model, x=x)
    captured["output"] = use(call, model, name, x)
    rest["changed"] = before.changes()
    captured["output of a second call"] = use(call, model, name, later)
