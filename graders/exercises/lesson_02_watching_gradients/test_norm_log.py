"""Exercise 02-norm-log."""

import contextlib

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import passes


@exercise(
    "02-norm-log",
    points=2,
    minutes=15,
    difficulty=2,
    core=True,
    title="Log the norm of every pass",
    hints=(
        "After the first pass `p.grad` is a sum over passes. It is not the gradient of this pass.",
        "A hook on `p` sees exactly the gradient of this pass. The L2 norm of a tensor of any shape is `grad.norm()`.",
        "The handle is a context manager: `with p.register_hook(fn):` removes the hook at the end of the block, "
        "even when a loss raises.",
    ),
    why=(
        "A hook sees the gradient of one pass, whatever `p.grad` held before, and the `with` block removes it even "
        "when a loss raises. You could also put `p.grad` aside for each pass and add it back afterwards, with `try` "
        "and `finally` in case a loss raises."
    ),
    scene=stories(
        promises={
            "each pass has its own norm": passes.of_each_loss,
            "each loss is evaluated once in order": passes.evaluated_once,
            "p.grad accumulates over single passes": passes.left_in_grad,
            "another call starts afresh": passes.AFRESH,
            "an exception comes through and leaves what the plain loop leaves": passes.AS_THE_LOOP,
            "nothing else changes": passes.nothing_else,
        },
        axes=passes.LEAF,
        impossible=passes.IMPOSSIBLE,
    ),
)
class TestNormLog:
    """Write `norm_log(p, losses)`. For each function in the list `losses`, in order, run `loss(p).backward()` once.
    Return a list with the L2 norm of each pass's own gradient of the leaf `p`: a Python float, the square root of the
    sum of all squared entries.

    **Example.**

    >>> p = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> losses = [lambda p: (torch.tensor([3.0, 4.0]) * p).sum(), lambda p: 2 * p[0]]
    >>> norm_log(p, losses)
    [5.0, 2.0]
    >>> p.grad
    tensor([5., 4.])

    **Fine print.** `p.grad` may hold something at the start, and ends as the plain loop would leave it, even when a
    loss raises: each pass adds to it. Each loss depends on `p`. Other leaves in a loss get their gradient, too. If
    there were hooks on `p` before, the norm is that of the gradient as they left it. A loss may differ from call to
    call. While it is evaluated, it may call your function on another tensor.
    """

    def reference(p, losses):
        norms = []
        for loss in losses:
            before, p.grad = p.grad, None
            try:
                loss(p).backward()
                norms.append(torch.linalg.vector_norm(p.grad).item())
            finally:
                if before is not None:
                    p.grad = before if p.grad is None else before.add_(p.grad)
        return norms

    class Mistakes:
        def accumulated_grad(p, losses):
            return [loss(p).backward() or p.grad.norm().item() for loss in losses]

        def cleared_callers_grad(p, losses):
            """The norms are right, but you cleared `p.grad`. The caller needs the sum over all passes, on top of what
            `p.grad` held before: leave it alone, and let a hook on `p` take the norms.
            """
            return [setattr(p, "grad", None) or loss(p).backward() or p.grad.norm().item() for loss in losses]

        def cleared_callers_grad__2(p, losses):
            p.grad = None
            return hooked(p, losses, torch.norm)

        def never_accumulated(p, losses):
            """The norms are right, but no pass wrote `p.grad`. Run `backward()`: the caller needs the sum over all
            passes, on top of what `p.grad` held before.
            """
            return [torch.autograd.grad(loss(p), p)[0].norm().item() for loss in losses]

        def only_p_accumulates(p, losses):
            """`p.grad` was filled, but that of another leaf in a loss was not: `torch.autograd.grad` fills none, and
            `inputs=[p]` fills only this one. Run `loss(p).backward()`, and let a hook on `p` take the norm.
            """
            norms = []
            for loss in losses:
                (grad,) = torch.autograd.grad(loss(p), p)
                norms.append(grad.norm().item())
                p.grad = grad if p.grad is None else p.grad + grad
            return norms

        def evaluated_twice(p, losses):
            """You call each loss more than once. It may compute something else the second time: call it once, and run
            `backward()` on what it returned.
            """
            norms = []
            for loss in losses:
                norms.append(torch.autograd.grad(loss(p), p)[0].norm().item())
                loss(p).backward()
            return norms

        def hook_left_behind(p, losses):
            norms = []
            for loss in losses:
                p.register_hook(lambda grad: norms.append(grad.norm().item()))
                loss(p).backward()
            return norms

        def hook_left_behind__2(p, losses):
            norms = []
            p.register_hook(lambda grad: norms.append(grad.norm().item()))
            for loss in losses:
                loss(p).backward()
            return norms

        def one_slot_for_all(p, losses, norms=[]):  # noqa: B006 - the mistake
            norms.clear()
            with p.register_hook(lambda grad: norms.append(grad.norm().item())):
                for loss in losses:
                    loss(p).backward()
            return list(norms)

        def not_the_l2_norm(p, losses):
            """These are not L2 norms. The L2 norm is the square root of the sum of all squared entries, and
            `grad.norm()` computes it.
            """
            return hooked(p, losses, lambda grad: grad.square().sum())

        def not_the_l2_norm__2(p, losses):
            return hooked(p, losses, lambda grad: grad.abs().sum())

        def difference_of_norms(p, losses):
            """You subtracted the norms of two totals, and the norm of a difference is something else. Take the norm of
            the gradient of each pass: a hook on `p` is given just that.
            """
            norms, before = [], 0.0 if p.grad is None else p.grad.norm().item()
            for loss in losses:
                loss(p).backward()
                norms.append(p.grad.norm().item() - before)
                before += norms[-1]
            return norms

        def rounded_differences(p, losses):
            """You computed the gradient of a pass as the difference of two totals. Where the total is large, the small
            digits of a pass are lost in it. A hook on `p` is given the gradient of the pass itself.
            """
            norms = []
            for loss in losses:
                before = 0 if p.grad is None else p.grad.clone()
                loss(p).backward()
                norms.append((p.grad - before).norm().item())
            return norms

        def lost_after_an_exception(p, losses):
            """After a loss has raised, `p.grad` is not what the plain loop would leave. Run each pass before you call
            the next loss. Put back in `finally` what you took away; or leave `p.grad` alone, and let a hook on `p` take
            the norms.
            """
            norms, total = [], torch.zeros_like(p) if p.grad is None else p.grad.clone()
            for loss in losses:
                p.grad = None
                loss(p).backward()
                norms.append(p.grad.norm().item())
                total += p.grad
            p.grad = total
            return norms

        def lost_after_an_exception__2(p, losses):
            values = [loss(p) for loss in losses]
            return hooked(p, [lambda p, value=value: value for value in values], torch.norm)

        def swallowed_exception(p, losses):
            """A loss raised an exception, and it did not come out of your function: your `except` swallowed it. Let it
            through, and tidy up in `finally` or with a `with` block.
            """
            return hooked(p, losses, torch.norm, swallowed=Exception)

        def swallowed_exception__2(p, losses):
            return hooked(p, losses, torch.norm, swallowed=BaseException)

        def one_pass_for_all(p, losses):
            """You ran one backward pass for the sum of all losses. Run one for each, `loss(p).backward()`."""
            return hooked(p, [lambda p: sum(loss(p) for loss in losses)], torch.norm)


def hooked(p, losses, measure, swallowed=()):
    """What `measure` makes of the gradient of each pass. Exceptions of the type `swallowed` do not come out."""
    found = []
    with p.register_hook(lambda grad: found.append(measure(grad).item())):
        for loss in losses:
            with contextlib.suppress(swallowed):
                loss(p).backward()
    return found
