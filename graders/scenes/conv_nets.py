"""Convolutional nets for functions that look for convolutions in a model."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.chains import Step, multiply_by
from graders.scenes.instruments.models import fill_grads, freeze_part, in_mode
from graders.scenes.models import Container, DrawnModel
from graders.scenes.scene import Call
from graders.scenes.small_modules import Fn, draw_parameters
from graders.wire.draws import Rng

CHANNELS = 3


class Doubling(nn.Conv2d):
    """A subclass of `nn.Conv2d` that doubles the result of the convolution."""

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return 2 * super().forward(input)


def a_conv_net(rng: Rng, case: Any, *, in_place: bool = False) -> DrawnModel:
    """A net with five `nn.Conv2d` on several levels and another kind of convolution, for inputs [samples, 2, H, W].

    One has two names, and one is of a subclass. With `in_place` the next step overwrites what each of them returned.
    """
    dtype, how = getattr(torch, case.dtype), (case.passing, case.output)
    stem, twin, norm, body, side, blocks, tail, identity, up, last, scalar, loose = rng.names(12)
    step: list[Step] = [multiply_by(-0.5, in_place=True)] if in_place else []
    with torch.random.fork_rng(devices=[]):  # what new layers draw depends on their dtype
        pair = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, size, padding=size // 2) for size in (1, 3))
        unregistered = nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False, dtype=dtype)
        nn.init.constant_(unregistered.weight, 0.5)
        inner: dict[str, nn.Module] = {blocks: pair, side: nn.Conv2d(CHANNELS, CHANNELS, 1)}
        run = [f"{blocks}.1", *step, f"{blocks}.0", *step, side, *step]
        parts: dict[str, nn.Module] = {
            stem: nn.Conv2d(2, CHANNELS, 3, padding=1),
            norm: nn.BatchNorm2d(CHANNELS),
            body: Container({name: inner[name] for name in rng.shuffled([blocks, side])}, run, *how),
            up: nn.ConvTranspose2d(CHANNELS, CHANNELS, 1),
            loose: Fn(lambda module, input: unregistered(input)),
            tail: nn.Sequential(Doubling(CHANNELS, 2, 1), nn.LeakyReLU(0.5, inplace=in_place)),
            identity: nn.Identity(),
            last: nn.Tanh(),
            scalar: Fn(lambda module, input: input.mean()),
        }
    inner[side].register_forward_hook(lambda module, args, output: None)  # a hook of the caller
    run = [stem, *step, norm, body, up, loose, tail, identity, last, scalar]
    parts = {name: parts[name] for name in rng.shuffled(list(parts))}
    model = Container({**parts, twin: parts[stem]}, run, *how).to(dtype)
    in_mode(model, case.mode)

    def draw() -> Tensor:
        return rng.tensor(2, 2, 3, 4, dtype=case.dtype, values="full")

    draw_parameters(model, rng, low=-1, high=1, dtype=case.dtype)
    freeze_part(model, case.frozen)
    if case.grad == "filled":
        fill_grads(model)
    # Exceptions are raised where "scalar" is called, after some convolutions have run and before the last one.
    return DrawnModel(model, {"norm": norm, "identity": identity, "last": last, "scalar": up}, draw)


def only_a_convolution(call: Call, rng: Rng, seen: dict[str, Any]) -> None:
    """A model that is itself a convolution, with a single image as its input."""
    model = nn.Conv2d(2, 3, 1)
    draw_parameters(model, rng)
    seen["the result for a convolution"] = call(model, rng.tensor(2, 3, 2))
