"""Exercise 10-grad-cam."""

import torch
import torch.nn.functional as F

from graders.exercises.authoring import exercise
from graders.exercises.lesson_10_explaining_predictions.programs import (
    cam,
    gradient_at_layer,
    heat,
    of_class,
    wrong_explanations,
)
from graders.scenes.scene import stories
from graders.scenes.stories import explained_predictions as explained


def weighted(model, layer, x, cls, weights):
    """Made with `weights(gradient)`, without the ReLU at the end."""
    gradient, maps = gradient_at_layer(model, layer, x, of_class(cls))
    return (weights(gradient) * maps).sum(1)


def means(gradient):
    """The right weights."""
    return gradient.mean((2, 3), keepdim=True)


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
        "The weight of a channel is the mean of its gradient over space only: `grad.mean((2, 3), keepdim=True)`. "
        "Every sample has weights of its own.",
        "Multiply the weights with A, sum over the channels, and take the ReLU last. Detach the result. No scaling.",
    ),
    why=(
        "The forward hook keeps the output with its graph, so `torch.autograd.grad` can differentiate with respect to "
        "it and fills no `.grad`. A tensor hook on the output would do as well, if you take it off afterwards; or a "
        "forward hook that adds a tensor of zeros, with respect to which you differentiate."
    ),
    scene=stories(
        promises={"the map is the weighted sum of the channels": explained.EXPLAINED} | explained.PROMISES,
        axes={"net": ("last", "in place", "block", "inside"), **explained.IMAGES, **explained.ALIVE},
        ask=explained.for_a_layer,
        wanted=explained.one_class,
    ),
)
class TestGradCam:
    """Write `grad_cam(model, layer, x, cls)`. Let A be the output of `layer`. The weight of a channel, for each image,
    is the mean over its positions of the derivative of logit `cls` with respect to A. Return the weighted sum of the
    channels, negative values replaced by 0.

    **Example.**

    >>> model = nn.Sequential(nn.Conv2d(1, 2, 1, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 1))
    >>> model[0].weight = nn.Parameter(torch.tensor([1.0, -2.0]).view(2, 1, 1, 1))
    >>> model[3].weight = nn.Parameter(torch.tensor([[2.0, -4.0]]))
    >>> grad_cam(model, model[0], torch.tensor([[[[1.0, -3.0]]]]), 0)  # A is [[1, -3]] and [[-2, 6]], weights 1 and -2
    tensor([[[5., 0.]]])

    **Fine print.** `model` turns images [B, C, H, W] into logits [B, number of classes], each image on its own. It
    calls `layer` once; A has the shape [B, K, h, w], and the result [B, h, w]: it is not scaled. A has a graph: it
    depends on parameters, which require grad; `x` may, too. `layer` may work in place, as `nn.ReLU(inplace=True)`
    does; nothing overwrites A later, or `x`. Other people's hooks on `layer` only watch. The model may run
    repeatedly.
    """

    def reference(model, layer, x, cls):
        return cam(model, layer, x, cls)

    class Mistakes(wrong_explanations(cam)):
        def polluted_grads__3(model, layer, x, cls):
            try:
                model(x).sum().backward()
            finally:
                model.zero_grad()
            return cam(model, layer, x, cls)

        def forgot_relu(model, layer, x, cls):
            """Your map has negative values: the last ReLU is missing. Negative values speak for other classes; replace
            them by 0 after the sum over the channels.
            """
            return weighted(model, layer, x, cls, means)

        def not_pooled(model, layer, x, cls):
            """You multiplied A with the gradient pixel by pixel. In Grad-CAM a channel has one weight: average the
            gradient over height and width first.
            """
            return weighted(model, layer, x, cls, lambda gradient: gradient).relu()

        def sum_instead_of_mean(model, layer, x, cls):
            """Your map is h · w times too large: you summed the gradient over space. The weight of a channel is its
            mean.
            """
            return weighted(model, layer, x, cls, lambda gradient: gradient.sum((2, 3), keepdim=True)).relu()

        def softmax_target(model, layer, x, cls):
            return heat(*gradient_at_layer(model, layer, x, lambda logits: logits.softmax(1)[:, cls].sum()))

        def mixed_batch(model, layer, x, cls):
            """All samples got the same weights: you reduced the gradient over the batch as well, or used those of one
            sample. Average over height and width only, `grad.mean((2, 3), keepdim=True)`.
            """
            return weighted(model, layer, x, cls, lambda gradient: gradient.mean((0, 2, 3), keepdim=True)).relu()

        def first_image_alone(model, layer, x, cls):
            """You took the gradient of the first image's logit alone, so the others get none: `logits[:, cls].sum()`
            has that of each image.
            """
            return heat(*gradient_at_layer(model, layer, x, lambda logits: logits[0, cls]))

        def relu_too_early(model, layer, x, cls):
            """You applied the ReLU to the weights, or to each channel. Channels with a negative weight count, too:
            apply it to the sum over the channels.
            """
            gradient, maps = gradient_at_layer(model, layer, x, of_class(cls))
            return (means(gradient) * maps).relu().sum(1)

        def relu_too_early__2(model, layer, x, cls):
            return weighted(model, layer, x, cls, lambda gradient: means(gradient).relu()).relu()

        def scaled(model, layer, x, cls):
            """You scaled the map to the range from 0 to 1. The contract asks for the values as they are; scale when you
            draw.
            """
            found = cam(model, layer, x, cls)
            return found / (found.amax((1, 2), keepdim=True) + 1e-8)

        def first_of_all_calls(model, layer, x, cls, maps=[]):  # noqa: B006 - the mistake
            """Your second call used what the first one had stored. Make the list or dict inside your function. Many
            posts use a global one, and that is the mistake.
            """
            gradient, output = gradient_at_layer(model, layer, x, of_class(cls))
            maps.append(heat(gradient, output))
            return maps[0]

        def full_hook_and_in_place(model, layer, x, cls):
            """A full backward hook cannot be on a layer that works in place. Catch the output in a forward hook
            instead, and take `torch.autograd.grad` with respect to it.
            """
            kept = {}
            with (
                layer.register_full_backward_hook(lambda module, gi, go: kept.update(grad=go[0])),
                layer.register_forward_hook(lambda module, args, output: kept.update(maps=output.detach())),
            ):
                torch.autograd.grad(model(x)[:, cls].sum(), list(model.parameters()), allow_unused=True)
            return heat(kept["grad"], kept["maps"])

        def mean_over_channels(model, layer, x, cls):
            """Your map is too small by a factor: you averaged the weighted channels. Add them up:
            `(weights * A).sum(1)`.
            """
            return cam(model, layer, x, cls) / gradient_at_layer(model, layer, x, of_class(cls))[1].shape[1]

        def mean_over_images(model, layer, x, cls):
            """Your map is too small by a factor: you took the mean of the logits over the images. Each image has
            weights of its own, so take the sum, `logits[:, cls].sum()`.
            """
            return cam(model, layer, x, cls) / len(x)

        def wrong_target(model, layer, x, cls):
            """You explained another class, the one with the largest logit, or all of them. The task is to explain
            `cls`: `logits[:, cls].sum()`.
            """
            return heat(*gradient_at_layer(model, layer, x, lambda logits: logits.amax(1).sum()))

        def wrong_target__2(model, layer, x, cls):
            return heat(*gradient_at_layer(model, layer, x, torch.sum))

        def absolute_weights(model, layer, x, cls):
            """You took the absolute value of the gradient. A channel that speaks against the class has a negative
            weight: leave the signs, and apply one ReLU to the sum at the end.
            """
            return weighted(model, layer, x, cls, lambda gradient: gradient.abs().mean((2, 3), keepdim=True)).relu()

        def enlarged(model, layer, x, cls):
            """You enlarged the map to the size of the images. The contract asks for one that is as large as A: [B, h,
            w].
            """
            small = cam(model, layer, x, cls)[:, None]
            return F.interpolate(small, x.shape[2:], mode="bilinear", align_corners=False)[:, 0]
