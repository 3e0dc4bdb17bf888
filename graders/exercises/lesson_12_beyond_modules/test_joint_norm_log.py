"""Exercise 12-joint-norm-log."""

from types import SimpleNamespace

import torch
from torch.autograd.graph import register_multi_grad_hook

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import joint_logs


def logged(tensors, number, mode="all"):
    """A list of what `number` makes of the gradients that arrive in a pass, if that is not None, and the handle."""
    log = []

    def hook(grads):
        if mode == "all":
            grads = [grad for grad in grads if grad is not None]
        if (norm := number(grads)) is not None:
            log.append(norm)

    return log, register_multi_grad_hook(tensors, hook, mode=mode)


def joint(grads):
    """Their joint norm."""
    return torch.cat([grad.flatten() for grad in grads]).norm().item()


@exercise(
    "12-joint-norm-log",
    points=2,
    minutes=15,
    difficulty=2,
    title="Log the norm of several gradients together",
    hints=(
        "`torch.autograd.graph.register_multi_grad_hook(tensors, fn)` calls `fn` once for each backward pass, with a "
        "list of gradients in the order of `tensors`. It returns a handle.",
        "A tensor that the pass did not reach has `None` in the list.",
        "Square all entries, add everything up, and take one root at the end. `.item()` turns it into a float.",
    ),
    why=(
        "The multi-grad hook knows when the last gradient of the pass has arrived, which a hook on a single tensor "
        "does not. `math.hypot` of the norms of all gradients would do as well, or the norm of all of them joined into "
        "one long vector."
    ),
    scene=stories(
        promises={
            "every pass appends its joint norm": (joint_logs.appended, joint_logs.zeros, joint_logs.stopped),
            "each call has a list and a handle of its own": joint_logs.several_calls,
            "the flow is unchanged": joint_logs.unchanged_flow,
            "nothing is appended after remove()": joint_logs.removed,
            "nothing else changes": joint_logs.nothing_else,
        },
        axes=joint_logs.AXES,
    ),
)
class TestJointNormLog:
    """Write `joint_norm_log(tensors)`: from now on, each `backward()` that reaches at least one of these tensors
    appends a float to a list: the L2 norm of all the gradients together that arrive at them in this pass. Return two
    things, the list and a handle.

    **Example.**

    >>> a, b = (torch.tensor(1.0, requires_grad=True) for _ in range(2))
    >>> log, handle = joint_norm_log([a, b])
    >>> (3 * a + 4 * b).backward()  # sqrt(3 * 3 + 4 * 4)
    >>> (2 * a).backward()
    >>> log
    [5.0, 2.0]

    **Fine print.** To get the norm, square each entry of these gradients, add up all squares of all tensors, and take
    the root. A gradient of zeros is a gradient, too. A pass that an exception stops before all gradients have arrived
    appends nothing. `tensors` is a list of different tensors of one dtype, some of them leaves. The caller does not use
    `torch.autograd.grad`.
    """

    def reference(tensors):
        return logged(tensors, joint)

    class Mistakes:
        def no_handle(tensors):
            """Return two things, the list and the handle: `return log, handle`. The handle is what
            `register_multi_grad_hook` returns; its `remove()` ends the logging.
            """
            return logged(tensors, joint)[0]

        def swapped(tensors):
            """The list comes first, then the handle: `return log, handle`."""
            return logged(tensors, joint)[::-1]

        def no_root(tensors):
            """You added up the squares and took no root. The norm is the square root of their sum."""
            return logged(tensors, lambda grads: joint(grads) ** 2)

        def one_entry_per_tensor(tensors):
            """Your log has one entry for each tensor and pass, so each tensor has a hook of its own. One joint hook for
            all of them, `register_multi_grad_hook`, is called once for each pass.
            """
            log = []
            handles = [t.register_hook(lambda grad: log.append(grad.norm().item())) for t in tensors]
            return log, SimpleNamespace(remove=lambda: [handle.remove() for handle in handles])

        def first_tensor_only(tensors):
            """Each entry is the norm of one tensor alone. Wait for all of them: with `mode='any'` the joint hook gets
            only the first gradient that arrives; the default mode gets the list of all.
            """
            return logged(tensors, lambda grad: grad.norm().item(), mode="any")

        def sum_of_norms(tensors):
            """You added up the norms. The joint norm is the norm of the norms: the square root of the sum of their
            squares.
            """
            return logged(tensors, lambda grads: sum(grad.norm().item() for grad in grads))

        def skipped_zeros(tensors):
            """A pass in which all gradients are zero has no entry. Zeros that arrive are gradients, too: only a tensor
            that the pass does not reach has `None` in the list.
            """
            return logged(tensors, lambda grads: joint(grads) or None)

        def reads_dot_grad(tensors):
            """You read `.grad`, which adds up over passes and is only written after the hook. Use the gradients that
            the hook receives.
            """
            return logged(tensors, lambda grads: joint([t.grad for t in tensors if t.is_leaf and t.grad is not None]))

        def unused_is_none(tensors):
            """Your hook met a `None`. In the list of gradients, a tensor that this pass did not reach has `None`, and
            its `.grad` may be `None`, too. Use the gradients that the hook receives, and skip `None`.
            """
            log = []
            return log, register_multi_grad_hook(tensors, lambda grads: log.append(joint(grads)))

        def only_when_all_are_reached(tensors):
            """A pass that reaches only some of the tensors has no entry. It appends one, too: the norm of the gradients
            that are not `None`.
            """
            return logged(tensors, lambda grads: joint(grads) if len(grads) == len(tensors) else None)

        def only_when_all_are_reached__2(tensors):
            log, squares = [], []

            def hook(grad):
                squares.append(grad.square().sum().item())
                if len(squares) == len(tensors):
                    log.append(sum(squares) ** 0.5)
                    squares.clear()

            handles = [t.register_hook(hook) for t in tensors]
            return log, SimpleNamespace(remove=lambda: [handle.remove() for handle in handles])

        def state_of_an_aborted_pass(tensors):
            """In a pass that an exception stopped, your hooks kept something, and the next pass used it. One joint hook
            for all tensors, `register_multi_grad_hook`, does not need to keep anything.
            """
            log, squares = [], []

            def finish():
                log.append(sum(squares) ** 0.5)
                squares.clear()

            def hook(grad):
                if not squares:
                    torch.autograd.Variable._execution_engine.queue_callback(finish)
                squares.append(grad.square().sum().item())

            handles = [t.register_hook(hook) for t in tensors]
            return log, SimpleNamespace(remove=lambda: [handle.remove() for handle in handles])

        def another_norm(tensors):
            """You logged another number than the L2 norm: the root of the *sum* of the squares of all entries, not of
            their mean, not the sum of their absolute values, and not the largest of the norms.
            """
            return logged(
                tensors, lambda grads: torch.cat([grad.flatten() for grad in grads]).square().mean().sqrt().item()
            )

        def another_norm__2(tensors):
            return logged(tensors, lambda grads: sum(grad.abs().sum().item() for grad in grads))

        def another_norm__3(tensors):
            return logged(tensors, lambda grads: max(grad.norm().item() for grad in grads))

        def squared_sums(tensors):
            """You squared the sum of each gradient. Square each entry, and then add up: `grad.square().sum()`."""
            return logged(tensors, lambda grads: sum(grad.sum().item() ** 2 for grad in grads) ** 0.5)

        def copied_the_log(tensors):
            """The list that you return stays empty: it is a copy, and your hook appends to another one. Return the list
            itself.
            """
            log, handle = logged(tensors, joint)
            return list(log), handle
