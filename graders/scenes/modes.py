"""Models with some modules in the other mode than the model itself, which matters for only some of them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.chains import CallPart, Chain, Step, reordered_parts
from graders.scenes.inspections import InspectedModel
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.models import pack_output
from graders.scenes.planted import defined_in
from graders.scenes.scene import Call
from graders.scenes.small_modules import Fn
from graders.wire.draws import Rng


class Turning(Chain):
    """A chain that begins with its input times -1 in training mode."""

    def forward(self, input: Tensor) -> Any:
        """The result of the last step."""
        return super().forward(-input if self.training else input)


def grow_last(t: Tensor, by: float) -> Tensor:
    """The tensor, whose last entry grows by `by`."""
    t.view(-1)[-1] += by
    return t


def grow_buffer(module: Any, output: Tensor, by: float) -> Tensor:
    """The output itself; as a side effect, the module's buffer grows by `by`."""
    module.kept.add_(by)
    return output


Row = Sequence[tuple[int, str, bool]]
"""Modules in the order of their calls: the number of each, its text, and whether it is in the other mode."""


def a_module(text: str, shape: Sequence[int], rng: Rng, output: str, before: nn.Module | None) -> nn.Module:
    """The module that a text makes, for inputs of this shape."""

    def made(operation: Callable[[Any, Tensor], Any]) -> nn.Module:
        def forward(module: Any, input: Tensor) -> Any:
            result = operation(module, input)
            return result if isinstance(result, tuple) else pack_output(result, output)

        start = rng.number("large")
        found = Fn(forward, start=start, other=(before,))
        found.register_buffer("kept", torch.tensor(start), persistent=False)
        return found

    def norm(with_statistics: bool) -> nn.Module:
        found = nn.BatchNorm1d(shape[1], track_running_stats=with_statistics)
        if found.running_mean is not None:
            found.running_mean.fill_(-5)
        return found

    module: nn.Module = defined_in(f"module = {text}", made=made, norm=norm, grow=grow_buffer, grow_last=grow_last)[
        "module"
    ]
    return module


def a_model(rng: Rng, case: Any, shape: Sequence[int], training: bool) -> tuple[nn.Module, list[str], nn.Module]:
    """A model in this mode, the names of the modules in the other mode, and a module inside one of those."""
    row, idle, turning, inside = case.models[0 if training else 1]
    names, astray, spot = iter(rng.names(40)), list[str](), nn.Identity()
    how = case.passing, case.output

    def drawn(modules: Row) -> tuple[dict[str, nn.Module], list[Step]]:
        """The modules of a row by name, and the steps that call them."""
        parts, called, steps = dict[str, nn.Module](), dict[int, str](), list[Step]()
        for number, text, is_astray in modules:
            if number not in called:
                called[number] = next(names)
                before = list(parts.values())[-1] if parts else None
                parts[called[number]] = a_module(text, shape, rng, case.output, before)
                astray.extend([called[number]] * is_astray)
            steps.append(called[number])
        return parts, steps

    def block(kind: type[Chain], modules: Row, *behind: Step) -> str:
        """Add a container that is itself in the other mode; returns its name."""
        name, (inner, calls) = next(names), drawn(modules)
        parts[name] = kind(reordered_parts(rng, inner), [*calls, *behind], *how)
        astray.append(name)
        return name

    def at_the_spot(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
        found: Tensor = spot(h)
        return found

    parts, steps = drawn(row)
    parts |= drawn(idle)[0]  # this one is never called
    steps[1:1] = [block(Turning, turning)]
    steps[-1:-1] = [block(Chain, inside, at_the_spot)]
    model = Chain(reordered_parts(rng, parts), steps, *how).to(getattr(torch, case.dtype))
    for name, module in model.named_modules():
        module.training = training != (name.rpartition(".")[2] in astray)
    return model, astray, spot


def with_modes(rng: Rng, case: Any) -> InspectedModel:
    """For `function(model, x)`, called with a model in training mode and with one in eval mode.

    Also reads `rank` of the case. Planted are `models`: for each, modules in four places.
    """
    shape = rng.shape(case.rank)
    x, later = (rng.tensor(*shape, dtype=case.dtype) for _ in range(2))
    model, astray, spot = a_model(rng, case, shape, training=True)
    other, _, _ = a_model(rng, case, shape, training=False)
    flipped = rng.shuffled(astray)[:4]

    def ask(call: Call) -> Any:
        return [call(model, x), call(other, x)]

    def ask_again(call: Call) -> Any:
        for name, module in model.named_modules():
            if name.rpartition(".")[2] in flipped:
                module.training = not module.training
        return call(model, later)

    for part in (model, model.get_submodule(next(name for name, _ in model.named_modules() if name in astray))):
        CallersHooks(case.hooks).on_module(part, "it")
    things = {"model": model, "other model": other, "x": x}
    return InspectedModel(model, ask, ask_again, things, {"in a module in the wrong mode": spot})
