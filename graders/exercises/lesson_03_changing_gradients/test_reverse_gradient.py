"""Exercise 03-reverse-gradient."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_hooks as hooks
from graders.scenes.stories import reversed_gradients as reversals


@exercise(
    "03-reverse-gradient",
    points=2,
    minutes=15,
    difficulty=2,
    core=True,
    title="Reverse a gradient",
    hints=(
        "Make a new tensor with the same values that is connected to `x`, such as `x * 1` or `x.view_as(x)`.",
        "Register the hook on the new tensor. Other uses of `x` do not pass through it.",
        "A tensor that does not require grad takes no hook: guard the registration with `if y.requires_grad:`.",
    ),
    why=(
        "`x * 1` is a tensor of its own: a hook on it sees what passes through `y`, and other uses of `x` go "
        "another way. A `torch.autograd.Function` whose `backward` returns `-lam * grad` is the usual way outside "
        "this lesson, and needs no hook."
    ),
    scene=stories(
        promises={
            "the values stay and the gradient is reversed": reversals.reversed_behind_y,
            "only what passes through y is reversed": reversals.only_behind_y,
            "every call and every pass reverses": reversals.every_call_and_pass,
            "the gradient can be differentiated again": reversals.reversed_again,
            "other tensors have their usual gradient": reversals.neighbours_of_y,
            "x is left as it was": reversals.left_alone,
            "without gradients the values come back": reversals.WITHOUT_GRADIENTS,
        },
        axes=hooks.TENSOR,
        impossible=hooks.IMPOSSIBLE,
        arguments=reversals.a_positive_number,
    ),
)
class TestReverseGradient:
    """Write `reverse_gradient(x, lam)`: return a tensor `y` with the values of `x`. In every backward pass, what
    arrives at `y` is multiplied by `-lam` on its way to `x`. Gradients that reach `x` by other paths
    stay as they are.

    **Example.**

    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> y = reverse_gradient(x, 0.5)
    >>> (10 * y + 2 * x).sum().backward()
    >>> y.item(), x.grad
    (3.0, tensor([-3.]))

    **Fine print.** `lam` is positive. `x` may be a leaf or not. A hook on `y` may stay, but leave none on `x`. `y` may
    share its memory with `x`, and its values may be rounded as `lam * x` is. It also works when `x` does not require
    grad (then `y` does not, either), and under `torch.no_grad()`, where no graph is recorded. A pass may also be
    `torch.autograd.grad`; with `create_graph=True` the new gradient keeps its graph.
    """

    def reference(x, lam):
        class Reversed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view_as(x)

            @staticmethod
            def backward(ctx, grad):
                return -lam * grad

        return Reversed.apply(x)

    class Mistakes:
        def hooked_the_input(x, lam):
            """You hooked `x` itself, always or only under `no_grad`. So all of its gradient is reversed, including the
            part from its other uses. Make a new tensor with the same values, hook that one and return it.
            """
            x.register_hook(lambda grad: -lam * grad)
            return x

        def hooked_the_input__2(x, lam):
            return hooked(x, lambda grad: -lam * grad) * 1

        def changed_forward(x, lam):
            """The returned values differ from those of `x`. Forward must be the identity; only the gradient changes."""
            return -lam * x

        def forgot_sign(x, lam):
            """The sign is missing: you multiplied the gradient by `lam`, and the task says `-lam`."""
            return hooked(x * 1, lambda grad: lam * grad)

        def in_place_leak(x, lam):
            return hooked(x * 1, lambda grad: grad.mul_(-lam))

        def forgot_return(x, lam):
            return hooked(x * 1, lambda grad: None)

        def cut_off_graph(x, lam):
            """In a pass with `create_graph=True` gradients have a graph, and it was cut off: by `detach()`, `.data` or
            `no_grad`, or by `@once_differentiable` above a `backward`. Compute the new gradient from the one that
            arrives.
            """
            return hooked(x * 1, lambda grad: -lam * grad.detach())

        def cut_from_x(x, lam):
            """No gradient came through your tensor to `x`: `detach()` (or `.data`, or a new leaf) cut the connection.
            Make the new tensor by an operation on `x`, such as `x * 1`.
            """
            return hooked(x.detach().clone().requires_grad_(x.requires_grad), lambda grad: -lam * grad)

        def one_slot_for_all(x, lam, slot=[]):  # noqa: B006 - the mistake
            slot[:] = [lam]
            return hooked(x * 1, lambda grad: -slot[0] * grad)

        def hook_without_grad(x, lam):
            """A tensor that does not require grad takes no hook, and under `no_grad` the result of `x * 1` does not.
            Guard the registration: `if y.requires_grad: y.register_hook(...)`.
            """
            y = x * 1
            y.register_hook(lambda grad: -lam * grad)
            return y

        def hook_without_grad__2(x, lam):
            y = x * 1
            if x.requires_grad:
                y.register_hook(lambda grad: -lam * grad)
            return y

        def hook_without_grad__3(x, lam):
            y = x * 1
            if torch.is_grad_enabled():
                y.register_hook(lambda grad: -lam * grad)
            return y

        def switched_on(x, lam):
            """You made a tensor require grad, and it should not where `x` does not, or under `no_grad`. There is no
            gradient to reverse there: leave out the hook, `if y.requires_grad: y.register_hook(...)`.
            """
            y = x.clone() if x.requires_grad else x.clone().requires_grad_()
            return hooked(y, lambda grad: -lam * grad)

        def switched_on__2(x, lam):
            return hooked(x.requires_grad_() * 1, lambda grad: -lam * grad)

        def switched_on__3(x, lam):
            y = x.clone()
            return hooked(y if y.requires_grad else y.requires_grad_(), lambda grad: -lam * grad)

        def changed_forward__2(x, lam):
            return x.detach() - lam * x

        def returned_inside_the_guard(x, lam):
            """Where `y` requires no grad, your function returned `None`: its `return y` is inside the `if`. Put it
            below, so that the values come back there, too.
            """
            y = x * 1
            if y.requires_grad:
                return hooked(y, lambda grad: -lam * grad)

        def forgot_lam(x, lam):
            """You turned the sign, and `lam` is missing: multiply the gradient by `-lam`."""
            return hooked(x * 1, lambda grad: -grad)


def hooked(y, hook):
    """The tensor, with a hook if it takes one."""
    if y.requires_grad:
        y.register_hook(hook)
    return y
