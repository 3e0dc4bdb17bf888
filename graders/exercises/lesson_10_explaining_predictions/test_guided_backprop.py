"""Exercise 10-guided-backprop."""

import contextlib

import torch
from torch import nn

from graders.exercises.authoring import exercise
from graders.exercises.lesson_10_explaining_predictions.programs import (
    gradient_at_x,
    guided,
    guiding,
    of_class,
    relus,
    wrong_explanations,
)
from graders.scenes.scene import stories
from graders.scenes.stories import explained_predictions as explained


def clamp(module, grad_input, grad_output):
    """What a full backward hook returns for guided backprop."""
    return tuple(None if grad is None else grad.clamp(min=0) for grad in grad_input)


def clamp_later(module, args, output):
    """A forward hook that clamps the gradient of the output."""
    output.register_hook(lambda grad: grad.clamp(min=0))


def with_hooks(model, x, cls, modules, hook=clamp):
    """The gradient at `x` while a full backward hook is on some modules."""
    with contextlib.ExitStack() as stack:
        for module in modules:
            stack.enter_context(module.register_full_backward_hook(hook))
        return gradient_at_x(model, x, of_class(cls))


@exercise(
    "10-guided-backprop",
    points=2,
    minutes=20,
    difficulty=2,
    title="Only positive gradients leave a ReLU",
    hints=(
        "The gradient that leaves a module towards its input is `grad_input` of a full backward hook. It has already "
        "passed the ReLU's own backward rule, which is 0 where the input was negative.",
        "`grad_input` is a tuple, and so is what the hook returns: `(grad_input[0].clamp(min=0),)`. Put such a hook on "
        "every module of `model.modules()` that is an `nn.ReLU`.",
        "Let `torch.autograd.grad` compute the gradient with respect to an input of your own, and remove the hooks in "
        "a `finally` block.",
    ),
    why=(
        "`grad_input` has passed the ReLU's own rule already, so with the clamp, both rules apply, and the tuple that "
        "the hook returns takes its place. A full backward pre-hook that clamps `grad_output` would do as well, "
        "because it does not matter which of the two rules comes first."
    ),
    scene=stories(
        promises={"negative gradients are 0 behind every ReLU": explained.EXPLAINED} | explained.PROMISES,
        axes={"net": ("kinds", "block"), **explained.IMAGES, **explained.GUIDED},
        impossible=explained.IMPOSSIBLE,
        ask=explained.for_the_classes,
        wanted=explained.one_class,
    ),
)
class TestGuidedBackprop:
    """Write `guided_backprop(model, x, cls)`: the gradient of the logits of class `cls`, added up over the images,
    with respect to `x`, with one change in the backward pass. At every `nn.ReLU` of the model, negative values in the
    gradient that leaves it are replaced by 0.

    **Example.**

    >>> model = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(4, 1, bias=False))
    >>> model[2].weight = nn.Parameter(torch.tensor([[2.0, -3.0, 4.0, 5.0]]))
    >>> guided_backprop(model, torch.tensor([[[[1.0, 1.0, -1.0, 0.0]]]]), 0)  # the ordinary one: 2, -3, 0, 0
    tensor([[[[2., 0., 0., 0.]]]])

    **Fine print.** `model` turns images [B, C, H, W] into logits [B, classes], each image on its own. The ReLU's rule,
    0 where its input was not positive, stays. Everything else passes gradients as always: `nn.ReLU6`, `F.relu`, skip
    connections. Each ReLU is called once, on a tensor made from `x`. Other modules may work in place, but nothing
    overwrites `x` or a ReLU's input or output; others' hooks there only watch. `x` and parameters may require grad. The
    model may run repeatedly.
    """

    def reference(model, x, cls):
        return guided(model, x, cls)

    class Mistakes(wrong_explanations(guided)):
        def no_guidance(model, x, cls):
            """You got the ordinary gradient: no clamp took effect. Put a full backward hook on every ReLU before the
            forward pass, since one that comes later is not called, and let it return what it computed:
            `return (grad_input[0].clamp(min=0),)`.
            """
            return gradient_at_x(model, x, of_class(cls))

        def deconvnet(model, x, cls):
            """You used the rule of deconvnets: you clamped `grad_output` and ignored the ReLU's own mask, so gradient
            passes where the input was negative. Clamp `grad_input`, which already has the mask in it.
            """

            def hook(module, grad_input, grad_output):
                return (grad_output[0].clamp(min=0),)

            return with_hooks(model, x, cls, relus(model), hook)

        def wrong_layer(model, x, cls):
            """You clamped at modules other than the ReLUs. Choose those with `isinstance(module, nn.ReLU)`: `nn.ReLU6`
            is none.
            """
            return with_hooks(model, x, cls, [part for part in model.modules() if type(part).__name__ == "ReLU"])

        def wrong_layer__2(model, x, cls):
            return with_hooks(model, x, cls, relus(model, nn.ReLU, nn.ReLU6))

        def wrong_layer__3(model, x, cls):
            with contextlib.ExitStack() as stack:
                for part in relus(model, nn.ReLU, nn.ReLU6):
                    stack.enter_context(part.register_forward_hook(clamp_later))
                return gradient_at_x(model, x, of_class(cls))

        def one_slot_for_all(model, x, cls, handles=[]):  # noqa: B006 - the mistake
            x = x.detach().clone().requires_grad_()
            handles += [relu.register_full_backward_hook(clamp) for relu in relus(model)]
            try:
                return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
            finally:
                while handles:
                    handles.pop().remove()

        def only_sequential_recursed(model, x, cls):
            """Some ReLUs were not reached. They may be at any depth, even in custom blocks and in a `ModuleList`:
            `model.modules()` visits every level.
            """
            return with_hooks(model, x, cls, {*model.children()} & {*relus(model)})

        def clamped_whole_tensor(model, x, cls):
            """You clamped the whole gradient of the tensor that enters a ReLU. Other modules may use that tensor, too,
            as in a skip connection, and their share stays as it is. Clamp `grad_input` of the ReLU.
            """

            def before(module, args):
                args[0].register_hook(lambda grad: grad.clamp(min=0))

            with contextlib.ExitStack() as stack:
                for relu in relus(model):
                    stack.enter_context(relu.register_forward_pre_hook(before))
                return gradient_at_x(model, x, of_class(cls))

        def clamped_the_result(model, x, cls):
            """You clamped the finished gradient of x. The clamp belongs at every ReLU on the way, so that what is set
            to 0 there does not flow on.
            """
            return gradient_at_x(model, x, of_class(cls)).clamp(min=0)

        def clamped_the_result_too(model, x, cls):
            """The finished gradient of `x` has no negative values in your result. The clamp belongs at the ReLUs alone:
            layers in front of the first one, such as a convolution, turn signs again, and that stays.
            """
            return guided(model, x, cls).clamp(min=0)

        def bare_tensor(model, x, cls):
            return with_hooks(model, x, cls, relus(model), lambda module, gi, go: gi[0].clamp(min=0))

        def first_image_alone(model, x, cls):
            """Your gradient is 0 for all images but the first: `logits[0, cls]` is the logit of one image. Add up the
            logits of the class over all images: `logits[:, cls].sum()`.
            """
            with guiding(model):
                return gradient_at_x(model, x, lambda logits: logits[0, cls])

        def every_class(model, x, cls):
            """You took the gradient of the logits of all classes together. The task asks for one class:
            `logits[:, cls].sum()`.
            """
            with guiding(model):
                return gradient_at_x(model, x, lambda logits: logits.sum())

        def row_for_a_class(model, x, cls):
            """`logits[cls]` is a row, which is an image, and not a class. Classes are dimension 1:
            `logits[:, cls].sum()`.
            """
            with guiding(model):
                return gradient_at_x(model, x, lambda logits: logits[cls].sum())

        def kept_the_negative(model, x, cls):
            """Your hook keeps the negative gradients, or takes absolute values. Negative ones become 0 and positive
            ones stay: `grad_input[0].clamp(min=0)`.
            """
            return with_hooks(model, x, cls, relus(model), lambda module, gi, go: (gi[0].clamp(max=0),))

        def kept_the_negative__2(model, x, cls):
            return with_hooks(model, x, cls, relus(model), lambda module, gi, go: (gi[0].abs(),))
