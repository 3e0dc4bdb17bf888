"""Exercise 04-offload-grads."""

from functools import partial

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_04_after_accumulation.programs import hooked
from graders.scenes.scene import stories
from graders.scenes.stories import moved_gradients as moved


@exercise(
    "04-offload-grads",
    points=2,
    minutes=15,
    difficulty=2,
    title="Move gradients out of the way",
    hints=(
        "A post-accumulate-grad hook again: it receives the parameter, with its gradient in `p.grad`.",
        'Convert first, `p.grad.to("cpu", torch.float64)`; then add to the sum under the key `p`; then set '
        "`p.grad = None`.",
        "If `.grad` is not freed, the next pass adds to it, and your hook then adds the old gradient a second time.",
    ),
    why=(
        "The hook takes the finished gradient, moves it, and sets `p.grad` to `None`, so that the next pass has "
        "nothing to add to. Sums that start as zeros for each parameter would do as well; what matters is that "
        "they add up in float64."
    ),
    scene=stories(
        promises={
            "the sums grow with every pass": moved.summed_in_every_pass,
            "no gradient is left": moved.gradients_freed,
            "the sums are made in float64": moved.summed_in_float64,
            "each parameter has a sum of its own": moved.through_one_of_two,
            "a second call has a dict of its own": moved.OF_THEIR_OWN,
            "autograd grad is not counted": moved.autograd_grad_uncounted,
            "nothing else changes": moved.only_moved,
            "the handles remove the hooks": moved.HANDLES,
        },
        axes=moved.PARAMETERS,
        impossible=moved.IMPOSSIBLE,
    ),
)
class TestOffloadGrads:
    """Write `offload_grads(params)`. Return a dict `sums` and a list of all handles. From then on, whenever
    `backward()` returns, `p.grad` of each `p` in `params` is `None`, and `sums[p]` is the sum of its gradients over all
    passes: on the CPU, added up in `float64`.

    **Example.**

    >>> p = nn.Parameter(torch.zeros(2))
    >>> sums, handles = offload_grads([p])
    >>> (3 * p).sum().backward()
    >>> (3 * p).sum().backward()
    >>> sums[p], p.grad
    (tensor([6., 6.], dtype=torch.float64), None)

    **Fine print.** `params` is a list of different parameters without a `.grad`, and none is in two lists at a time.
    The key is the parameter itself; before its first pass it may be missing, or its sum may be zeros. A pass may reach
    only some of them. `torch.autograd.grad` is not counted. With `create_graph=True` a sum may have a graph. The
    caller removes all handles or none; after that, `backward()` stores `.grad` again, and the sums stay as they are.
    """

    def reference(params):
        sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}

        def add(p):
            sums[p] += p.grad.detach().cpu()

        def free(p):
            p.grad = None

        return sums, [p.register_post_accumulate_grad_hook(hook) for p in params for hook in (add, free)]

    class Mistakes:
        def wrong_hook_kind(params):
            """A tensor hook runs before `.grad` is written, so it cannot free it, and it also counts
            `torch.autograd.grad`. Use `register_post_accumulate_grad_hook`.
            """
            sums = {}

            def hook(grad, p):
                add(sums, p, grad)
                p.grad = None

            return sums, [p.register_hook(lambda grad, p=p: hook(grad, p)) for p in params]

        def counted_twice(params):
            """From the second pass on your sums are too large: `.grad` still held the earlier gradients, and you added
            them again. Set `p.grad = None` once you have added it.
            """
            sums = {}
            return sums, hooked(params, lambda p: add(sums, p, p.grad))

        def changed_dtype(params):
            """The gradients were added up in the dtype of the parameter, and rounding lost small ones. Convert each
            gradient to `float64` before you add it, so that the sum is in `float64`, too.
            """
            sums = {}

            def use(p):
                sums[p] = (sums.get(p, torch.zeros_like(p)).to(p.dtype) + p.grad).detach().double()
                p.grad = None

            return sums, hooked(params, use)

        def changed_dtype__2(params):
            sums = {p: torch.zeros_like(p, requires_grad=False) for p in params}
            return sums, hooked(params, lambda p: (sums[p].add_(p.grad.detach()), setattr(p, "grad", None)))

        def kept_in_grad(params):
            """`.grad` still adds up over passes, and you copy its total. Add each gradient to `sums[p]`, and then set
            `p.grad = None`.
            """
            sums = {}
            return sums, hooked(params, lambda p: sums.update({p: p.grad.double()}))

        def zeroed_not_freed(params):
            sums = {}
            return sums, hooked(params, lambda p: (add(sums, p, p.grad), p.grad.detach_().zero_()))

        def keys_not_parameters(params):
            """The keys of your dict are not the parameters. Use the parameter itself as the key, `sums[p]`: it is the
            object that the hook receives.
            """
            sums, found = {}, {}
            return sums, hooked(params, lambda p: (move(found, p), sums.update({id(p): found[p]})))

        def keys_not_parameters__2(params):
            sums, found, place = {}, {}, {p: place for place, p in enumerate(params)}
            return sums, hooked(params, lambda p: (move(found, p), sums.update({place[p]: found[p]})))

        def late_binding(params):
            """All your hooks read the loop variable when they run, and by then it is the last parameter. Use the one
            that the hook is given: `def hook(p):`.
            """
            sums, handles = {}, []
            for p in params:
                handles += hooked([p], lambda _: move(sums, p))  # noqa: B023 - the mistake
            return sums, handles

        def wrong_hook_kind__2(params):
            sums = {}
            handles = [p.register_hook(lambda grad, p=p: add(sums, p, grad)) for p in params]
            return sums, handles + hooked(params, lambda p: setattr(p, "grad", None))

        def took_values_for_a_gradient(params):
            sums = {}
            return sums, hooked(params, lambda p: (add(sums, p, p), setattr(p, "grad", None)))

        def only_last_pass(params):
            """Your sum is the gradient of the latest pass alone. Add it to what is there."""
            sums = {}
            return sums, hooked(params, lambda p: (sums.pop(p, None), move(sums, p)))

        def swapped_pair(params):
            """The order is wrong: the dict comes first, and then the list of handles."""
            sums = {}
            return hooked(params, lambda p: move(sums, p)), sums

        def another_dict(params):
            """The sums that you returned stay at 0: your hooks add to other tensors; perhaps you returned copies.
            Return the very dict, with the very tensors, that the hooks change.
            """
            return {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}, hooked(params, partial(move, {}))

        def one_sum_for_all(params):
            """All parameters share one sum: `dict.fromkeys(params, total)` puts the same tensor under every key. Make
            one for each, `{p: torch.zeros(p.shape, dtype=torch.float64) for p in params}`.
            """
            sums = dict.fromkeys(params, torch.zeros(params[0].shape, dtype=torch.float64))

            def use(p):
                sums[p] += p.grad.detach()
                p.grad = None

            return sums, hooked(params, use)

        def waits_for_all(params):
            """Your hook waits until all parameters have a `.grad`. A pass may reach only some of them, and then no
            gradient is moved. Each hook moves the gradient of its own parameter.
            """
            sums = {}
            return sums, hooked(
                params, lambda _: all(p.grad is not None for p in params) and [move(sums, p) for p in params]
            )

        def waits_for_all__2(params):
            sums, arrived = {}, []

            def use(p):
                arrived.append(p)
                if len(arrived) == len(params):
                    for p in arrived:
                        move(sums, p)
                    arrived.clear()

            return sums, hooked(params, use)

        def zeros_left_out(params):
            """A gradient of zeros is left in `.grad`. Zeros are a gradient, too: free it like any other."""
            sums = {}
            return sums, hooked(params, lambda p: p.grad.any() and move(sums, p))

        def alias_of_the_gradient(params):
            """Your first sum is the very gradient tensor, where that is `float64` and on the CPU, and `+=` changes it
            for whoever else has kept it. Begin with zeros, or with a copy: `p.grad.to(torch.float64, copy=True)`.
            """
            sums = {}

            def use(p):
                grad = p.grad.detach().to("cpu", torch.float64)
                if p in sums:
                    sums[p] += grad
                else:
                    sums[p] = grad
                p.grad = None

            return sums, hooked(params, use)


def add(sums, p, grad):
    """Add a gradient."""
    new = grad.detach().to(torch.float64, copy=True)
    sums[p] = sums[p] + new if p in sums else new


def move(sums, p):
    """Add the gradient of a parameter, and free it."""
    add(sums, p, p.grad)
    p.grad = None
