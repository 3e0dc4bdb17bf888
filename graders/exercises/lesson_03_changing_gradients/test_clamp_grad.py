"""Exercise 03-clamp-grad."""

import torch

from graders.exercises.authoring import exercise, no_graph_for_zeros
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_hooks as hooks


@exercise(
    "03-clamp-grad",
    points=1,
    minutes=5,
    difficulty=1,
    title="Clamp a gradient before it goes on",
    hints=(
        "`grad.clamp(lo, hi)` returns a new tensor; `grad.clamp_(lo, hi)` writes into the old one.",
        "Clamp what the hook receives. That is the gradient of this pass, while `t.grad` is the total of all passes.",
        "Return the clamped tensor from the hook, and return the handle from your function.",
    ),
    why=(
        "The hook gets the sum over all uses of `t` in this pass, before it is added to `t.grad`: exactly what has to "
        "be limited. `torch.where`, or two hooks, one that limits from below and one from above, would do as well; "
        "the handle must then remove both."
    ),
    scene=stories(
        promises={
            "every element is clamped": hooks.changed_in_a_pass,
            "each pass is clamped by itself": hooks.EVERY_PASS,
            "the gradient can be differentiated again": hooks.differentiated_again,
            "any tensor and several at a time": hooks.several_at_a_time,
            "nothing else changes": hooks.NOTHING_ELSE,
            "the handle removes the hook and no other": hooks.HANDLES,
        },
        axes={**hooks.TENSOR, **hooks.BOUNDS},
        impossible=hooks.IMPOSSIBLE,
        arguments=hooks.two_bounds,
    ),
)
class TestClampGrad:
    """Write `clamp_grad(t, lo, hi)`: from now on, in every backward pass, each element of the gradient at `t` is
    limited to the range from `lo` to `hi` before it goes on; an element inside the range stays as it is. Return the
    handle.

    **Example.**

    >>> w = torch.tensor([0.0, 0.0], requires_grad=True)
    >>> handle = clamp_grad(w, -1.0, 1.0)
    >>> for _ in range(3):
    ...     (torch.tensor([0.75, 5.0]) * w).sum().backward()
    >>> w.grad
    tensor([2.2500, 3.0000])

    **Fine print.** `t` requires grad; it may be a leaf, whose `.grad` then adds up the clamped gradients, or a tensor
    in the middle of a computation. If `t` is used several times in a pass, the sum of the gradients from all uses is
    clamped, once. `lo < hi` holds; both are finite, and so are the gradients. A pass may also be `torch.autograd.grad`;
    with `create_graph=True` the new gradient keeps its graph.
    """

    def reference(t, lo, hi):
        return t.register_hook(lambda grad: grad.clamp(lo, hi))

    may_differ = {"the gradient differentiated": no_graph_for_zeros}

    class Mistakes:
        def forgot_return(t, lo, hi):
            return t.register_hook(lambda grad: None)

        def in_place_leak(t, lo, hi):
            return t.register_hook(lambda grad: grad.clamp_(lo, hi))

        def cut_off_graph(t, lo, hi):
            return t.register_hook(lambda grad: grad.detach().clamp(lo, hi))

        def hooked_a_copy(t, lo, hi):
            return (t * 1).register_hook(lambda grad: grad.clamp(lo, hi))

        def clamped_the_total(t, lo, hi):
            """You clamped `.grad`, the total of all passes. The task is to clamp the gradient of each pass before it is
            added. `register_hook` hands you just that, and it works on non-leaf tensors as well.
            """
            return t.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", p.grad.clamp(lo, hi)))

        def norm_not_elements(t, lo, hi):
            """You scaled the whole gradient, so that it kept its direction: that limits its norm. The task is to limit
            each element by itself, as `grad.clamp(lo, hi)` does.
            """
            return t.register_hook(lambda grad: grad * (hi / grad.norm()) if grad.norm() > abs(hi) else grad)

        def norm_not_elements__2(t, lo, hi):
            return t.register_hook(lambda grad: grad * (hi / grad.abs().max()) if grad.abs().max() > hi else grad)

        def one_bound_only(t, lo, hi):
            return t.register_hook(lambda grad: grad.clamp(max=hi))

        def one_bound_only__2(t, lo, hi):
            return t.register_hook(lambda grad: grad.clamp(lo or None, hi or None))

        def values_not_gradients(t, lo, hi):
            """Your hook computes with the values of `t`. Its argument is the gradient: clamp that."""
            return t.register_hook(lambda grad: t.clamp(lo, hi))

        def a_handle_is_missing(t, lo, hi):
            """You registered two hooks and returned one handle, so the other hook stays for good. Clamp on both sides
            in one hook: `grad.clamp(lo, hi)`.
            """
            t.register_hook(lambda grad: grad.clamp(min=lo))
            return t.register_hook(lambda grad: grad.clamp(max=hi))

        def other_bounds(t, lo, hi):
            """You limit the elements to other bounds than `lo` and `hi`. Pass both on as they are, in this order: `lo`
            need not be `-hi`, and neither has to be a whole number.
            """
            return t.register_hook(lambda grad: grad.clamp(-hi, hi))

        def other_bounds__2(t, lo, hi):
            return t.register_hook(lambda grad: grad.clamp(hi, lo))

        def other_bounds__3(t, lo, hi):
            return t.register_hook(lambda grad: grad.clamp(int(lo), int(hi)))

        def other_bounds__4(t, lo, hi):
            larger = max(abs(lo), abs(hi))
            return t.register_hook(lambda grad: grad.clamp(-larger, larger))

        def changed_dtype(t, lo, hi):
            low, high = torch.tensor(float(lo)), torch.tensor(float(hi))
            return t.register_hook(lambda grad: grad.maximum(low).minimum(high))

        def zero_outside(t, lo, hi):
            """Elements outside the range became 0. Each goes to the bound that is nearest: `grad.clamp(lo, hi)`."""
            return t.register_hook(lambda grad: grad * ((grad >= lo) & (grad <= hi)))

        def not_always(t, lo, hi):
            """Some gradients came through as they were, and there are elements outside the range in them: 0 may be
            outside, too, and `lo` need not be `-hi`. Clamp every gradient, without an `if`.
            """
            return t.register_hook(lambda grad: grad.clamp(lo, hi) if grad.any() else None)

        def not_always__2(t, lo, hi):
            return t.register_hook(lambda grad: grad.clamp(lo, hi) if grad.abs().max() > hi else None)
