"""Models with ReLUs whose channels are positive never, once, or often."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.chains import CallPart, Chain, Step, reordered_parts, restart_from_input
from graders.scenes.inspections import InspectedModel
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.models import fill_grads, in_mode
from graders.scenes.scene import Call
from graders.scenes.small_modules import Fn
from graders.wire.draws import Rng

LARGEST = 8.0
"""A number that occurs once per channel in all batches together; all others are far smaller."""
LEVELS = {"never": LARGEST + 1, "once": LARGEST - 1, "faintly": LARGEST - 1, "often": -LARGEST}
"""What is subtracted before a ReLU; "faintly" is like "once", but with a number near 0."""
REACHED = {
    "first": ("never", "never", "once", "once", "often"),
    "again": ("never", "once", "never", "often", "once"),
    "inside": ("never", "once", "faintly", "often", "never"),
    "by mode": ("once", "never", "often", "never", "faintly"),
    "sound": ("once", "faintly", "often", "once", "often"),
    "last": ("faintly", "often", "once", "never", "once"),
}
"""The level of each channel. "first" and "again" come before two calls of the same ReLU."""
CHANNELS = 5


class Rectifier(nn.ReLU):
    """A subclass of `nn.ReLU`."""


def pool_channels(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
    """A step that keeps the largest number of each channel of each sample."""
    return h.flatten(2).amax(2) if h.dim() > 2 else h


def add_one(in_place: bool) -> Step:
    """A step that adds 1; with `in_place` it overwrites what the step before returned."""
    return lambda call, h, x: h.add_(1) if in_place else h + 1


def with_relus(rng: Rng, case: Any) -> InspectedModel:
    """For `function(model, batches)`. Also reads `rank` and `follower` of the case."""
    names = rng.names(16)
    first, act, block, inside, inner, again, before, modal, after, sound, well, last, head, tail, six, idle = names
    order, faint = rng.shuffled(range(CHANNELS)), 1e-15 if case.dtype == "float32" else 1e-60

    def levels(where: str) -> nn.Module:
        reached = [REACHED[where][channel] for channel in order]
        level = torch.tensor([LEVELS[how] for how in reached])
        unit = torch.tensor([faint if how == "faintly" else 1.0 for how in reached], dtype=getattr(torch, case.dtype))
        weight = nn.Parameter(unit)
        return Fn(lambda module, input: (input - along(level, input)) * along(module.weight, input), weight=weight)

    def along(values: Tensor, h: Tensor) -> Tensor:
        return values.to(h.dtype).view(-1, *[1] * (h.dim() - 2))

    def noting(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
        log.append(f"a batch of shape {tuple(x.shape)}")
        return h

    how, log = (case.passing, case.output), list[str]()
    shift = torch.tensor(rng.shuffled((64.0, 64.0, -64.0, -64.0, -64.0)))
    follow = add_one(case.follower == "in-place")
    inner_parts = {inside: levels("inside"), inner: Rectifier(inplace=True)}
    parts: dict[str, nn.Module] = {
        first: levels("first"), act: nn.ReLU(), again: levels("again"), before: levels("by mode"),
        modal: Fn(lambda module, input: input if module.training else input + along(shift, input)), after: nn.ReLU(),
        block: Chain(reordered_parts(rng, inner_parts), [inside, inner], *how), sound: levels("sound"),
        well: nn.ReLU(), last: levels("last"), head: nn.ReLU(), six: nn.ReLU6(), idle: nn.ModuleList([nn.ReLU()]),
    }  # fmt: skip
    run: list[Step] = [
        noting,
        first, act, follow, restart_from_input, block, restart_from_input, again, pool_channels, act, follow,
        restart_from_input, before, modal, after, restart_from_input, sound, well,
        restart_from_input, pool_channels, last, tail, follow, last, six,
    ]  # fmt: skip
    model = Chain(reordered_parts(rng, parts) | {tail: parts[head]}, run, *how)
    fill_grads(in_mode(model, case.mode))
    callers = CallersHooks("none" if case.hooks == "replacing" else case.hooks)
    callers.on_module(model, "model").on_module(parts[after], "relu")
    if case.hooks == "replacing":
        parts[after].register_forward_hook(lambda module, args, output: output.roll(1, 1))

    def batches(count: int) -> list[Tensor]:
        sizes = [[rng.integer(2, 3) for _ in range(case.rank - 1)] for _ in range(count)]
        drawn = [rng.tensor(first, CHANNELS, *rest, dtype=case.dtype) for first, *rest in sizes]
        for channel in range(CHANNELS):
            drawn[channel % count][-1, channel].view(-1)[-1] = LARGEST
        return drawn

    several, one = batches(3), batches(1)
    return InspectedModel(
        model,
        lambda call: call(model, several),
        lambda call: call(model, one),
        {"model": model, "batches": several},
        {"in a run": parts[sound]},
        log,
    )


def plain_relu(call: Call, rng: Rng, case: Any, seen: dict[str, Any]) -> None:
    """Try a model that is itself a ReLU."""
    below = rng.tensor(2, 3)
    below[:, rng.integer(0, 2)] = -1
    seen["the result for a model that is a ReLU"] = call(nn.ReLU(), [below])
