"""Exercise 10-saliency-map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
    Circumstances,
    Mistake,
    Seen,
    exercise,
    expect,
)
from graders.lesson_10_explaining_predictions.judging import (
    BATCH_MEAN,
    GRADS_TOUCHED,
    INPUT_TOUCHED,
    TOLERANCE,
    apart,
    draw_net,
    expect_map,
    grads_touched,
    in_another_mode,
    input_gradient,
    input_touched,
    matches,
    nothing_left_after_exception,
    nothing_touched,
    run,
)
from graders.lesson_10_explaining_predictions.shared import observe, observe_failures, prepare


def saliencies(net: dict[str, Any], x: Tensor, classes: Tensor) -> dict[str, Tensor]:
    """What the contract asks for, and what its known misreadings give."""
    gradient = input_gradient(net, x, classes)
    sample = x.detach().double().requires_grad_()
    pairs = torch.autograd.grad(run(net, sample)[1][:, classes].sum(), sample)[0]
    return {
        "right": gradient.abs().amax(1),
        "mean-over-channels": gradient.abs().mean(1),
        "sum-over-channels": gradient.abs().sum(1),
        "forgot-abs": gradient.amax(1),
        "abs-after-max": gradient.amax(1).abs(),
        "indexed-all-pairs": pairs.abs().amax(1),
        "same-class-for-all": input_gradient(net, x, int(classes[0])).abs().amax(1),
        "last-class-for-all": input_gradient(net, x, int(classes[-1])).abs().amax(1),
        "wrong-target": input_gradient(net, x, "winner").abs().amax(1),
        "softmax-target": input_gradient(net, x, classes, lambda logits: logits.softmax(1)).abs().amax(1),
        "log-softmax-target": input_gradient(net, x, classes, lambda logits: logits.log_softmax(1)).abs().amax(1),
    }


def saliency_is(*names: str) -> Callable[..., bool]:
    """A recogniser of these misreadings; the right map is none, though a single sample's class may be the winner."""

    def recognised(seen: Seen, net: dict[str, Any], x: Tensor, classes: Tensor) -> bool:
        found = saliencies(net, x, classes)
        fits = {name for name, expected in found.items() if matches(seen, iter([expected]))}
        return "right" in names if "right" in fits else bool(fits & {*names})

    return recognised


class Turned(nn.Module):
    """Looks at images by columns. The gradient lies in memory by columns, then, and has the shape of the images."""

    def forward(self, x: Tensor) -> Tensor:
        """Rows become columns."""
        return x.mT


def largest_last(weight: Tensor) -> Tensor:
    """Each row in the order of its absolute values."""
    return weight.gather(1, weight.abs().argsort(1))


@exercise(
    "10-saliency-map",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="Which pixels move the logit?",
    hints=(
        "`logits.gather(1, classes[:, None])` picks one logit from each row. The sum of the picked logits is a single "
        "number, and its gradient with respect to x holds the gradients of all samples: no sample depends on another.",
        "First the absolute value, then the maximum over the channels: `gradient.abs().amax(1)`.",
        "`torch.autograd.grad(total, x)` returns the gradient and writes no `.grad`. Make an input of your own with "
        "`x.detach().clone().requires_grad_()`, so that the caller's x stays as it is.",
    ),
    why=(
        "No sample depends on another, so the gradient of one sum holds the gradients of all chosen logits, and "
        "`torch.autograd.grad` fills no `.grad`. `logits[torch.arange(len(x)), classes]` picks the same logits; "
        "`torch.func.grad` for one sample, with `torch.func.vmap` over the batch, would do as well."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "values": ALL, "grad": ALL, "mode": ALL,
            "frozen": ALL, "hooks": ALL, "hooked": ("root", "named"), "failure": ALL,
        },
        excludes={
            "rank": "images have four dimensions",
            "place": "an axis of its own says what x is to autograd",
            "number": "it gets no number",
            "collection": "it gets no collection",
            "tied": "every layer has its own weight",
            "named": "no layer is named",
            "output": "logits are a tensor",
            "follower": "no layer works in place",
            "passing": "layers are called by position",
            "registered": "every layer is a part of the model",
            "layers": "the net has several",
            "call": "every probe calls it for several classes",
            "grad_mode": "a rule says that grad mode is on",
            "backward": "the function runs the pass by itself",
            "failing_run": "there is one run",
        },
        own={"given": ("plain", "requires grad", "non-leaf"), "batch": (4, 3, 1)},
    ),
)  # fmt: skip
class TestSaliencyMap:
    """Write `saliency_map(model, x, classes)`. `model(x)` turns images `x` of shape [B, C, H, W] into logits of shape
    [B, number of classes]; it treats each sample on its own. `classes` is an int64 tensor of shape [B]: one class for
    each sample.

    Return a tensor of shape [B, H, W]. Its entry at [b, i, j] is the largest absolute value, over the channels c, of
    the derivative of the logit [b, classes[b]] with respect to x[b, c, i, j]. `x` and each parameter may require grad
    or not. You may run the model more than once.

    **Example.** Let `model` flatten its input and apply a linear layer without bias, with the weight
    `tensor([[1., -3., 2.], [0., 5., 0.]])`. For one image with three channels of one pixel and `classes = tensor([0])`
    the result is `tensor([[[3.]]])`, whatever the image.
    """

    def draw(rng, batch, dtype, values, mode, hooks, hooked):
        kinds = {"dtype": dtype, "values": values}
        net = draw_net(
            rng, "conv relu conv relu", classes=4, width=4, stride=1, mode=mode, hooks=hooks, hooked=hooked, **kinds
        )
        one, other, *_ = rng.shuffled([0, 1, 2])
        classes = {4: rng.shuffled([0, 1, 2, 3]), 3: [one, one, other], 1: [one]}[batch]  # no 3, the last one, here
        return {
            "net": net,
            "x": rng.tensor(batch, 2, 5, 6, **kinds),
            "classes": torch.tensor(classes),
            "pixels": largest_last(rng.tensor(2, 6, dtype=dtype)) * torch.tensor([[2.0**-30], [2.0**14]]),
        }

    tolerance = TOLERANCE

    def oracle(net, x, classes):
        return [input_gradient(net, *each).abs().amax(1) for each in ((x, classes), (x / 2, classes.flip(0)))]

    def alive(net, x, classes):
        found = saliencies(net, x, classes)
        if len(classes) == 1:
            return apart(found["right"], [found["mean-over-channels"], found["softmax-target"]])
        others = [found["same-class-for-all"], found["last-class-for-all"]]
        return apart(found.pop("right"), found.values()) and apart(found["wrong-target"], others)

    def probe(student, net, x, classes, pixels, frozen, layout, given, grad, mode, hooks, hooked, failure):
        model, x = prepare(
            net, x, layout=layout, given=given, grad=grad, mode=mode, frozen=frozen, hooks=hooks, hooked=hooked
        )
        seen = observe(model, x, lambda: student.saliency_map(model, x, classes), classes=classes)
        failed = observe_failures(model, x, failure, lambda: student.saliency_map(model, x, classes))
        again = student.saliency_map(model, x / 2, classes.flip(0))
        weight = torch.tensor([[1.0, -3.0, 2.0], [0.0, 5.0, 0.0]])
        linear = nn.Sequential(nn.Flatten(), nn.Linear(3, 2, bias=False))
        linear[1].weight.data.copy_(weight)
        example = student.saliency_map(linear, torch.ones(1, 3, 1, 1), torch.tensor([0]))
        linear[1].weight = nn.Parameter(pixels.clone())
        by_columns = nn.Sequential(Turned(), *linear)
        by_channels = {
            "gray": student.saliency_map(by_columns, torch.ones(2, 1, 2, 3).to(pixels), torch.tensor([0, 1])),
            "six channels": student.saliency_map(linear, torch.ones(2, 6, 1, 1).to(pixels), torch.tensor([0, 1])),
        }
        return {
            **seen, **failed, "results": [seen.pop("result")], "again": again, "example": example, **by_channels,
        }  # fmt: skip

    mistakes = (
        Mistake(
            "mean-over-channels",
            saliency_is("mean-over-channels", "sum-over-channels"),
            "You took the mean or the sum over the channels. The saliency of a pixel is the largest of its channels: "
            "`gradient.abs().amax(1)`.",
        ),
        Mistake(
            "forgot-abs",
            saliency_is("forgot-abs"),
            "You took the maximum of the signed gradient. A pixel with a large negative derivative matters as much as "
            "one with a large positive derivative: take `abs()` first.",
        ),
        Mistake(
            "abs-after-max",
            saliency_is("abs-after-max"),
            "You took the maximum first and the absolute value afterwards, so a large negative derivative lost against "
            "a small positive one. Take `abs()` first, then the maximum.",
        ),
        Mistake(
            "indexed-all-pairs",
            lambda seen, net, x, classes: len(classes) > 1 and saliency_is("indexed-all-pairs")(seen, net, x, classes),
            "`logits[:, classes]` takes every listed class for every sample. Pair rows with classes: "
            "`logits[torch.arange(B), classes]`, or `logits.gather(1, classes[:, None])`.",
        ),
        Mistake(
            "same-class-for-all",
            lambda seen, net, x, classes: (
                len(classes) > 1 and saliency_is("same-class-for-all", "last-class-for-all")(seen, net, x, classes)
            ),
            "You explained the same class for all samples. `classes` holds one class for each sample: the logit of "
            "sample b is `logits[b, classes[b]]`.",
        ),
        Mistake(
            "wrong-target",
            saliency_is("wrong-target"),
            "You explained the class with the largest logit. The task is to explain the classes in `classes`, which "
            "need not be the winners.",
        ),
        Mistake(
            "softmax-target",
            saliency_is("softmax-target", "log-softmax-target"),
            "You took the gradient of the probability, or of its logarithm. The softmax mixes all logits; the task "
            "asks for the logit.",
        ),
        Mistake(
            "batch-mean",
            lambda seen, net, x, classes: (
                matches(seen, iter([saliencies(net, x, classes)["right"] / len(classes)]))
                if len(classes) > 1
                else SILENT
            ),
            BATCH_MEAN,
        ),
        Mistake(
            "another-mode",
            lambda seen, net, x, classes: matches(
                seen, iter([input_gradient(net, x, classes).abs().amax(1) * in_another_mode(net)])
            ),
        ),
        Mistake(
            "polluted-grads",
            lambda seen, net, x, classes: grads_touched(seen) and saliency_is("right")(seen, net, x, classes),
            GRADS_TOUCHED,
        ),
        Mistake(
            "input-touched",
            lambda seen, net, x, classes: input_touched(seen) and saliency_is("right")(seen, net, x, classes),
            INPUT_TOUCHED,
        ),
    )

    def test_each_pixel_has_its_largest_absolute_derivative(seen, net, x, classes):
        expect_map(Seen(seen["results"][0].value, "the map"), saliencies(net, x, classes)["right"], x)

    def test_another_call_and_the_example_come_out(seen, net, x, classes, pixels):
        expect_map(seen["again"], saliencies(net, x / 2, classes.flip(0))["right"], x)
        expect(seen["example"]).close_to(torch.tensor([[[3.0]]]))
        one_channel = Seen(seen["gray"].value, "the map of images with a single channel")
        expect(one_channel).close_to(pixels.abs().view(2, 3, 2).mT, rtol=1e-5, atol=0)
        six_channels = Seen(seen["six channels"].value, "the map of images with six channels")
        expect(six_channels).close_to(pixels.abs().amax(1).view(2, 1, 1), rtol=1e-5, atol=0)

    def test_nothing_of_the_caller_is_touched(seen):
        nothing_touched(seen)

    def test_an_exception_comes_through_and_leaves_nothing_behind(seen):
        nothing_left_after_exception(seen)
