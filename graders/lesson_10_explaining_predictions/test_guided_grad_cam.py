"""Exercise 10-guided-grad-cam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    Circumstances,
    Mistake,
    Seen,
    changes,
    exercise,
    expect,
)
from graders.lesson_10_explaining_predictions.judging import (
    GRADS_TOUCHED,
    INPUT_TOUCHED,
    TOLERANCE,
    cams,
    distinct,
    draw_net,
    expect_map,
    grads_touched,
    in_another_mode,
    indices,
    input_gradient,
    input_touched,
    matches,
    nothing_left_after_exception,
    nothing_touched,
    right_cam,
)
from graders.lesson_10_explaining_predictions.shared import observe, observe_failures, prepare


def right_result(net: dict[str, Any], x: Tensor, target: int, layer: int) -> Tensor:
    """What the contract asks for."""
    guided, cam = input_gradient(net, x, target, guided=indices(net, "relu")), right_cam(net, x, target, layer)
    return guided * F.interpolate(cam[:, None], size=x.shape[2:], mode="bilinear", align_corners=False)


def guided_cams(net: dict[str, Any], x: Tensor, target: int, layer: int) -> dict[str, Tensor]:
    """What the contract asks for, and what its known misreadings give."""
    relus = indices(net, "relu")
    guided, plain = input_gradient(net, x, target, guided=relus), input_gradient(net, x, target)
    found = cams(net, x, target, layer)
    cam, shared = found["right"], cams(net, x, target, layer, guided=relus)["right"]

    def enlarged(cam: Tensor, **options: Any) -> Tensor:
        options = options or {"mode": "bilinear", "align_corners": False}
        return F.interpolate(cam[:, None], size=x.shape[2:], **options)

    return {
        "right": guided * enlarged(cam),
        "shared-pass": guided * enlarged(shared),
        "guided-only": guided,
        "cam-only": enlarged(cam).expand(x.shape),
        "nearest-upsampling": guided * enlarged(cam, mode="nearest"),
        "align-corners": guided * enlarged(cam, mode="bilinear", align_corners=True),
        "no-guidance": plain * enlarged(cam),
        "forgot-relu": guided * enlarged(found["forgot-relu"]),
        "scaled": guided * enlarged(found["scaled"]),
    }


def guided_cam_is(*names: str, reshape: Callable[[Tensor], Tensor] = lambda tensor: tensor) -> Callable[..., bool]:
    """A recogniser of these misreadings, the same one for every class."""
    return lambda seen, net, x, classes, layer: any(
        matches(seen, (reshape(guided_cams(net, x, target, layer)[name]) for target in range(classes)))
        for name in names
    )


SCALES = (2.0**14, 2.0**-30)
"""A Grad-CAM may be large, and very small."""

WIDE = torch.linspace(1, 2, 15).view(1, 1, 1, 15)
"""An image; 15 / 11 times 11 is less than 15 in float64."""


def relu_within() -> tuple[nn.Module, nn.Module]:
    """A model and a layer that is a ReLU and a convolution; to the pixels of its output come 3 and -1."""
    layer = nn.Sequential(nn.ReLU(), nn.Conv2d(1, 1, 1, bias=False))
    model = nn.Sequential(layer, nn.Flatten(), nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        for parameter, values in zip(model.parameters(), ([1.0], [3.0, -1.0])):
            parameter.copy_(torch.tensor(values).view_as(parameter))
    return model, layer


def middle() -> tuple[nn.Module, nn.Module]:
    """A model and its first layer: of 15 pixels it keeps the 11 in the middle, whose sum is the logit."""
    model = nn.Sequential(nn.Conv2d(1, 1, (1, 5), bias=False), nn.Flatten(), nn.Linear(11, 1, bias=False))
    with torch.no_grad():
        for parameter, values in zip(model.parameters(), ([0.0, 0.0, 1.0, 0.0, 0.0], [1.0] * 11)):
            parameter.copy_(torch.tensor(values).view_as(parameter))
    return model, model[0]


RUNS = ("first", "second")
"""There are two runs, at least in most answers: one for each factor."""


@exercise(
    "10-guided-grad-cam",
    points=3,
    minutes=25,
    difficulty=2,
    title="Guided backprop times Grad-CAM",
    hints=(
        "Two forward and backward passes: one without any guided hook for the Grad-CAM, and one with them for guided "
        "backprop. Both are the functions that you have already written.",
        "`F.interpolate` wants four dimensions: `cam[:, None]` has the shape [B, 1, h, w]. Use "
        "`size=x.shape[2:], mode='bilinear', align_corners=False`.",
        "A tensor of shape [B, 1, H, W] times one of shape [B, C, H, W] broadcasts over the channels.",
    ),
    why=(
        "Full backward hooks are bound in the forward pass, so the Grad-CAM gets a run of its own, without them. One "
        "forward pass with `retain_graph=True` in the first of two backward passes would do as well, if the hooks "
        "clamp only while a variable tells them to."
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
            "follower": "no layer works in place",
            "passing": "layers are called by position",
            "registered": "every layer is a part of the model",
            "layers": "the net has several",
            "call": "every probe calls it for several classes",
            "grad_mode": "a rule says that grad mode is on",
            "backward": "the function runs the pass by itself",
            "failing_run": "every probe fails in the first run, and in the second",
            "frozen": "the contract says that parameters require grad",
        },
        own={"given": ("plain", "requires grad", "non-leaf"), "layer": (2, 3, 5), "other": ("tanh", "leaky")},
    ),
)  # fmt: skip
class TestGuidedGradCam:
    """Write `guided_grad_cam(model, layer, x, cls)`. The arguments are such as in `grad_cam`, and the ReLUs such as in
    `guided_backprop`; they may come before and after `layer`, which does not work in place, either. Return a tensor of
    the shape of `x`.

    It is the product of two things:

    - what `guided_backprop(model, x, cls)` returns,
    - what `grad_cam(model, layer, x, cls)` returns, from a backward pass without the guided rule. It is upsampled to H
      by W with bilinear interpolation (`align_corners=False`) and multiplied with every channel.

    You may call functions of earlier exercises, and run the model more than once.

    **Example.** For one image of one channel and 1 by 2 pixels let guided backprop be `[[2., 5.]]`, and let the
    Grad-CAM have a single pixel with the value 3. The result is `tensor([[[[6., 15.]]]])`.
    """

    def draw(rng, layer, other, dtype, values, mode, hooks, hooked):
        kinds = {"dtype": dtype, "values": values}
        net = draw_net(
            rng,
            f"conv relu conv relu conv {other} conv relu",
            classes=3,
            width=4,
            stride=2,
            last="rest" if layer == 2 else "",  # then a ReLU is the last of all modules
            mode=mode,
            hooks=hooks,
            hooked=hooked,
            **kinds,
        )
        return {"net": net, "x": rng.tensor(2, 2, *((8, 10) if layer == 2 else (7, 9)), **kinds), "classes": 3}

    tolerance = TOLERANCE

    def oracle(net, x, classes, layer):
        calls = [*((x, target) for target in range(classes)), (x / 2, 1)]
        return [right_result(net, images, target, layer) for images, target in calls]

    def alive(net, x, classes, layer):
        return distinct([guided_cams(net, x, target, layer) for target in range(classes)])

    def probe(student, net, x, classes, layer, layout, given, grad, mode, hooks, hooked, failure):
        model, x = prepare(
            net, x, layout=layout, given=given, grad=grad, mode=mode, frozen="nothing", hooks=hooks, hooked=hooked
        )
        module = model.steps[layer]
        module.register_forward_hook(lambda module, args, output: None)
        seen = observe(model, x, lambda: [student.guided_grad_cam(model, module, x, cls) for cls in range(classes)])
        failed = observe_failures(model, x, failure, lambda: student.guided_grad_cam(model, module, x, 0), runs=RUNS)
        model.add_module(net["names"]["second"], nn.ReLU())  # instead of the one that was there
        again = student.guided_grad_cam(model, module, x.flip(0) / 2, 1)
        small = nn.Sequential(nn.Conv2d(1, 1, (1, 2), bias=False), nn.Flatten())
        small[0].weight.data.copy_(torch.tensor([[[[2.0, 5.0]]]]))
        small.register_parameter("unused", nn.Parameter(torch.ones(1)))
        image = torch.tensor([[[[-1.0, 1.0]]]])
        examples = [student.guided_grad_cam(small, small[0], image, 0)]
        model.strike = lambda: examples.append(student.guided_grad_cam(small, small[0], image, 0))  # within a call
        around = student.guided_grad_cam(model, module, x.flip(0) / 2, 1)
        within = student.guided_grad_cam(*relu_within(), torch.ones(1, 1, 1, 2), 0)
        odd = student.guided_grad_cam(*middle(), WIDE, 0)
        scaled = [student.guided_grad_cam(small, small[0], image * scale, 0) for scale in SCALES]
        return {
            **seen, **failed, "results": seen.pop("result"), "again": [again, around],
            "example": examples, "scaled": scaled, "relu within": within, "odd sizes": odd,
        }  # fmt: skip

    mistakes = (
        Mistake(
            "shared-pass",
            lambda seen, net, x, classes, layer: guided_cam_is("shared-pass")(seen, net, x, classes, layer),
            "Your Grad-CAM comes from a backward pass in which the guided hooks were active. Compute it in a pass of "
            "its own, without them.",
        ),
        Mistake(
            "one-factor-missing",
            lambda seen, net, x, classes, layer: (
                guided_cam_is("guided-only", "cam-only")(seen, net, x, classes, layer)
                or guided_cam_is("cam-only", reshape=lambda tensor: tensor[:, 0])(seen, net, x, classes, layer)
                or guided_cam_is("cam-only", reshape=lambda tensor: tensor[:, :1])(seen, net, x, classes, layer)
            ),
            "This is only one of the two factors. Multiply the result of guided backprop with the upsampled Grad-CAM.",
        ),
        Mistake(
            "nearest-upsampling",
            guided_cam_is("nearest-upsampling"),
            "Your Grad-CAM was upsampled to blocks: `F.interpolate` uses the nearest pixel unless you say "
            "`mode='bilinear'`.",
        ),
        Mistake(
            "align-corners",
            guided_cam_is("align-corners"),
            "You upsampled with `align_corners=True`, which stretches the map to the centres of the corner pixels. The "
            "contract asks for `align_corners=False`.",
        ),
        Mistake(
            "no-guidance",
            guided_cam_is("no-guidance"),
            "You multiplied the Grad-CAM with the ordinary gradient. At every ReLU, negative gradients that leave it "
            "have to become 0, as in guided backprop.",
        ),
        Mistake(
            "forgot-relu",
            guided_cam_is("forgot-relu"),
            "Your Grad-CAM has negative values, and they turn the sign of guided backprop around. Apply the ReLU to "
            "the sum over the channels before you upsample.",
        ),
        Mistake(
            "scaled",
            guided_cam_is("scaled"),
            "You scaled the Grad-CAM to the range from 0 to 1. The contract asks for the product of the values as they "
            "are.",
        ),
        Mistake(
            "another-mode",
            lambda seen, net, x, classes, layer: any(
                matches(
                    seen,
                    (right_result(net, x, target, layer) * in_another_mode(net) ** power for target in range(classes)),
                )
                for power in (1, 2)
            ),
        ),
        Mistake(
            "guided-hooks-stay",
            lambda seen: bool(changes(seen["changed"], "hook-left *")),
            "Your hooks for guided backprop stay on the ReLUs, and the Grad-CAM of the next call is computed with "
            "them. Remove them in `finally`.",
        ),
        Mistake(
            "polluted-grads",
            lambda seen, net, x, classes, layer: (
                grads_touched(seen) and guided_cam_is("right")(seen, net, x, classes, layer)
            ),
            GRADS_TOUCHED,
        ),
        Mistake(
            "input-touched",
            lambda seen, net, x, classes, layer: (
                input_touched(seen) and guided_cam_is("right")(seen, net, x, classes, layer)
            ),
            INPUT_TOUCHED,
        ),
    )

    def test_the_result_is_guided_backprop_times_the_upsampled_cam(seen, net, x, classes, layer):
        for target in range(classes):
            result = Seen(seen["results"][target].value, f"the result for class {target}")
            expect_map(result, right_result(net, x, target, layer), x)

    def test_another_call_and_the_example_come_out(seen, net, x, layer):
        for index in range(2):
            expect_map(seen["again"][index], right_result(net, x.flip(0) / 2, 1, layer), x)
        expect(seen["example"][0]).close_to(torch.tensor([[[[6.0, 15.0]]]]))
        for entry in (seen["example"][1], *list(seen["example"])[2:]):  # one for each run of the model
            within = Seen(entry.value, "the example, computed while the model of another call runs,")
            expect(within).close_to(torch.tensor([[[[6.0, 15.0]]]]))
        within = Seen(seen["relu within"].value, "where `layer` is a container with a ReLU in it, the result")
        expect(within).close_to(torch.tensor([[[[3.0, 0.0]]]]))
        odd = Seen(seen["odd sizes"].value, "for 15 pixels and a Grad-CAM of 11, the result")
        kept = WIDE[..., 2:13]
        upsampled = F.interpolate(kept, size=(1, 15), mode="bilinear", align_corners=False)
        expect(odd).close_to(upsampled * F.pad(torch.ones_like(kept), (2, 2)))
        for index, scale in enumerate(SCALES):
            result = Seen(seen["scaled"][index].value, f"in the example, with a Grad-CAM of {3 * scale:g}, the result")
            expect(result).close_to(torch.tensor([[[[6.0, 15.0]]]]) * scale, atol=0)

    def test_nothing_of_the_caller_is_touched_and_gradients_are_ordinary_afterwards(seen):
        nothing_touched(seen)

    def test_an_exception_comes_through_and_leaves_nothing_behind(seen):
        nothing_left_after_exception(seen, RUNS)
