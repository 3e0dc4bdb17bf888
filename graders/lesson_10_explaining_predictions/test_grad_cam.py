"""Exercise 10-grad-cam."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    FACTOR,
    SILENT,
    CallersHooks,
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
    cams,
    distinct,
    draw_net,
    expect_map,
    grads_touched,
    hits,
    in_another_mode,
    input_touched,
    matches,
    nothing_left_after_exception,
    nothing_touched,
    right_cam,
    run,
)
from graders.lesson_10_explaining_predictions.shared import observe, observe_failures, prepare
from graders.nets import draw_shapes, shapes_net


class Flip(nn.Module):
    """Its output is the second of two outputs of a node of the graph, and lies in memory by columns, with gaps."""

    def forward(self, x: Tensor) -> Tensor:
        """The channels in reverse order."""
        return torch.stack((x.mT, x.mT.flip(1)), 2).mT.unbind(2)[1]


def cam_is(*names: str) -> Callable[..., Any]:
    """A recogniser of these misreadings, the same one for every class. Drawings cannot show which it was."""
    return lambda seen, net, x, classes, layer, kind: (
        SILENT
        if kind == "drawings"
        else any(matches(seen, (cams(net, x, target, layer)[name] for target in range(classes))) for name in names)
    )


def gap_cam(net: dict[str, Any], x: Tensor, target: int) -> Tensor:
    """The closed form for a layer that is followed by global average pooling and a linear layer: W[c, k] / (hw)."""
    values = run(net, x.double())[0][-1]
    weights = net["head"][target].double() / (values.shape[2] * values.shape[3])
    weights = weights * net["gain"] * (FACTOR if net["doubled"] == "root" else 1)
    return torch.einsum("k,bkhw->bhw", weights, values).relu()


def narrow_cases(images: Tensor, mixing: Tensor, weights: Tensor) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Maps may be large, very small, narrow, and made of a single channel."""
    return {
        "3 by 1 pixels whose values are large": (images[..., :1] * 2.0**14, mixing, weights),
        "3 by 2 pixels whose values are very small": (images * 2.0**-30, mixing, weights),
        "a layer with a single channel": (images, mixing[:1].clone(), weights[:, :1].clone()),
    }


def flipping_net(mixing: Tensor, weights: Tensor) -> nn.Sequential:
    """A convolution that mixes the channels, the layer that flips them, and a head with these `weights`."""
    (channels, given), classes = mixing.shape, len(weights)
    first, head = nn.Conv2d(given, channels, 1, bias=False), nn.Linear(channels, classes, bias=False)
    first.weight = nn.Parameter(mixing[:, :, None, None].clone())
    head.weight = nn.Parameter(weights.clone())
    return nn.Sequential(first, Flip(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


def narrow_cam(images: Tensor, mixing: Tensor, weights: Tensor) -> Tensor:
    """The closed form for the flipped channels of a convolution, for class 1, in float64."""
    values = torch.einsum("kc,bchw->bkhw", mixing.double(), images.double()).flip(1)
    return torch.einsum("k,bkhw->bhw", weights[1].double() / (values.shape[2] * values.shape[3]), values).relu()


DRAWINGS = 36
"""How many drawings of shapes one pointing game takes."""


@functools.lru_cache(maxsize=32)
def reference_hits(seed: int) -> tuple[int, int]:
    """Hits of a Grad-CAM by plain autograd.grad on the net of shapes, and the number of drawings."""
    model, (images, labels, boxes) = shapes_net(), draw_shapes(DRAWINGS, seed)
    values = model.features(images)
    logits = model.fc(values.mean((2, 3)))
    (grad,) = torch.autograd.grad(logits.gather(1, labels[:, None]).sum(), values)
    cam = (grad.mean((2, 3), keepdim=True) * values).sum(1).relu().detach()
    return sum(hits(cam, boxes, images.shape[2:])), len(images)


def learners_hits(seen: Seen, seed: int) -> int | None:
    """Hits of the learner's maps, which are listed by class; None when their shape is wrong."""
    images, labels, boxes = draw_shapes(DRAWINGS, seed)
    total = 0
    for target in range(3):
        cam, mine = seen["results"][target].tensor, labels == target
        if cam is None or cam.shape != (int(mine.sum()), 16, 16):
            return None
        total += sum(hits(cam, boxes[mine], images.shape[2:]))
    return total


@exercise(
    "10-grad-cam",
    points=3,
    minutes=25,
    difficulty=3,
    core=True,
    title="Grad-CAM: where in the image?",
    hints=(
        "Catch the layer's output A in a forward hook and keep it as it is, with its graph. Then "
        "`torch.autograd.grad(logits[:, cls].sum(), A)` gives the gradient at A.",
        "The weight of a channel is the mean of its gradient over space only: `grad.mean((2, 3), keepdim=True)`. Every "
        "sample keeps weights of its own.",
        "Multiply the weights with A, sum over the channels, and take the ReLU last. Detach the result. No scaling.",
    ),
    why=(
        "The forward hook keeps the output with its graph, so `torch.autograd.grad` can differentiate with respect to "
        "it and fills no `.grad`. A tensor hook on the output would do as well, if you take it off afterwards; or a "
        "forward hook that adds a tensor of zeros, with respect to which you differentiate."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "values": ALL, "grad": ALL, "mode": ALL,
            "hooks": ALL, "hooked": ("root", "named"), "failure": ALL,
        },
        excludes={
            "rank": "images have four dimensions",
            "place": "an axis of its own says what x is to autograd",
            "number": "it gets no number",
            "collection": "it gets no collection",
            "tied": "every layer has its own weight",
            "named": "an axis of its own says which layer",
            "output": "logits are a tensor",
            "follower": "the layer itself may work in place, and nothing after it",
            "passing": "layers are called by position",
            "registered": "every layer is a part of the model",
            "layers": "the net has several",
            "call": "every probe calls it for several classes",
            "grad_mode": "a rule says that grad mode is on",
            "backward": "the function runs the pass by itself",
            "frozen": "the contract says that parameters require grad",
            "failing_run": "there is one run",
        },
        own={"given": ("plain", "requires grad", "non-leaf"),
             "kind": ("gap", "inner", "in-place", "drawings")},
        impossible=[lambda kind, dtype: kind == "drawings" and dtype == "float64"],
    ),
)  # fmt: skip
class TestGradCam:
    """Write `grad_cam(model, layer, x, cls)`. `model(x)` turns images `x` of shape [B, C, H, W] into logits of shape
    [B, number of classes]; it treats each sample on its own. `layer` is a part of `model`, which calls it once; its
    output A has the shape [B, K, h, w]. `cls` is an int.

    For each sample b and channel k, the weight alpha[b, k] is the mean over the h · w positions of the derivative of
    the logit [b, cls] with respect to A[b, k]. Return the sum over the channels k of alpha[b, k] · A[b, k], with
    negative values replaced by 0: a tensor of shape [B, h, w], not scaled.

    All parameters require grad, and A depends on at least one; `x` may require grad or not. The layer itself may work
    in place, as `nn.ReLU(inplace=True)` does; nothing after it overwrites A. Hooks of others on the layer only watch.
    You may run the model more than once.

    **Example.** Let A be two channels of 1 by 2 pixels, `[[1., 3.]]` and `[[2., 0.]]`. Logit 0 is 2 times the mean of
    the first minus 4 times that of the second: the derivatives are 1 and -2 everywhere. The sum is `[[-3., 3.]]`, and
    the result `tensor([[[0., 3.]]])`.
    """

    def draw(rng, kind, dtype, values, mode, hooks, hooked):
        if kind == "drawings":
            return {"seed": rng.integer(0, 2**31), "net": None, "x": None, "classes": 3, "layer": -1, "narrow": None}
        kinds = {"dtype": dtype, "values": values}
        net = draw_net(
            rng,
            "conv relu conv relu" + ("" if kind == "gap" else " conv tanh"),
            classes=3,
            width=4,
            stride=2 if kind == "gap" else 1,
            inplace=kind == "in-place",
            last="block" if kind == "in-place" else "",  # then the layer is the last of all modules
            mode=mode,
            hooks=hooks,
            hooked=hooked,
            **kinds,
        )
        size = {"gap": (3, 2, 8, 10), "inner": (3, 2, 6, 4), "in-place": (2, 2, 4, 5)}[kind]
        x = rng.tensor(*size, **kinds)
        narrow = narrow_cases(*(rng.tensor(*shape, **kinds) for shape in ((2, 4, 3, 2), (4, 4), (2, 4))))
        return {"net": net, "x": x, "classes": 3, "layer": 2 if kind == "inner" else 3, "seed": None, "narrow": narrow}

    tolerance = TOLERANCE

    def oracle(kind, net, x, classes, layer):
        if kind == "drawings":
            return None
        calls = [*((x, target) for target in range(classes)), (x / 2, 1)]
        return [right_cam(net, images, target, layer) for images, target in calls]

    def alive(kind, seed, net, x, classes, layer, narrow):
        if kind == "drawings":
            found, count = reference_hits(seed)
            return 2 * found > count  # chance is less than one in ten
        if any(narrow_cam(*case).amax((1, 2)).min() < 0.05 * case[0].abs().max() for case in narrow.values()):
            return False
        found = [cams(net, x, target, layer) for target in range(classes)]
        skipped = {"relu-on-weights-and-sum"}
        if kind == "gap":  # all pixels of a channel have the same gradient, and all samples the same weights
            skipped |= {"not-pooled", "mixed-batch", "first-sample"}
        return distinct([{name: cam for name, cam in by_name.items() if name not in skipped} for by_name in found])

    def probe(student, kind, seed, net, x, classes, layer, narrow, layout, given, grad, mode, hooks, hooked, failure):
        if kind == "drawings":
            model, (images, labels, _) = shapes_net(), draw_shapes(DRAWINGS, seed)
            layer = model.features[-1][-1]
            made = [student.grad_cam(model, layer, images[labels == target], target) for target in range(3)]
            # Maps of the wrong size are of no interest, and may be too large to hand over.
            return {"results": [cam if getattr(cam, "ndim", 0) == 3 and cam.shape[-1] == 16 else None for cam in made]}
        model, x = prepare(
            net, x, layout=layout, given=given, grad=grad, mode=mode, frozen="nothing", hooks=hooks, hooked=hooked
        )
        module = model.steps[layer]
        CallersHooks("none" if hooks == "none" else "watching").on_module(module, "layer")
        seen = observe(model, x, lambda: [student.grad_cam(model, module, x, cls) for cls in range(classes)])
        failed = observe_failures(model, x, failure, lambda: student.grad_cam(model, module, x, 0))
        again = student.grad_cam(model, module, x.flip(0) / 2, 1)
        narrow_maps = {}
        for name, (images, mixing, weights) in narrow.items():
            flipping = flipping_net(mixing, weights)
            narrow_maps[name] = student.grad_cam(flipping, flipping[1], images, 1)
        before, at = nn.Conv2d(2, 2, 1, bias=False), nn.Conv2d(2, 2, 1, bias=False)
        small = nn.Sequential(before, at, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 1, bias=False))
        for convolution in (before, at):
            convolution.weight.data.copy_(torch.eye(2)[:, :, None, None])
        small[-1].weight.data.copy_(torch.tensor([[2.0, -4.0]]))
        small.register_parameter("unused", nn.Parameter(torch.ones(1)))
        example = torch.tensor([[[[1.0, 3.0]], [[2.0, 0.0]]]])
        examples = [student.grad_cam(small, at, example, 0)]
        dropping = nn.Sequential(before, nn.Dropout(1.0), *small[2:]).eval()
        dropping[1].train()
        dropped = student.grad_cam(dropping, dropping[1], example, 0)
        model.strike = lambda: examples.append(student.grad_cam(small, at, example, 0))  # a call within a call
        around = student.grad_cam(model, module, x.flip(0) / 2, 1)
        return {
            **seen, **failed, "results": seen.pop("result"), "again": [again, around],
            "example": examples, "narrow": narrow_maps, "dropped": dropped,
        }  # fmt: skip

    mistakes = (
        Mistake(
            "forgot-relu",
            cam_is("forgot-relu"),
            "Your map has negative values: the last ReLU is missing. Negative values speak for other classes; replace "
            "them by 0 after the sum over the channels.",
        ),
        Mistake(
            "not-pooled",
            lambda seen, net, x, classes, layer, kind: (
                SILENT if kind == "gap" else cam_is("not-pooled")(seen, net, x, classes, layer, kind)
            ),
            "You multiplied A with the gradient pixel by pixel. In Grad-CAM a channel has one weight: average the "
            "gradient over height and width first.",
        ),
        Mistake(
            "sum-instead-of-mean",
            cam_is("sum-instead-of-mean"),
            "Your map is h · w times too large: you summed the gradient over space. The weight of a channel is its "
            "mean.",
        ),
        Mistake(
            "softmax-target",
            cam_is("softmax-target", "log-softmax-target"),
            "You took the gradient of the probability, or of its logarithm. The softmax mixes all logits, and other "
            "classes enter the map: use the logit.",
        ),
        Mistake(
            "batch-mean",
            cam_is("batch-mean"),
            BATCH_MEAN,
        ),
        Mistake(
            "mixed-batch",
            lambda seen, net, x, classes, layer, kind: (
                cam_is("summed-batch")(seen, net, x, classes, layer, kind)
                or (kind != "gap" and cam_is("mixed-batch", "first-sample")(seen, net, x, classes, layer, kind))
            ),
            "All samples got the same weights: you reduced the gradient over the batch as well, or used those of one "
            "sample. Average over height and width only, `grad.mean((2, 3), keepdim=True)`.",
        ),
        Mistake(
            "grad-input-not-output",
            cam_is("grad-input-not-output"),
            "You used the gradient at the layer's input, `grad_input`. The weights come from the gradient at its "
            "output, A.",
        ),
        Mistake(
            "wrong-target",
            cam_is("wrong-target"),
            "You explained the class with the largest logit. The task is to explain `cls`, which need not be the "
            "winner.",
        ),
        Mistake(
            "relu-on-weights",
            cam_is("relu-on-weights", "relu-on-weights-and-sum"),
            "You applied the ReLU to the weights. Channels with a negative weight count, too: apply it to the sum over "
            "the channels.",
        ),
        Mistake(
            "scaled",
            cam_is("scaled", "scaled-together"),
            "You scaled the map to the range from 0 to 1. The contract asks for the values as they are; scale when you "
            "draw.",
        ),
        Mistake(
            "upsampled",
            lambda seen, net, x, kind: (
                (one := seen["results"][0].tensor) is not None and one.shape[-2:] == x.shape[-2:]
                if kind == "gap"
                else SILENT
            ),
            "Your map has the size of the image. Return it in the size of the layer's output, [B, h, w].",
        ),
        Mistake(
            "full-hook-and-in-place",
            raises="being modified inplace",
            message="A full backward hook cannot stand on a layer that works in place. Catch the output in a forward "
            "hook instead, and take `torch.autograd.grad` with respect to it.",
        ),
        Mistake(
            "another-mode",
            lambda seen, net, x, classes, layer, kind: (
                SILENT
                if kind == "drawings"
                else matches(
                    seen, (right_cam(net, x, target, layer) * in_another_mode(net) for target in range(classes))
                )
            ),
        ),
        Mistake(
            "polluted-grads",
            lambda seen, net, x, classes, layer, kind: (
                grads_touched(seen) and cam_is("right")(seen, net, x, classes, layer, kind)
            ),
            GRADS_TOUCHED,
        ),
        Mistake(
            "input-touched",
            lambda seen, net, x, classes, layer, kind: (
                input_touched(seen) and cam_is("right")(seen, net, x, classes, layer, kind)
            ),
            INPUT_TOUCHED,
        ),
    )

    def test_the_map_is_the_weighted_sum_of_the_channels(seen, kind, net, x, classes, layer):
        if kind == "drawings":
            return
        for target in range(classes):
            expected = gap_cam(net, x, target) if kind == "gap" else right_cam(net, x, target, layer)
            expect_map(Seen(seen["results"][target].value, f"the map for class {target}"), expected, x)

    def test_another_call_and_the_example_come_out(seen, kind, net, x, layer, narrow):
        if kind != "drawings":
            for index in range(2):
                expect_map(seen["again"][index], right_cam(net, x.flip(0) / 2, 1, layer), x)
            for name, (images, mixing, weights) in narrow.items():
                expected = narrow_cam(images, mixing, weights).to(x.dtype)
                one = Seen(seen["narrow"][name].value, f"the map of {name}")
                expect(one).close_to(expected, rtol=TOLERANCE[0], atol=TOLERANCE[1] * float(expected.max()))
            expect(seen["example"][0]).close_to(torch.tensor([[[0.0, 3.0]]]))
            within = Seen(seen["example"][1].value, "the example, computed while the model of another call runs,")
            expect(within).close_to(torch.tensor([[[0.0, 3.0]]]))
            dropped = Seen(seen["dropped"].value, "for `nn.Dropout(1.0)` in training mode, in an eval model, the map")
            expect(dropped).close_to(torch.zeros(1, 1, 2))

    def test_on_drawings_it_points_at_the_shape_as_often_as_plain_autograd(seen, kind, seed):
        if kind != "drawings":
            return
        mine, (found, count) = learners_hits(seen, seed), reference_hits(seed)
        expect(Seen(mine is not None)).is_true("the map of a drawing should have 16 by 16 pixels")
        expect(Seen(abs((mine or 0) - found) <= 1)).is_true(
            f"on {count} drawings a Grad-CAM by plain autograd points at the shape {found} times, yours {mine} times"
        )

    def test_nothing_of_the_caller_is_touched_and_gradients_are_ordinary_afterwards(seen, kind):
        if kind != "drawings":
            nothing_touched(seen)

    def test_an_exception_comes_through_and_leaves_nothing_behind(seen, kind):
        if kind != "drawings":
            nothing_left_after_exception(seen)
