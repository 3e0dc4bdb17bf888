"""Exercise 10-guided-grad-cam."""

import torch
import torch.nn.functional as F

from graders.exercises.authoring import exercise
from graders.exercises.lesson_10_explaining_predictions.programs import (
    cam,
    gradient_at_layer,
    gradient_at_x,
    guided,
    guiding,
    of_class,
    wrong_explanations,
)
from graders.scenes.scene import stories
from graders.scenes.stories import explained_predictions as explained


def times(maps, gradient, mode="bilinear", align_corners=False):
    """The heat maps, enlarged, times a gradient at the images."""
    return F.interpolate(maps[:, None], gradient.shape[2:], mode=mode, align_corners=align_corners) * gradient


def product(model, layer, x, cls, **how):
    """Of a Grad-CAM and guided backprop."""
    return times(cam(model, layer, x, cls), guided(model, x, cls), **how)


@exercise(
    "10-guided-grad-cam",
    points=3,
    minutes=25,
    difficulty=2,
    title="Guided backprop times Grad-CAM",
    hints=(
        "Two forward and backward passes: one without any guided hook for the Grad-CAM, and one with them for guided "
        "backprop. You have already written a function for each.",
        "`F.interpolate` wants four dimensions: `cam[:, None]` has the shape [B, 1, h, w]. Use "
        "`size=x.shape[2:], mode='bilinear', align_corners=False`.",
        "A tensor of shape [B, 1, H, W] times one of shape [B, C, H, W] broadcasts over the channels.",
    ),
    why=(
        "Full backward hooks are bound in the forward pass, so the Grad-CAM gets a run of its own, without them. One "
        "forward pass with `retain_graph=True` in the first of two backward passes would do as well, if the hooks "
        "clamp only while a variable tells them to."
    ),
    scene=stories(
        promises={"the result is guided backprop times the enlarged heat map": explained.EXPLAINED}
        | explained.OF_TWO_RUNS,
        axes={"net": ("block", "inside", "last"), **explained.IMAGES, **explained.ALIVE, **explained.GUIDED},
        ask=explained.for_a_layer,
        wanted=explained.one_class,
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
    The arguments are as in `grad_cam`, except that `layer` does not work in place, and the ReLUs as in
    `guided_backprop`; they may come before, in and after `layer`. You may call functions of earlier exercises, and run
    the model more than once.
    """

    reference = product

    class Mistakes(wrong_explanations(product)):
        def shared_pass(model, layer, x, cls):
            """Your Grad-CAM comes from a backward pass in which the guided hooks were active. Compute it in a pass of
            its own, without them.
            """
            with guiding(model):
                maps = cam(model, layer, x, cls)
            return times(maps, guided(model, x, cls))

        def nearest_upsampling(model, layer, x, cls):
            """Your Grad-CAM was upsampled to blocks: `F.interpolate` uses the nearest pixel unless you say
            `mode='bilinear'`.
            """
            return product(model, layer, x, cls, mode="nearest", align_corners=None)

        def align_corners(model, layer, x, cls):
            """You upsampled with `align_corners=True`, which stretches the map to the centres of the corner pixels. The
            contract asks for `align_corners=False`.
            """
            return product(model, layer, x, cls, align_corners=True)

        def forgot_relu(model, layer, x, cls):
            """Your Grad-CAM has negative values, and they flip the sign of guided backprop. Apply the ReLU to the sum
            over the channels before you upsample.
            """
            gradient, maps = gradient_at_layer(model, layer, x, of_class(cls))
            return times((gradient.mean((2, 3), keepdim=True) * maps).sum(1), guided(model, x, cls))

        def relu_after_enlarging(model, layer, x, cls):
            """You enlarged the heat map first, and replaced negative values afterwards: by then they have been mixed
            with their neighbours. Apply the ReLU to the small map.
            """
            gradient, maps = gradient_at_layer(model, layer, x, of_class(cls))
            small, other = (gradient.mean((2, 3), keepdim=True) * maps).sum(1), guided(model, x, cls)
            return times(small, torch.ones_like(other)).relu() * other

        def scaled(model, layer, x, cls):
            """You scaled the Grad-CAM to the range from 0 to 1. The contract asks for the product of the values as they
            are.
            """
            maps = cam(model, layer, x, cls)
            return times(maps / maps.amax((1, 2), keepdim=True).clamp(min=1e-12), guided(model, x, cls))

        def ordinary_gradient(model, layer, x, cls):
            """You multiplied by the ordinary gradient: in the pass for guided backprop no hook clamped anything.
            Register the hooks on all ReLUs before that forward pass, and let each return the clamped `grad_input`.
            """
            return times(cam(model, layer, x, cls), gradient_at_x(model, x, of_class(cls)))

        def added_up(model, layer, x, cls):
            """You added the two maps. The task asks for their product."""
            gradient = guided(model, x, cls)
            return times(cam(model, layer, x, cls), torch.ones_like(gradient)) + gradient

        def bicubic(model, layer, x, cls):
            """You upsampled with another mode than `mode='bilinear'`."""
            return product(model, layer, x, cls, mode="bicubic")

        def relu_of_the_product(model, layer, x, cls):
            """You replaced negative values by 0, of guided backprop or of the product. The ReLU belongs to the Grad-CAM
            alone; guided backprop has negative values, and keeps them.
            """
            return product(model, layer, x, cls).relu()

        def one_channel(model, layer, x, cls):
            """You reduced guided backprop to one channel. The task asks for the product with each channel: the
            result has the shape of `x`.
            """
            return times(cam(model, layer, x, cls), guided(model, x, cls).abs().amax(1, keepdim=True))

        def shapes_do_not_fit(model, layer, x, cls):
            """The enlarged heat maps and guided backprop have shapes that do not fit together. The maps need a
            dimension for the channels, as in `cam[:, None]`, and the size is `x.shape[2:]`.
            """
            gradient = guided(model, x, cls)
            maps = cam(model, layer, x, cls)[None]
            return gradient * F.interpolate(maps, gradient.shape[2:], mode="bilinear", align_corners=False)
