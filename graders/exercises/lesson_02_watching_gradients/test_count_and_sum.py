"""Exercise 02-count-and-sum."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_hooks as hooks
from graders.scenes.stories import watching_gradients as watching


@exercise(
    "02-count-and-sum",
    points=1,
    minutes=10,
    difficulty=1,
    title="Count the calls and add up the gradients",
    hints=(
        "How often is a tensor's hook called if the tensor is used twice? Once for each backward pass, with the sum.",
        'At the first call there is no sum yet: `d["sum"]` is still `None`.',
        "Change the entries of the dict that you returned. A new dict would be invisible to the caller.",
    ),
    why=(
        "The hook changes the entries of the dict that the caller holds; a new dict would never reach the caller. "
        "`sum + received` makes a new tensor each time; adding in place to a tensor of zeros of your own would do "
        "as well."
    ),
    scene=stories(
        promises={
            "the gradients add up over passes": (watching.recorded_in_each_pass, watching.recorded_for_all_gradients),
            "before any pass the dict holds 0 and None": watching.at_the_start,
            "another call keeps a dict of its own": (watching.each_by_itself, watching.recorded_under_no_grad),
            "the sum is a copy without a graph": watching.COPIES,
            "gradients flow on unchanged": (*hooks.EVERY_PASS, hooks.differentiated_again),
            "nothing else changes": hooks.NOTHING_ELSE,
            "the hook stays for good": watching.never_removed,
        },
        axes=hooks.TENSOR,
        impossible=hooks.IMPOSSIBLE,
        arguments=watching.no_arguments,
        watch=watching.own_record,
    ),
)
class TestCountAndSum:
    """Write `count_and_sum(t)`. Return the dict `{"n": 0, "sum": None}` at once. From then on a hook on the tensor `t`
    keeps this same dict up to date: `"n"` is the number of its calls, and `"sum"` the sum of all gradients that it
    received.

    **Example.** One call, although `y` is used in three places:

    >>> y = torch.tensor([2.0], requires_grad=True)
    >>> d = count_and_sum(y)
    >>> (3 * y + y * y).sum().backward()
    >>> d
    {'n': 1, 'sum': tensor([7.])}

    **Fine print.** `t` requires grad, and may be a leaf or not. The hook stays for good. `"n"` is an `int`; the sum has
    no graph, and nothing outside your hook changes it. A gradient of zeros counts, too. Each call makes a dict of its
    own, even for the same tensor. The gradients that flow through `t` stay as they are. Every pass counts, even
    `torch.autograd.grad`, and one with `create_graph=True`.
    """

    def reference(t):
        received, tally = [], {"n": 0, "sum": None}

        def hook(grad):
            received.append(grad.detach().clone())
            tally.update(n=len(received), sum=torch.stack(received).sum(0))

        torch.autograd.graph.register_multi_grad_hook((t,), hook, mode="any")
        return tally

    class Mistakes:
        def only_last_pass(t):
            """After several passes your dict knows only one of them. Add to what is there instead of replacing it."""
            return adding(t, lambda total, grad, received: received)

        def reads_dot_grad(t):
            return adding(t, lambda total, grad, received: t.grad.clone())

        def reads_dot_grad__2(t):
            return adding(t, lambda total, grad, received: received if t.grad is None else t.grad.clone())

        def reads_dot_grad__3(t):
            return adding(t, lambda total, grad, received: t.grad)

        def zeros_left_out(t):
            return adding(t, add, counts=torch.any)

        def added_to_dot_grad(t):
            """You add each gradient to `t.grad`. That may hold something from before your call, and for a tensor that
            is no leaf it holds nothing. Add to the sum in your dict.
            """
            return adding(t, lambda total, grad, received: received if t.grad is None else t.grad + received)

        def stored_alias(t):
            """Your sum begins with the memory of the gradient itself, which others hold, too: they may write into it,
            and a `+=` of yours writes into theirs. Begin with a copy: `grad.detach().clone()`.
            """
            return adding(t, lambda total, grad, received: grad.detach() if total is None else total + received)

        def stored_alias__2(t):
            return adding(t, lambda total, grad, received: grad.detach() if total is None else total.add_(received))

        def no_copy(t):
            """Your sum begins with the gradient itself: a later hook may overwrite it, and with `create_graph=True` it
            keeps a graph alive. Begin with a copy: `grad.detach().clone()`.
            """
            return adding(t, lambda total, grad, received: grad if total is None else total + grad)

        def returned_the_gradient(t):
            """Your hook returned a tensor, and what a hook returns flows on instead of the gradient. Return nothing."""
            return adding(t, add, flows=lambda received, total: received)

        def returned_the_gradient__2(t):
            return adding(t, add, flows=lambda received, total: total)

        def sum_of_the_elements(t):
            """You added up the elements of each gradient. Add the gradients themselves: their sum has the shape of
            `t`.
            """
            return adding(t, lambda total, grad, received: add(total, grad, received.sum()))

        def another_dict(t):
            """The dict that you returned still says 0 and `None`. Either your hook fills another: change the entries of
            that very dict. Or it is off `t` again: a `with` block removes it when it ends, even by `return`.
            """
            adding(t, add)
            return {"n": 0, "sum": None}


def add(total, grad, received):
    """The sum with one more gradient."""
    return received if total is None else total + received


def adding(t, step, flows=lambda received, total: None, counts=torch.is_tensor):
    """A dict of which a hook on `t` counts the calls and renews the sum; what `flows` says flows on.

    A gradient of which `counts` is false is left out.
    """
    d = {"n": 0, "sum": None}

    def hook(grad):
        received = grad.detach().clone()
        if counts(received):
            d.update(n=d["n"] + 1, sum=step(d["sum"], grad, received))
        return flows(received, d["sum"])

    t.register_hook(hook)
    return d
