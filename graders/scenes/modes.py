"""Models with some modules in the other mode than the model itself, which matters for only some of them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.callers_hooks import CallersHooks
from graders.box.models import pack_output
from graders.scenes.chains import CallPart, Chain, Step, reordered_parts
from graders.scenes.inspections import InspectedModel
from graders.scenes.scene import Call
from graders.scenes.small_modules import Fn
from graders.wire.draws import Rng


class Turning(Chain):
    """A chain that begins with its input times -1 in training mode."""

    def forward(self, input: Tensor) -> Any:
        """The result of the last step."""
        return super().forward(-input if self.training else input)


def another_last_entry(module: Any, input: Tensor) -> Tensor:
    """A copy of the input; in training mode its last entry is a little larger."""
    out = input.clone()
    out.view(-1)[-1] += 0.02 * module.training
    return out


def grow_buffer(module: Any, output: Tensor, by: float) -> Tensor:
    """The output itself; as a side effect, the module's buffer grows by `by`."""
    module.kept.add_(by)
    return output


OPERATIONS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "positive": lambda m, x: x.abs() / 2 + 0.5,
    "negative": lambda m, x: -x.abs() / 2 - 0.5,
    "scale": lambda m, x: 3 * x + 1 if m.training else 1 * x,
    "last entry": another_last_entry,
    "floor": lambda m, x: x.relu() if m.training else 1 * x,
    "floor in place": lambda m, x: x.relu_() if m.training else x,
    "blank in place": lambda m, x: x.mul_(0),
    "noise": lambda m, x: x + torch.rand(x.shape, dtype=torch.float32),
    "second output": lambda m, x: 1 * x,
    "gate": lambda m, x: 0 * x if m.training else 1 * x,
    # These read or change a buffer: their own, or that of the module before them.
    "moves on": lambda m, x: grow_buffer(m, x - m.kept, 0.5 * m.training),
    "counter": lambda m, x: grow_buffer(m, x + m.kept, 1),
    "counts there": lambda m, x: grow_buffer(m.other[0], x + m.other[0].kept, 1),
    "late": lambda m, x: grow_buffer(m, x + (m.kept - m.start) * m.training, 1),
}
"""What a module computes from its input, by kind. `m.training` is its mode."""

SUSPECTS: dict[str, tuple[str, ...]] = {
    "numbers": ("positive, *dropout", "positive, *dropout of 0", "positive, *noise"),
    "buffers": ("positive, *moves on", "positive, counter, *counts there", "positive, *late, *late"),
    "in place": ("negative, *floor in place, *floor", "positive, *scale, blank in place", "positive, *floor"),
    "calls": ("negative, *floor, positive, *floor", "positive, *floor, negative, *floor", "positive, *batch norm"),
    "outputs": ("positive, *last entry", "positive, *second output", "positive, *norm without statistics"),
}
"""Modules in the order of their calls, in each of three places; a name that occurs twice is one module. Those with a
star are in the other mode than the model, and the learner's function has to find out whether that matters."""


def a_module(kind: str, shape: Sequence[int], rng: Rng, case: Any, before: nn.Module | None) -> nn.Module:
    """A module of this kind, for inputs of this shape."""
    if kind in ("dropout", "dropout of 0"):
        return nn.Dropout(0.0 if kind == "dropout of 0" else 0.5)
    if "norm" in kind:
        norm = nn.BatchNorm1d(shape[1], track_running_stats=kind == "batch norm")
        if norm.running_mean is not None:
            norm.running_mean.fill_(-5)
        return norm
    operation, output = OPERATIONS[kind], case.output

    def forward(module: Any, input: Tensor) -> Any:
        result = operation(module, input)
        if kind == "second output":
            return result, "a text", result.argmax() if module.training else result.argmin()
        return pack_output(result, output)

    start = rng.number("large")
    made = Fn(forward, start=start, other=(before,))
    made.register_buffer("kept", torch.tensor(start), persistent=False)
    return made


def a_model(rng: Rng, case: Any, shape: Sequence[int], training: bool) -> tuple[nn.Module, list[str], nn.Module]:
    """A model in this mode, the names of the modules in the other mode, and a module inside one of those."""
    names, astray, spot = iter(rng.names(40)), list[str](), nn.Identity()
    how = case.passing, case.output

    def drawn(modules: str) -> tuple[dict[str, nn.Module], list[Step]]:
        """The modules of such a list by name, and the steps that call them."""
        parts, called, steps = dict[str, nn.Module](), dict[str, str](), list[Step]()
        for word in modules.split(", "):
            kind = word.removeprefix("*")
            if kind not in called:
                called[kind] = next(names)
                before = list(parts.values())[-1] if parts else None
                parts[called[kind]] = a_module(kind, shape, rng, case, before)
                astray.extend([called[kind]] * (kind != word))
            steps.append(called[kind])
        return parts, steps

    def block(kind: type[Chain], modules: str, *behind: Step) -> str:
        """Add a container that is itself in the other mode; returns its name."""
        name, (inner, calls) = next(names), drawn(modules)
        parts[name] = kind(reordered_parts(rng, inner), [*calls, *behind], *how)
        astray.append(name)
        return name

    def at_the_spot(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
        found: Tensor = spot(h)
        return found

    first, second, third = rng.shuffled(SUSPECTS[case.suspects])
    parts, steps = drawn(f"positive, {second}, {third}, scale")
    parts |= drawn("*scale")[0]  # this one is never called
    steps[1:1] = [block(Turning, "*floor, *gate")]
    steps[-1:-1] = [block(Chain, first, at_the_spot)]
    model = Chain(reordered_parts(rng, parts), steps, *how).to(getattr(torch, case.dtype))
    for name, module in model.named_modules():
        module.training = training != (name.rpartition(".")[2] in astray)
    return model, astray, spot


def with_modes(rng: Rng, case: Any) -> InspectedModel:
    """For `function(model, x)`, called with a model in training mode and with one in eval mode.

    Also reads `rank` and `suspects` of the case.
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
