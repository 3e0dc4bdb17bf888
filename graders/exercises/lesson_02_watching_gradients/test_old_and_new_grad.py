"""Exercise 02-old-and-new-grad."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import one_pass, passes


@exercise(
    "02-old-and-new-grad",
    points=2,
    minutes=20,
    difficulty=3,
    title="Two gradients of one overwritten tensor",
    hints=(
        "A hook that is registered before an in-place operation stays with the old value.",
        "`retain_grad()` goes with the tensor: if `loss_fn` works in place on `t`, too, `t.grad` belongs to a value "
        "that is newer still. A hook does not move: register the second one right after the multiplication.",
        "Two tensors work, too: `old = 3 * x`, then `new = old * k`, and a hook on each before `loss_fn(new)`.",
    ),
    why=(
        "A hook stays with the value that `t` had when it was registered, so two hooks on one tensor see two "
        "gradients. Two tensors are easier to follow: `old = 3 * x`, `new = old * k`, and `retain_grad()` on both, "
        "if `loss_fn` gets a copy of `new` that it may overwrite."
    ),
    scene=stories(
        promises={
            "the old and the new gradient are right": one_pass.old_and_new,
            "x has its gradient from one pass": one_pass.one_pass_to_x,
            "another call starts afresh": one_pass.PAIRS_AFRESH,
            "both gradients are tensors of their own": one_pass.a_pair_of_its_own,
            "an exception comes through and nothing is left": one_pass.a_loss_of_t_raises,
            "nothing else changes": one_pass.nothing_else_of_x,
        },
        axes={**passes.LEAF, **one_pass.TAILS},
        impossible=passes.IMPOSSIBLE,
    ),
)
class TestOldAndNewGrad:
    """Write `old_and_new_grad(x, k, loss_fn)`. Compute `t = 3 * x`, multiply the value of `t` by the number `k`, and
    run `loss_fn(t).backward()` once. Return a tuple of two gradients of the loss: with respect to `t` before the
    multiplication, and after it.

    **Example.**

    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> old_and_new_grad(x, 10, lambda t: 7 * t.sum())
    (tensor([70.]), tensor([7.]))
    >>> x.grad
    tensor([210.])

    **Fine print.** Multiply in place or not, as you like. `x` is a leaf, and its gradient is added to `x.grad`;
    `torch.autograd.grad` and an addition of your own will do for that, too. `loss_fn` returns a scalar that depends on
    its argument; it may use `x`, too, and may overwrite the `t` that it gets: your second gradient is with respect to
    the value that it got. `k` may be 0. Hooks on `t` may stay.
    """

    def reference(x, k, loss_fn):
        old = 3 * x
        new = old * k
        found, *pair = torch.autograd.grad(loss_fn(new.clone()), (x, old, new))
        x.grad = found if x.grad is None else x.grad + found
        return tuple(pair)

    class Mistakes:
        def hook_after_in_place(x, k, loss_fn):
            """Both of your gradients belong to the new value. `retain_grad()` goes there, and so does a hook that is
            registered after the in-place operation. For the old value, register a hook before it.
            """
            got = []
            hooked(x, k, lambda t: got.append(t.retain_grad() or t) or loss_fn(t))
            return got[0].grad.clone(), got[0].grad

        def hook_after_in_place__2(x, k, loss_fn):
            _, new = hooked(x, k, loss_fn)
            return new.clone(), new

        def multiplied_out_of_sight(x, k, loss_fn):
            """Autograd did not see your multiplication: with `.data` or under `no_grad` it is not part of the graph,
            and `x.grad` lacks the factor `k`. Write `t.mul_(k)` or `t * k`.
            """
            return hooked(x, k, loss_fn, multiply=lambda t: t.data.mul_(k))

        def swapped_pair(x, k, loss_fn):
            """Both gradients are right, but the other way round: the one for the old value comes first."""
            return hooked(x, k, loss_fn)[::-1]

        def moved_on(x, k, loss_fn):
            """`loss_fn` works in place, and `retain_grad()` and `torch.autograd.grad` follow the tensor to its newest
            value: your second gradient, and what you compute from it, belongs to that. A hook that you register before
            `loss_fn` stays with the value that it was registered on.
            """
            got = []
            old = hooked(x, k, lambda t: got.append(t.retain_grad() or t) or loss_fn(t))[0]
            return old, got[0].grad

        def moved_on__2(x, k, loss_fn):
            got = []
            hooked(x, k, lambda t: got.append(t.retain_grad() or t) or loss_fn(t))
            return k * got[0].grad, got[0].grad

        def hooks_before_in_place(x, k, loss_fn):
            """Both of your gradients belong to the old value. Either both hooks were there before the multiplication (a
            hook stays with the value that the tensor had when it was registered), or both write into one place, and
            that of the old value comes last.
            """
            old, _ = hooked(x, k, loss_fn)
            return old, old.clone()

        def cleared_callers_grad(x, k, loss_fn):
            """You replaced what `x.grad` held before. Gradients add up there: call `backward()`, or add yours to it."""
            x.grad = None
            return hooked(x, k, loss_fn)

        def never_accumulated(x, k, loss_fn):
            """Both gradients are right, but what comes through `t` is not in `x.grad`: `torch.autograd.grad` writes no
            `.grad`, and nothing gets through `x.detach()`. Run `loss.backward()`, or add the gradient yourself.
            """
            old = 3 * x
            new = old * k
            return torch.autograd.grad(loss_fn(new.clone()), (old, new))

        def only_through_t(x, k, loss_fn):
            """You computed `x.grad` as 3 times your first gradient. Something is missing: `loss_fn` may use `x` itself,
            and what `x.grad` held before stays in the sum. Run `loss.backward()`, or ask `torch.autograd.grad` for the
            gradient of `x` as well, and add it to `x.grad`.
            """
            old = 3 * x
            new = old * k
            pair = torch.autograd.grad(loss_fn(new.clone()), (old, new))
            x.grad = 3 * pair[0]
            return pair

        def only_through_t__2(x, k, loss_fn):
            old = 3 * x
            new = old * k
            pair = torch.autograd.grad(loss_fn(new.clone()), (old, new))
            x.grad = 3 * pair[0] if x.grad is None else x.grad + 3 * pair[0]
            return pair

        def loss_of_the_old_value(x, k, loss_fn):
            """`loss_fn` was given `t` as it was before the multiplication. Give it the product."""
            old = 3 * x
            old.retain_grad()
            loss_fn(old).backward()
            return old.grad, None

        def counted_twice(x, k, loss_fn):
            """The gradient is in `x.grad` twice: `backward()` has added it, and you add it once more."""
            before = 0 if x.grad is None else x.grad.clone()
            pair = hooked(x, k, loss_fn)
            x.grad = x.grad + (x.grad - before)
            return pair

        def gradient_of_x(x, k, loss_fn):
            """Your first entry is the gradient of `x`. It should be that of `t = 3 * x`, before the multiplication."""
            _, new = hooked(x, k, loss_fn)
            return x.grad, new

        def divided_by_three(x, k, loss_fn):
            """You divided the gradient of `x` by 3. It may hold more than what comes through `3 * x`: `loss_fn` may use
            `x` itself, and `x.grad` may hold an old value. Hook the tensor `3 * x`.
            """
            before = 0 if x.grad is None else x.grad.clone()
            _, new = hooked(x, k, loss_fn)
            return (x.grad - before) / 3, new

        def divided_by_three__2(x, k, loss_fn):
            _, new = hooked(x, k, loss_fn)
            return x.grad / 3, new

        def divided_by_k(x, k, loss_fn):
            """You divided by `k`, which may be 0. The second gradient arrives at the product: hook that one, too."""
            old, _ = hooked(x, k, loss_fn)
            return old, old / k

        def never_accumulated__2(x, k, loss_fn):
            return hooked(x.detach().requires_grad_(), k, loss_fn)


def hooked(x, k, loss_fn, multiply=None):
    """The right pair, unless something is done in another way."""
    seen, t = {}, 3 * x
    t.register_hook(lambda grad: seen.update(old=grad.clone()))
    multiply(t) if multiply else t.mul_(k)
    t.register_hook(lambda grad: seen.update(new=grad.clone()))
    loss_fn(t).backward()
    return seen["old"], seen["new"]
