"""Exercise 04-pass-and-total-norms."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_hooks as hooks
from graders.scenes.stories import total_norms as norms
from graders.scenes.stories import watching_gradients as watching


@exercise(
    "04-pass-and-total-norms",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="This pass and the total",
    hints=(
        "You need two kinds of hook on `p`: one that sees the gradient of this pass, and one that runs when `.grad` "
        "holds the new total.",
        "`register_hook` gives you the gradient of this pass; `.grad` is still the old one then. A hook that was "
        "registered with `register_post_accumulate_grad_hook` receives `p` itself, and `p.grad` is the new total.",
        "The order takes care of itself: in every backward pass the tensor hook runs first. Both hooks append to the "
        "same list. `.item()` turns a norm into a Python float.",
    ),
    why=(
        "A tensor hook sees the gradient of this pass, and a post-accumulate-grad hook runs once the total is in "
        "`.grad`, so the two lines come in the right order by themselves. The second hook alone could append both, if "
        "the first one leaves the gradient for it."
    ),
    scene=stories(
        promises={
            "each pass appends its own norm and that of the total": watching.recorded_in_each_pass,
            "the list is empty at first": watching.at_the_start,
            "every pass counts": norms.recorded_for_all_passes,
            "the total follows when the caller clears it": norms.cleared_by_the_caller,
            "each call has a list of its own": watching.each_by_itself,
            "the total is what a later hook left": norms.changed_by_a_later_hook,
            "gradients flow on unchanged": norms.nothing_changed,
        },
        axes=norms.LEAF,
        impossible=hooks.IMPOSSIBLE,
        watch=watching.own_record,
    ),
)
class TestPassAndTotalNorms:
    """Write `pass_and_total_norms(p)` for a leaf `p`. Return an empty list at once. From then on each `backward()`
    through `p` appends two tuples to it: `("pass", norm)` with the norm of the gradient of this pass, and
    `("total", norm)` with the norm of `p.grad` after it.

    **Example.**

    >>> p = torch.zeros(2, requires_grad=True)
    >>> log = pass_and_total_norms(p)
    >>> (torch.tensor([3.0, 4.0]) * p).sum().backward()
    >>> (torch.tensor([3.0, 4.0]) * p).sum().backward()
    >>> log
    [('pass', 5.0), ('total', 5.0), ('pass', 5.0), ('total', 10.0)]

    **Fine print.** A norm is what `t.norm().item()` gives: the L2 norm over all elements, as a Python float. Your hooks
    stay for good, and change no gradient. Each call returns a list of its own. Between two passes the caller may set
    `p.grad` to `None`, or to another tensor. `"pass"` is what arrives at your hook: if a hook that was registered later
    changes the gradient, only the total shows it. Nobody calls `torch.autograd.grad`.
    """

    def reference(p):
        log, last = [], []
        p.register_hook(lambda grad: last.append(grad.detach().square().sum().sqrt().item()))

        @p.register_post_accumulate_grad_hook
        def after(q):
            log.extend([("pass", last.pop()), ("total", q.grad.detach().square().sum().sqrt().item())])

        return log

    class Mistakes:
        def reads_dot_grad_too_early(p):
            """In a tensor hook, `.grad` is still the old one, or `None`: it is written after all tensor hooks have run.
            Take the norm of this pass from what the hook is given, and read `.grad` in a post-accumulate-grad hook.
            """
            return logged(p, lambda grad: [pass_line(grad), total(p.grad)])

        def reads_dot_grad_too_early__2(p):
            return logged(p, lambda grad: [pass_line(grad), total(0 * grad if p.grad is None else p.grad)])

        def reads_dot_grad_too_early__3(p):
            return logged(
                p, lambda grad: [pass_line(0 * grad if p.grad is None else p.grad)], lambda grad: [total(grad)]
            )

        def pass_is_not_total(p):
            """Your total is the norm of this pass once more. The total is what `p.grad` holds after the pass: the sum
            over all passes since it was last cleared.
            """
            return logged(p, lambda grad: [pass_line(grad), total(grad)])

        def norms_added(p):
            """Your total is the sum of the norms of all passes. Gradients add up, but their norms do not: take the norm
            of `p.grad`, which holds the sum.
            """
            norms = []

            def arriving(grad):
                norms.append(grad.norm().item())
                return [pass_line(grad), ("total", sum(norms))]

            return logged(p, arriving)

        def returned_a_value(p):
            log = []
            p.register_hook(lambda grad: log.append(pass_line(grad)))
            p.register_post_accumulate_grad_hook(lambda q: log.append(total(q.grad)) or log)
            return log

        def accumulated_grad(p):
            """Both of your norms are those of `.grad`, the total. The gradient of this pass alone is what a tensor hook
            is given: `p.register_hook`.
            """
            return logged(p, lambda grad: [], lambda grad: [pass_line(grad), total(grad)])

        def total_before_later_hooks(p):
            """A hook that the caller registered after yours changed the gradient, and your total missed that. Read
            `p.grad` once it has been written: in a post-accumulate-grad hook.
            """
            return logged(p, lambda grad: [pass_line(grad), total(grad if p.grad is None else grad + p.grad)])

        def took_values_for_a_gradient(p):
            log = []
            p.register_hook(lambda grad: log.append(pass_line(grad)))
            p.register_post_accumulate_grad_hook(lambda q: log.append(total(q)))
            return log

        def difference_to_the_last(p):
            """You take the gradient of a pass as the difference to the total before. Between two passes the caller may
            set `p.grad` to something else, and beside a large total a small gradient is rounded away. A hook on `p` is
            given the gradient of the pass itself.
            """
            return differences(p, torch.zeros_like(p))

        def difference_to_the_last__2(p):
            return differences(p, torch.zeros_like(p) if p.grad is None else p.grad.clone())

        def own_total(p):
            """You keep a total of your own. Between two passes the caller may set `p.grad` to something else, and it
            may hold something from the start. Read `p.grad` itself, in a post-accumulate-grad hook.
            """
            totals = [torch.zeros_like(p)]

            def arriving(grad):
                totals.append(totals[-1] + grad)
                return [pass_line(grad), total(totals[-1])]

            return logged(p, arriving)

        def cut_off_graph(p):
            """`detach_()` changes `p.grad` itself, which loses the graph of a pass with `create_graph=True`. Use
            `detach()`, without the underscore, or none: `.item()` gives a number in any case.
            """
            return logged(p, lambda grad: [pass_line(grad)], lambda grad: [total(grad.detach_())])

        def hooks_pile_up(p):
            """Your list gets more and more entries with each pass: a hook registers another hook, and that one stays.
            Register each of the two once, outside of all hooks.
            """
            log = []

            def hook(grad):
                log.append(pass_line(grad))
                p.register_post_accumulate_grad_hook(lambda q: log.append(total(q.grad)))

            p.register_hook(hook)
            return log


def pass_line(grad):
    """The line of a pass."""
    return "pass", grad.norm().item()


def total(grad):
    """The line of a total."""
    return "total", grad.norm().item()


def differences(p, before):
    """A list whose passes are the differences between totals."""
    totals = [before]

    def written(grad):
        totals.append(grad.clone())
        return [pass_line(grad - totals[-2]), total(grad)]

    return logged(p, lambda grad: [], written)


def logged(p, arriving, written=lambda grad: []):
    """A list of what one function makes of the gradients of passes, and another one of the totals."""
    log = []
    p.register_hook(lambda grad: log.extend(arriving(grad)))
    p.register_post_accumulate_grad_hook(lambda q: log.extend(written(q.grad)))
    return log
