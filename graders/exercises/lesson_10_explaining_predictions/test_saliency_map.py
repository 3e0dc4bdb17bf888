"""Exercise 10-saliency-map."""

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_10_explaining_predictions.programs import gradient_at_x, of_class, wrong_explanations
from graders.scenes.scene import stories
from graders.scenes.stories import explained_predictions as explained


def one_by_one(model, x, classes):
    """The map of each image, from a pass of its own."""
    found = [gradient_at_x(model, image, of_class(cls)) for image, cls in zip(x.split(1), classes.tolist())]
    return torch.cat(found).abs().amax(1)


def of_pairs(classes):
    """The sum of the logits [b, classes[b]]."""
    return lambda logits: logits.gather(1, classes[:, None]).sum()


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
        "`torch.func.grad` for one sample, with `torch.func.vmap` over the batch, would do as well, detached."
    ),
    scene=stories(
        promises={"each pixel has its largest absolute derivative": explained.EXPLAINED} | explained.PROMISES,
        axes={"net": ("kinds", "block"), **explained.IMAGES},
        impossible=explained.IMPOSSIBLE,
        ask=explained.for_the_classes,
        wanted=explained.some_classes,
    ),
)
class TestSaliencyMap:
    """Write `saliency_map(model, x, classes)`. `model` turns images `x` into logits, and `classes` lists a class for
    each image. Return a map for each image: at each pixel the largest absolute value, over the channels, of the
    derivative of the image's own logit with respect to the pixel.

    **Example.**

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(3, 2, bias=False))
    >>> model[1].weight = nn.Parameter(torch.tensor([[1.0, -3.0, 2.0], [0.0, 5.0, 0.0]]))
    >>> saliency_map(model, torch.ones(1, 3, 1, 1), torch.tensor([0]))  # one image, three channels of one pixel
    tensor([[[3.]]])

    **Fine print.** `x` has the shape [B, C, H, W], the logits [B, number of classes], the result [B, H, W]. `classes`
    is an int64 tensor of shape [B]; the logit of image b is `logits[b, classes[b]]`. The model treats each image on its
    own and does not overwrite `x`. `x` and each parameter may require grad or not. You may run the model more than
    once.
    """

    reference = one_by_one

    class Mistakes(wrong_explanations(one_by_one)):
        def mean_over_channels(model, x, classes):
            """You took the mean or the sum over the channels. The saliency of a pixel is the largest of its channels:
            `gradient.abs().amax(1)`.
            """
            return gradient_at_x(model, x, of_pairs(classes)).abs().mean(1)

        def abs_too_late(model, x, classes):
            """You took the maximum of the signed gradient, so a large negative derivative lost out to a small positive
            one. Take `abs()` first, then the maximum.
            """
            return gradient_at_x(model, x, of_pairs(classes)).amax(1)

        def abs_too_late__2(model, x, classes):
            return gradient_at_x(model, x, of_pairs(classes)).amax(1).abs()

        def indexed_all_pairs(model, x, classes):
            """`logits[:, classes]` takes every listed class for every sample. Pair rows with classes:
            `logits[torch.arange(B), classes]`, or `logits.gather(1, classes[:, None])`.
            """
            return gradient_at_x(model, x, lambda logits: logits[:, classes].sum()).abs().amax(1)

        def wrong_target(model, x, classes):
            """You explained the class with the largest logit. The task is to explain the classes in `classes`, which
            need not be the winners.
            """
            return gradient_at_x(model, x, lambda logits: logits.amax(1).sum()).abs().amax(1)

        def softmax_target(model, x, classes):
            return gradient_at_x(model, x, lambda logits: of_pairs(classes)(logits.softmax(1))).abs().amax(1)

        def softmax_target__2(model, x, classes):
            return gradient_at_x(model, x, lambda logits: of_pairs(classes)(logits.log_softmax(1))).abs().amax(1)

        def every_logit(model, x, classes):
            """You took the gradient of the logits of all classes together. For each image, pick the one logit that
            `classes` names: `logits.gather(1, classes[:, None]).sum()`.
            """
            return gradient_at_x(model, x, torch.sum).abs().amax(1)

        def mean_over_images(model, x, classes):
            """Your map is too small by a factor, the number of images: you took the mean of the logits. The map of an
            image is about its own logit, so take the sum, `logits.gather(1, classes[:, None]).sum()`.
            """
            return one_by_one(model, x, classes) / len(x)

        def rows_for_classes(model, x, classes):
            """`logits[classes]` takes rows, which are images, and not classes. Pair each row with its class:
            `logits[torch.arange(B), classes]`, or `logits.gather(1, classes[:, None])`.
            """
            return gradient_at_x(model, x, lambda logits: logits[classes].sum()).abs().amax(1)

        def times_the_image(model, x, classes):
            """You multiplied the gradient by the image. The task asks for the derivatives themselves."""
            return (gradient_at_x(model, x, of_pairs(classes)) * x.detach()).abs().amax(1)
