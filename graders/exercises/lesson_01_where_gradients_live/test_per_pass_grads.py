"""Exercise 01-per-pass-grads."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import passes


@exercise(
    "01-per-pass-grads",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="One gradient for each pass",
    hints=(
        "What does `backward()` do to a `.grad` that already holds a value?",
        "Set `p.grad = None` before each pass, or use `torch.autograd.grad`, which does not touch `p.grad`.",
        "An entry of your list and `p.grad` must not be the same tensor, or the next pass changes your entry. "
        "Store `p.grad.clone()`.",
    ),
    why=(
        "With `p.grad = None` before each pass there is nothing to add to, and the copy stays yours whatever "
        "happens to `p.grad` later. `torch.autograd.grad(loss(p), p)` is shorter: it returns the gradient of one "
        "pass and does not touch `p.grad`."
    ),
    scene=stories(
        promises={
            "each pass has its own gradient": passes.of_each_loss,
            "each loss is evaluated once in order": passes.evaluated_once,
            "another call starts afresh": passes.AFRESH,
            "the entries are copies": passes.of_their_own,
            "an exception comes through and nothing is left": passes.a_loss_raises,
            "nothing else changes": passes.nothing_else,
        },
        axes={**passes.LEAF, "hooks": ("none", "watching")},
        impossible=passes.IMPOSSIBLE,
    ),
)
class TestPerPassGrads:
    """Write `per_pass_grads(p, losses)`. `p` is a leaf that requires grad, `losses` a list of functions of `p` that
    return one number, as a tensor. Evaluate each once, in order, and return a list with the gradient of each loss alone
    with respect to `p`.

    **Example.**

    >>> p = torch.tensor([3.0], requires_grad=True)
    >>> per_pass_grads(p, [lambda p: 2 * p.sum(), lambda p: (p * p).sum()])
    [tensor([2.]), tensor([6.])]

    **Fine print.** Each loss depends on `p`. `p.grad` may hold an old value, which must not enter the result.
    You may change and overwrite `p.grad`, but no entry of your list may be `p.grad` itself. A loss that is in the list
    twice counts twice. While a loss is evaluated, it may call your function on another tensor. No hook on `p` changes a
    gradient.
    """

    def reference(p, losses):
        return [torch.autograd.grad(loss(p), p)[0] for loss in losses]

    class Mistakes:
        def accumulated_grad(p, losses):
            grads = []
            for loss in losses:
                loss(p).backward()
                grads.append(p.grad.clone())
            return grads

        def accumulated_grad__2(p, losses):
            grads, p.grad = [], None
            for loss in losses:
                loss(p).backward()
                grads.append(p.grad.clone())
            return grads

        def old_value_kept(p, losses):
            """The value that `p.grad` held before your function was called is in the result. Set `p.grad = None` before
            the first pass, too.
            """
            grads = []
            for loss in losses:
                loss(p).backward()
                grads.append(p.grad.clone())
                p.grad = None
            return grads

        def rounded_differences(p, losses):
            """You computed the gradient of a pass as the difference of two totals. Where the total is large, the small
            digits of a pass are lost in it. Set `p.grad = None` before each pass, and there is nothing to subtract.
            """
            grads = []
            for loss in losses:
                before = 0 if p.grad is None else p.grad.clone()
                loss(p).backward()
                grads.append(p.grad - before)
            return grads

        def one_pass_for_all(p, losses):
            """Every entry is the gradient of all losses together. Call `backward()` once for each loss, and take its
            gradient before the next.
            """
            (grad,) = torch.autograd.grad(sum(loss(p) for loss in losses), p)
            return [grad.clone() for _ in losses]

        def stored_alias(p, losses):
            """An entry of your list is `p.grad` itself, so it changes whenever `p.grad` does. Store a copy:
            `p.grad.clone()`.
            """
            grads = []
            for loss in losses:
                p.grad = None
                loss(p).backward()
                grads.append(p.grad)
            return grads

        def stored_alias__2(p, losses):
            grads, p.grad = [], torch.zeros_like(p)
            for loss in losses:
                p.grad.zero_()
                loss(p).backward()
                grads.append(p.grad)
            return grads

        def emptied_alias(p, losses):
            """Every entry is `p.grad` itself, and `zero_()` sets that very tensor to 0. Store a copy, `p.grad.clone()`,
            or clear with `p.grad = None`.
            """
            grads = []
            for loss in losses:
                loss(p).backward()
                grads.append(p.grad)
                p.grad.zero_()
            return grads

        def reads_dot_grad(p, losses):
            grads = []
            with p.register_hook(lambda grad: grads.append(p.grad)):
                for loss in losses:
                    loss(p).backward()
            return grads

        def emptied_the_list(p, losses):
            """You took the losses out of the caller's list, and now it is empty. Go through it with `for loss in
            losses`, which leaves it as it is.
            """
            return [torch.autograd.grad(losses.pop(0)(p), p)[0] for _ in range(len(losses))]

        def hook_left_behind(p, losses):
            grads = []
            p.register_hook(lambda grad: grads.append(grad.clone()))
            for loss in losses:
                loss(p).backward()
            return grads

        def hooks_pile_up(p, losses):
            """There are too many entries: a hook that you register in the loop stays, and runs in every later pass,
            too. Register one before the loop, or remove each after its pass.
            """
            return [grad.clone() for n, loss in enumerate(losses, 1) for grad in torch.autograd.grad(loss(p), p) * n]

        def the_same_tensor(p, losses):
            """Every entry is `p.grad` itself, the total of all passes. Set `p.grad = None` before each pass, and store
            a copy of it afterwards: `p.grad.clone()`.
            """
            for loss in losses:
                loss(p).backward()
            return [p.grad for _ in losses]

        def one_entry_for_a_loss(p, losses):
            """An entry is missing: a loss may be in the list twice, and a dict has one entry for each key. Append to a
            list.
            """
            return list({loss: torch.autograd.grad(loss(p), p)[0] for loss in losses}.values())

        def only_the_first(p, losses):
            """Your list ends after the first loss. Is `return` inside the loop? It belongs below it."""
            return list(torch.autograd.grad(losses[0](p), p))

        def evaluated_twice(p, losses):
            """A loss was evaluated more than once. It may compute something else the second time: call each once, and
            keep what it returns.
            """
            values = [loss(p) for loss in losses]
            return [torch.autograd.grad(loss(p), p)[0] for loss, _ in zip(losses, values)]
