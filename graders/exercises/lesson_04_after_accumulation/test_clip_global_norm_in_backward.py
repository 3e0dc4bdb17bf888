"""Exercise 04-clip-global-norm-in-backward."""

import itertools

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_04_after_accumulation.programs import hooked
from graders.scenes.scene import stories
from graders.scenes.stories import joint_clipping as clipping


@exercise(
    "04-clip-global-norm-in-backward",
    points=3,
    minutes=30,
    difficulty=3,
    title="Clip the joint norm during backward",
    hints=(
        "The joint norm needs every gradient, so only the last parameter to arrive may clip. It is not always the "
        "same one.",
        "Count the arrivals in a post-accumulate-grad hook, or collect them in a set. When all have arrived, every "
        "`.grad` is written: clip them all, once.",
        "Reset the count after clipping, or the second pass never gets to clip. "
        "`torch.nn.utils.clip_grad_norm_(params, c)` may do the clipping itself.",
    ),
    why=(
        "The joint norm needs all gradients, so the last parameter to arrive clips them all, whichever that is. A "
        "counter, set back to 0 after clipping, would do in place of the set, and so would scaling each `.grad` by "
        "hand instead of calling `clip_grad_norm_`."
    ),
    scene=stories(
        promises={
            "the joint norm is clipped once all have arrived": clipping.clipped_in_a_pass,
            "the next pass accumulates and is clipped again": clipping.PASS_AFTER_PASS,
            "a small gradient stays as it is": clipping.small_as_it_is,
            "the norm is joint over all entries": clipping.joint_over_all,
            "a second list is clipped by itself": clipping.a_second_list,
            "nothing else changes": clipping.only_clipped,
            "the handles remove the hooks": clipping.HANDLES,
        },
        axes=clipping.PARAMETERS,
        impossible=clipping.IMPOSSIBLE,
    ),
)
class TestClipGlobalNormInBackward:
    """Write `clip_global_norm_in_backward(params, c)`. From then on, whenever `backward()` returns, the `.grad` of all
    parameters in the list is what `torch.nn.utils.clip_grad_norm_(params, c)` would have made of it: if their joint L2
    norm is greater than `c`, all are multiplied by one factor. Return a list of all handles.

    **Example.**

    >>> p, q = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    >>> handles = clip_global_norm_in_backward([p, q], 1.0)
    >>> (3 * p + 4 * q).sum().backward()
    >>> p.grad, q.grad
    (tensor([0.6]), tensor([0.8]))

    **Fine print.** `params` is a list of different parameters, and none is in two lists at a time. Every `backward()`
    reaches all of them, in an order that can differ, and no exception stops it. Gradients accumulate as usual, and the
    sum is clipped. The caller may set `.grad` to `None` between passes. `torch.autograd.grad` clips nothing. A pass may
    have `create_graph=True`, and `.grad` then need not have a graph. The caller removes all handles or none.
    """

    def reference(params, c):
        return when_complete(params, lambda: torch.nn.utils.clip_grad_norm_(params, c))

    class Mistakes:
        def per_tensor_norm(params, c):
            """You clipped each gradient to the norm `c` by itself. The norm is joint: one number for all parameters
            together, and one factor for all.
            """
            return hooked(params, lambda p: torch.nn.utils.clip_grad_norm_([p], c))

        def clipped_too_early(params, c):
            """You clipped before the last gradient was in `.grad`: what had arrived was clipped without it. Clip once,
            in a post-accumulate-grad hook, when all parameters have arrived in this pass.
            """
            return hooked(params, lambda p: torch.nn.utils.clip_grad_norm_(params, c))

        def clipped_too_early__2(params, c):
            return hooked(params[-1:], lambda p: torch.nn.utils.clip_grad_norm_(params, c))

        def clipped_too_early__3(params, c):
            return hooked(params[:1], lambda p: torch.nn.utils.clip_grad_norm_(params, c))

        def counter_not_reset(params, c):
            """The first pass is right, the second is not. A count goes back to 0, and a set is emptied, as soon as you
            have clipped. Or your hooks were removed after the first pass.
            """
            return counted(params, lambda arrived: arrived == len(params) and torch.nn.utils.clip_grad_norm_(params, c))

        def scaled_up(params, c):
            """A joint norm below `c` was scaled up to `c`. Clipping only makes gradients smaller: the factor is
            `c / norm`, but never more than 1.
            """

            def scale_always():
                torch._foreach_mul_([p.grad.detach() for p in params], c / joint_norm(p.grad for p in params))

            return when_complete(params, scale_always)

        def clipped_too_early__4(params, c):
            grads = {}

            def hook(grad, p):
                grads[p] = grad
                return grad * min(1, c / joint_norm(grads.values()))

            return [p.register_hook(lambda grad, p=p: hook(grad, p)) for p in params]

        def clipped_too_early__5(params, c):
            clip = lambda grads: torch.nn.utils.clip_grad_norm_(params, c)  # noqa: E731
            return [torch.autograd.graph.register_multi_grad_hook(params, clip)]

        def old_grad(params, c):
            """A `.grad` that is not `None` may be from an earlier pass, or from before the call, so it does not show
            that this pass has reached the parameter. Count the calls of your hooks, or collect the parameters.
            """
            complete = lambda: all(p.grad is not None for p in params)  # noqa: E731
            return hooked(params, lambda p: complete() and torch.nn.utils.clip_grad_norm_(params, c))

        def counter_not_reset__2(params, c):
            return counted(params, lambda arrived: arrived >= len(params) and torch.nn.utils.clip_grad_norm_(params, c))

        def not_clipped(params, c):
            """Nothing was clipped when the pass was over. The last to arrive is number `len(params)`, so compare with
            `==`, not `>`. And `g = g * factor` makes a new tensor: `.grad` changes by `p.grad.mul_(factor)`.
            """
            return hooked(params, lambda p: None)

        def not_clipped__2(params, c):
            late = lambda arrived: arrived % (len(params) + 1) == 0  # noqa: E731
            return counted(params, lambda arrived: late(arrived) and torch.nn.utils.clip_grad_norm_(params, c))

        def another_norm(params, c):
            """You compared something else with `c`: the joint L2 norm is the root of the sum of the squares of all
            entries. It is not the sum of the single norms, and without the root it is not a norm.
            """
            return when_complete(params, lambda: scale(params, c / sum(p.grad.norm() for p in params)))

        def another_norm__2(params, c):
            return when_complete(params, lambda: scale(params, c / joint_norm(p.grad for p in params) ** 2))

        def norm_of_what_arrives(params, c):
            """Your norm is that of the gradients of this pass. Those of earlier passes are in `.grad`, and it is the
            sum that is clipped: take the norm of `.grad`, once all have arrived.
            """
            arrived = []
            watching = [p.register_hook(lambda grad: arrived.append(grad.detach().clone())) for p in params]

            def clip():
                scale(params, c / joint_norm(arrived))
                arrived.clear()

            return watching + when_complete(params, clip)

        def norm_of_what_arrives__2(params, c):
            old = {}
            before = lambda p: 0 if p.grad is None else p.grad.detach().clone()  # noqa: E731
            watching = [p.register_hook(lambda grad, p=p: old.update({p: before(p)})) for p in params]

            def clip():
                arrived = [p.grad.detach() - old[p] for p in params]
                factor = min(1, float(c / joint_norm(arrived)))
                for p, grad in zip(params, arrived):
                    p.grad.detach().copy_(old[p] + factor * grad)

            return watching + when_complete(params, clip)

        def one_slot_for_all(params, c, arrived=[]):  # noqa: B006 - the mistake
            """All lists share what you count or collect, so a parameter of one list counts as an arrival in another.
            Begin a new count in each call of your function.
            """

            def hook(p):
                arrived.append(p)
                if len(arrived) >= len(params):
                    arrived.clear()
                    torch.nn.utils.clip_grad_norm_(params, c)

            return hooked(params, hook)

        def clipped_values(params, c):
            """`clip_grad_value_` limits each element by itself. The norm limits all together, by one factor:
            `clip_grad_norm_`.
            """
            return when_complete(params, lambda: torch.nn.utils.clip_grad_value_(params, c))

        def one_is_scaled(params, c):
            """Only the gradient that came last was scaled. The factor is for the gradients of all parameters."""
            count = itertools.count(1)

            def hook(p):
                if next(count) % len(params) == 0:
                    scale([p], c / joint_norm(q.grad for q in params))

            return hooked(params, hook)


def joint_norm(grads):
    """The L2 norm of all of these together."""
    return torch.cat([grad.detach().flatten() for grad in grads]).norm()


def scale(params, factor):
    """Multiply the gradients, unless that makes them larger."""
    torch._foreach_mul_([p.grad.detach() for p in params], min(1, float(factor)))


def when_complete(params, use):
    """The handles of hooks of which the last one to be called in a pass calls `use`."""
    return counted(params, lambda arrived: arrived % len(params) == 0 and use())


def counted(params, use):
    """The handles of hooks that count how often they have been called so far, and call `use` with it."""
    count = itertools.count(1)
    return hooked(params, lambda p: use(next(count)))
