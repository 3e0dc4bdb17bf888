"""Exercise 10-guided-grad-cam."""

from __future__ import annotations

import contextlib

import torch.nn.functional as F

from graders.authoring import exercise
from graders.lesson_10_explaining_predictions.programs import (
    gradient_at_layer,
    gradient_at_x,
    guided,
    guided_relu,
    heat,
    of_class,
    relus,
    wrong_explanations,
)
from graders.scenes.explained_nets import explains, of_a_layer


def cam(model, layer, x, cls):
    """A Grad-CAM, from a pass of its own."""
    return heat(*gradient_at_layer(model, layer, x, of_class(cls)))


def enlarged(maps, x, **how):
    """A heat map for each image, at its size, with one channel."""
    return F.interpolate(maps[:, None], x.shape[2:], **how or {"mode": "bilinear", "align_corners": False})


def product(model, layer, x, cls, cam=cam, sharp=guided, **how):
    """Of the two factors, or of what somebody takes for them."""
    return enlarged(cam(model, layer, x, cls), x, **how) * sharp(model, x, of_class(cls))


def cam_of_a_guided_pass(model, layer, x, cls):
    """What is computed from the gradient of the guided pass."""
    with contextlib.ExitStack() as stack:
        for relu in relus(model):
            stack.enter_context(relu.register_forward_hook(lambda module, args, output: guided_relu(args[0])))
        return cam(model, layer, x, cls)


def either_never_came_or(mine, wanted):
    """Who needs one run for both factors never comes to a second one."""
    return mine == "never raised"


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
    scene=explains(
        ask=of_a_layer,
        runs=("first", "second"),
        backward=True,
        only={"frozen": ("nothing",), "layer": ("block", "inside", "last")},
        words={"task": "the result is guided backprop times the enlarged heat map"},
    ),
)
class TestGuidedGradCam:
    """Write `guided_grad_cam(model, layer, x, cls)`: the product of what `guided_backprop(model, x, cls)` returns, and
    of what `grad_cam(model, layer, x, cls)` returns, enlarged to the size of the images by bilinear interpolation with
    `align_corners=False` and multiplied with each channel.

    **Example.**

    >>> model = nn.Sequential(nn.Conv2d(1, 1, (1, 2), bias=False), nn.Flatten())
    >>> model[0].weight = nn.Parameter(torch.tensor([[[[2.0, 5.0]]]]))
    >>> x = torch.tensor([[[[-1.0, 1.0]]]])
    >>> guided_grad_cam(model, model[0], x, 0)  # guided backprop [[2, 5]], and a Grad-CAM of one pixel: 3
    tensor([[[[ 6., 15.]]]])

    **Fine print.** The Grad-CAM comes from a backward pass without the guided rule. The result has the shape of `x`.
    The arguments are such as in `grad_cam`, and the ReLUs such as in `guided_backprop`; they may come before, in and
    after `layer`, which does not work in place, either. You may call functions of earlier exercises, and run the model
    more than once.
    """

    def reference(model, layer, x, cls):
        return product(model, layer, x, cls)

    free = {
        "an exception in the second forward pass": either_never_came_or,
        "an exception in the second backward pass": either_never_came_or,
    }

    class Mistakes(wrong_explanations(product)):
        def shared_pass(model, layer, x, cls):
            """Your Grad-CAM comes from a backward pass in which the guided hooks were active. Compute it in a pass of
            its own, without them.
            """
            return product(model, layer, x, cls, cam=cam_of_a_guided_pass)

        def one_factor_missing(model, layer, x, cls):
            """You returned only one of the two factors. Multiply the result of guided backprop with the upsampled
            Grad-CAM.
            """
            return guided(model, x, of_class(cls))

        def one_factor_missing__2(model, layer, x, cls):
            return enlarged(cam(model, layer, x, cls), x).expand(x.shape).clone()

        def one_factor_missing__3(model, layer, x, cls):
            return enlarged(cam(model, layer, x, cls), x)

        def nearest_upsampling(model, layer, x, cls):
            """Your Grad-CAM was upsampled to blocks: `F.interpolate` uses the nearest pixel unless you say
            `mode='bilinear'`.
            """
            return product(model, layer, x, cls, mode="nearest")

        def align_corners(model, layer, x, cls):
            """You upsampled with `align_corners=True`, which stretches the map to the centres of the corner pixels. The
            contract asks for `align_corners=False`.
            """
            return product(model, layer, x, cls, mode="bilinear", align_corners=True)

        def no_guidance(model, layer, x, cls):
            """You multiplied the Grad-CAM with the ordinary gradient. At every ReLU, negative gradients that leave it
            have to become 0, as in guided backprop.
            """
            return product(model, layer, x, cls, sharp=gradient_at_x)

        def forgot_relu(model, layer, x, cls):
            """Your Grad-CAM has negative values, and they turn the sign of guided backprop around. Apply the ReLU to
            the sum over the channels before you upsample.
            """

            def signed(*args):
                gradient, maps = gradient_at_layer(model, layer, x, of_class(cls))
                return (gradient.mean((2, 3), keepdim=True) * maps).sum(1)

            return product(model, layer, x, cls, cam=signed)

        def scaled(model, layer, x, cls):
            """You scaled the Grad-CAM to the range from 0 to 1. The contract asks for the product of the values as they
            are.
            """

            def scaled_cam(*args):
                maps = cam(*args)
                return maps / maps.amax((1, 2), keepdim=True).clamp(min=1e-12)

            return product(model, layer, x, cls, cam=scaled_cam)

        def guided_hooks_stay(model, layer, x, cls):
            """Your hooks for guided backprop stay on the ReLUs, and the Grad-CAM of the next call is computed with
            them. Remove them in `finally`.
            """
            found = cam(model, layer, x, cls)
            for relu in relus(model):
                relu.register_full_backward_hook(lambda module, gi, go: (gi[0].clamp(min=0),))
            return enlarged(found, x) * gradient_at_x(model, x, of_class(cls))
