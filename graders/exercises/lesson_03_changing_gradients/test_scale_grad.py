"""Exercise 03-scale-grad."""

import torch

from graders.exercises.authoring import exercise, no_graph_for_zeros
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_hooks as hooks


@exercise(
    "03-scale-grad",
    points=1,
    minutes=5,
    difficulty=1,
    core=True,
    title="Scale a gradient on its way back",
    hints=(
        "A hook may return a tensor. What happens to the gradient then, and what happens when it returns `None`?",
        "Do not use a method whose name ends in an underscore, or `grad *= s`: both write into a shared buffer.",
        "Register a hook that returns `grad * s`, and return the handle that `register_hook` gave you.",
    ),
    why=(
        "`grad * s` is a new tensor, so whoever else holds the old gradient keeps it as it was. "
        "`grad.clone().mul_(s)` would do as well: it is `grad` itself that must not be written into."
    ),
    scene=stories(
        promises={
            "the gradient is scaled": hooks.changed_in_a_pass,
            "every pass is scaled once": hooks.EVERY_PASS,
            "the gradient can be differentiated again": hooks.differentiated_again,
            "any tensor and several at a time": hooks.several_at_a_time,
            "nothing else changes": hooks.NOTHING_ELSE,
            "the handle removes the hook and no other": hooks.HANDLES,
        },
        axes={**hooks.TENSOR, **hooks.NUMBER},
        impossible=hooks.IMPOSSIBLE,
        arguments=hooks.a_number,
    ),
)
class TestScaleGrad:
    """Write `scale_grad(t, s)`: from now on, in every backward pass, the gradient that arrives at `t` is multiplied by
    the number `s` before it goes on. Return the handle.

    **Example.**

    >>> w, x = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
    >>> handle = scale_grad(w, 10.0)
    >>> (3 * (w + x)).sum().backward()
    >>> w.grad, x.grad
    (tensor([30.]), tensor([3.]))

    **Fine print.** `t` requires grad; it may be a leaf, whose `.grad` then gets the scaled gradient, or a tensor in the
    middle of a computation. Gradients are finite. A pass may also be `torch.autograd.grad`; with `create_graph=True`
    the new gradient keeps its graph.
    """

    def reference(t, s):
        return t.register_hook(lambda grad: grad * s)

    may_differ = {"the gradient differentiated": no_graph_for_zeros}

    class Mistakes:
        def forgot_return(t, s):
            return t.register_hook(lambda grad: None)

        def in_place_leak(t, s):
            return t.register_hook(lambda grad: grad.mul_(s))

        def cut_off_graph(t, s):
            return t.register_hook(lambda grad: grad.detach() * s)

        def wrong_hook_kind(t, s):
            """A post-accumulate-grad hook is for leaves only, and scales `.grad`, so also what it held before;
            `torch.autograd.grad` never calls it. `register_hook` works on every tensor that requires grad, and its hook
            gets the gradient of this pass.
            """
            return t.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", p.grad * s))

        def hooked_a_copy(t, s):
            return (t * 1).register_hook(lambda grad: grad * s)

        def changed_dtype(t, s):
            """`torch.tensor([s])` is float32 and has a dimension: a float64 gradient becomes float32, and one without
            dimensions gets one. Multiply by the number itself: `grad * s`.
            """
            return t.register_hook(lambda grad: grad * torch.tensor([s]))

        def values_not_gradients(t, s):
            """Your hook computes with the values of `t`. Its argument is the gradient: return `grad * s`."""
            return t.register_hook(lambda grad: t * s)

        def added(t, s):
            """You added `s` to the gradient. Multiply."""
            return t.register_hook(lambda grad: grad + s)

        def wrong_hook_kind__2(t, s):
            if not t.is_leaf:
                return t.register_hook(lambda grad: grad * s)
            return t.register_post_accumulate_grad_hook(lambda leaf: setattr(leaf, "grad", leaf.grad * s))

        def zero_means_none(t, s):
            """With `s = 0` the gradient came through unchanged. `if s` treats 0 as if nothing was asked for: multiply
            by 0, too.
            """
            return t.register_hook(lambda grad: grad * s if s else None)

        def first_pass_only(t, s):
            """Only the first pass is scaled: your hook removed itself. Leave that to the caller, who has the handle."""

            def hook(grad):
                handle.remove()
                return grad * s

            handle = t.register_hook(hook)
            return handle
