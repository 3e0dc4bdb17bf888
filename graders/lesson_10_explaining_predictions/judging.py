"""What several exercises of lesson 10 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from graders.authoring import (
    FACTOR,
    Seen,
    came_through,
    changes,
    close,
    expect,
    nothing_changed,
)


def draw_net(
    rng: Any, steps: str, classes: int, width: int, stride: int, inplace: bool = False, skip: bool = False,
    dtype: str = "float32", values: str = "round", mode: str = "eval", hooks: str = "none", hooked: str = "root",
    last: str = "",
) -> dict[str, Any]:  # fmt: skip
    """The data of a TinyNet: `steps` such as "conv relu conv relu"; the first convolution takes 2 channels.

    `gain` is the factor of the layer that shows the mode. `doubled` says what a hook of the caller doubles: "root",
    "first step" or nothing. `last` is the group of modules that is defined last, whatever the order in which they run.
    """
    names = steps.split()
    convolutions = [index for index, name in enumerate(names) if name == "conv"]
    groups = ["first", "second", "block", "rest", "head"]
    kinds = {"dtype": dtype, "values": values}
    return {
        "steps": names,
        "inplace": inplace,
        "skip": skip,
        "weights": [
            rng.tensor(width, width if index else 2, 3, 3, low=-0.5, high=0.625, away=0.125, **kinds)
            if name == "conv"
            else None
            for index, name in enumerate(names)
        ],
        "strides": [stride if index == convolutions[0] else 1 for index in range(len(names))],
        "head": rng.tensor(classes, width, low=-2, high=2, **kinds),
        "names": dict(zip(groups, rng.names(len(groups)))),
        "order": sorted(rng.shuffled(groups), key=lambda group: group == last),
        "gain": 1 if mode == "eval" else 2,
        "doubled": ("root" if hooked == "root" else "first step") if hooks == "replacing" else "nothing",
    }


# Expected values: the same net as functions, in float64, with autograd.grad.


class ClampGrad(torch.autograd.Function):
    """The identity, whose backward pass replaces negative gradients by 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return grad.clamp(min=0)


clamp_grad = ClampGrad.apply


def run(
    net: dict[str, Any],
    x: Tensor,
    guided: Iterable[int] = (),
    whole: bool = False,
    relu: Callable[[Tensor], Tensor] = torch.relu,
) -> tuple[list[Tensor], Tensor]:
    """The outputs of all steps and the logits. Negative gradients that leave one of the steps `guided` become 0.

    With `whole`, also the part of the gradient that comes over the skip connection is clamped there.
    """
    outputs = []
    for index, name in enumerate(net["steps"]):
        given = x
        if index in guided:
            x = clamp_grad(x)
            given = x if whole else given
        if name == "conv":
            x = F.conv2d(x, net["weights"][index].double(), stride=net["strides"][index], padding=1)
        else:
            x = SIMPLE[name](x) if name in SIMPLE else relu(x)
        if index == 0 and net["doubled"] == "first step":
            x = x * FACTOR
        outputs.append(x)
        if net["skip"] and index == 1:
            x = x + given
    logits = x.mean((2, 3)) @ net["head"].double().T * net["gain"]
    return outputs, logits * FACTOR if net["doubled"] == "root" else logits


SIMPLE: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh, "leaky": lambda x: F.leaky_relu(x, 0.25), "gelu": F.gelu, "relu6": F.relu6,
    "functional": torch.relu, "pool": lambda x: F.max_pool2d(x, 3, stride=1, padding=1),
}  # fmt: skip
"""Steps without weights that are no module of class `nn.ReLU`."""


def indices(net: dict[str, Any], *names: str) -> list[int]:
    """Which steps are of these kinds."""
    return [index for index, name in enumerate(net["steps"]) if name in names]


def score(logits: Tensor, target: int | str | Tensor) -> Tensor:
    """The number whose gradient is taken: of a class, of a class for each sample, or of the winners."""
    if isinstance(target, Tensor):
        return logits.gather(1, target[:, None]).sum()
    return logits.amax(1).sum() if target == "winner" else logits[:, target].sum()


def input_gradient(
    net: dict[str, Any],
    x: Tensor,
    target: Any,
    of: Callable[[Tensor], Tensor] = lambda logits: logits,
    **rules: Any,
) -> Tensor:
    """The gradient of the score with respect to x, float64; `of` may make probabilities of the logits."""
    x = x.detach().double().requires_grad_()
    _, logits = run(net, x, **rules)
    return torch.autograd.grad(score(of(logits), target), x)[0]


def apart(right: Tensor, others: Iterable[Tensor]) -> bool:
    """Whether `right` is alive in every sample, and clearly differs from all others of its shape."""
    scale = right.abs().max()
    alive = right.abs().flatten(1).amax(1).min() > 0.02 * scale > 1e-3
    return bool(alive) and all(
        other.shape != right.shape or bool((right - other).abs().max() > 0.01 * scale) for other in others
    )


def matches(seen: Seen, expected: Iterator[Tensor]) -> bool:
    """Whether the results, one for each class, equal these tensors; the first that does not ends the comparison."""
    return all(close(seen["results"][index], value, 1e-4, 1e-5) for index, value in enumerate(expected))


TOLERANCE = (1e-4, 1e-5)
"""Relative and absolute, for float32."""


def expect_map(seen: Seen, expected: Tensor, x: Tensor) -> None:
    """Expect a tensor in the dtype of x, as exact as that allows."""
    limit = dict(zip(("rtol", "atol"), TOLERANCE)) if x.dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-11}
    expect(seen).close_to(expected.to(x.dtype), **limit)


GRADS_TOUCHED = (
    "Your result is right, but the `.grad` of a parameter is not what it was before the call. `backward()` writes it, "
    "and `zero_grad()` erases what the caller had. `torch.autograd.grad` returns gradients and writes nothing."
)

BATCH_MEAN = (
    "Your map is B times too small: you took the mean of the logits over the batch. Sum over the samples; then each "
    "sample has the gradient of its own logit."
)

INPUT_TOUCHED = (
    "Your result is right, but the caller's `x` is not as it was: its values, its `requires_grad` or its `.grad`. "
    "Work with a tensor of your own: `x.detach().clone().requires_grad_()`."
)


def in_another_mode(net: dict[str, Any]) -> float:
    """The factor of a gradient in the mode in which the model is not: what the layer does that shows the mode."""
    return 1 / 2 if net["gain"] == 2 else 2.0


def grads_touched(seen: Seen) -> bool:
    """Whether the `.grad` of a parameter changed, and no hook."""
    return bool(changes(seen["changed"], "grad-* model.*")) and not changes(seen["changed"], "hook-* *")


def input_touched(seen: Seen) -> bool:
    """Whether x changed, and no parameter's `.grad` and no hook."""
    return bool(changes(seen["changed"], "* x")) and not changes(seen["changed"], "grad-* model.*", "hook-* *")


def nothing_touched(seen: Seen) -> None:
    """All is as before, and the model's gradients, too."""
    nothing_changed(seen["changed"])
    expect(seen["works_as_before"]).is_true("after the call, the model's gradients are not what they were before")


def nothing_left_after_exception(seen: Seen, runs: Iterable[str] = ("first",)) -> None:
    """The exceptions came through, all is as before, and the model computes what it did before.

    Whoever needs the model only once never comes to a second run.
    """
    for run, place in product(runs, ("forward", "backward")):
        after, what = seen["failures"][f"{run} {place}"], f"the {run} {place} pass"
        if run == "first" or after["raised"].value != "never raised":
            came_through(after["raised"], what)
        nothing_changed(after["changed"], when=f"after an exception in {what}")
        expect(after["works"]).is_true(f"after an exception in {what}, the model's gradients are not what they were")


def distinct(found: list[dict[str, Tensor]]) -> bool:
    """Whether the right result, for all classes together, is apart from every misreading and these from each other."""
    together = {name: torch.cat([by_name[name] for by_name in found], 1) for name in found[0]}
    right = together.pop("right")
    others = list(together.values())
    return apart(right, others) and all(
        bool((first - second).abs().max() > 1e-3)
        for index, first in enumerate(others)
        for second in others[:index]
        if first.shape == second.shape
    )


def right_cam(net: dict[str, Any], x: Tensor, target: int, layer: int) -> Tensor:
    """What the contract of Grad-CAM asks for; float64 [B, h, w]."""
    outputs, logits = run(net, x.detach().double().requires_grad_())
    (grad,) = torch.autograd.grad(score(logits, target), outputs[layer])
    return (grad.mean((2, 3), keepdim=True) * outputs[layer]).sum(1).relu().detach()


def cams(net: dict[str, Any], x: Tensor, target: int, layer: int, **rules: Any) -> dict[str, Tensor]:
    """What the contract asks for, and what its known misreadings give; float64 [B, h, w]."""
    outputs, logits = run(net, x.double().requires_grad_(), **rules)
    values, before = outputs[layer], outputs[layer - 1]

    def gradient(total: Tensor, tensor: Tensor) -> Tensor:
        return torch.autograd.grad(total, tensor, retain_graph=True)[0]

    grad = gradient(score(logits, target), values)
    values = values.detach()

    def weighted(weights: Tensor) -> Tensor:
        return (weights * values).sum(1)

    alpha = grad.mean((2, 3), keepdim=True)
    right = weighted(alpha).relu()
    spatial, count = grad.shape[2] * grad.shape[3], len(x)
    top = right.amax((1, 2), keepdim=True).clamp(min=1e-12)
    entering = gradient(score(logits, target), before)
    return {
        "right": right,
        "forgot-relu": weighted(alpha),
        "not-pooled": weighted(grad).relu(),
        "sum-instead-of-mean": right * spatial,
        "softmax-target": weighted(
            gradient(score(logits.softmax(1), target), outputs[layer]).mean((2, 3), keepdim=True)
        ).relu(),
        "log-softmax-target": weighted(
            gradient(score(logits.log_softmax(1), target), outputs[layer]).mean((2, 3), keepdim=True)
        ).relu(),
        "batch-mean": right / count,
        "mixed-batch": weighted(alpha.mean(0, keepdim=True)).relu(),
        "summed-batch": weighted(alpha.sum(0, keepdim=True)).relu(),
        "first-sample": weighted(alpha[:1]).relu(),
        "grad-input-not-output": weighted(entering.mean((2, 3), keepdim=True)).relu(),
        "wrong-target": weighted(gradient(score(logits, "winner"), outputs[layer]).mean((2, 3), keepdim=True)).relu(),
        "relu-on-weights": weighted(alpha.relu()),
        "relu-on-weights-and-sum": weighted(alpha.relu()).relu(),
        "scaled": right / top,
        "scaled-together": right / right.max().clamp(min=1e-12),
    }


def peaks(cam: Tensor, size: Iterable[int], **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Row and column of the first largest pixel of each upsampled map, and its value."""
    options = options or {"mode": "bilinear", "align_corners": False}
    large = F.interpolate(cam.double()[:, None], size=tuple(size), **options)[:, 0]
    top, place = large.flatten(1).max(1).values, large.flatten(1).argmax(1)
    return place // large.shape[2], place % large.shape[2], top


def hits(cam: Tensor, boxes: Tensor, size: Iterable[int]) -> list[bool]:
    """Which maps point into their box."""
    y, x, top = peaks(cam, size)
    x0, y0, x1, y1 = boxes.T
    found: list[bool] = ((x0 <= x) & (x < x1) & (y0 <= y) & (y < y1) & (top > 0)).tolist()
    return found
