"""Exercise 03-clip-and-log."""

import torch

from graders.exercises.authoring import exercise, no_graph_for_zeros
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_hooks as hooks
from graders.scenes.stories import gradient_logs as logs


@exercise(
    "03-clip-and-log",
    points=2,
    minutes=20,
    difficulty=2,
    title="Clip, and log before and after",
    hints=(
        "One hook can do both: it receives the raw gradient, and it makes the clipped one.",
        "With two hooks the order of registration matters: the one that logs the raw gradient has to come first.",
        "Store copies in the dict that you returned, and return the clipped gradient itself, not the copy: the copy "
        "has no graph, and a pass with `create_graph=True` needs one.",
    ),
    why=(
        "One hook has both gradients in hand, so nothing depends on the order of hooks. The log gets copies "
        "without a graph, while the gradient that goes on keeps its own; three hooks in the right order would do "
        "as well."
    ),
    scene=stories(
        promises={
            "the clipped gradient goes on": hooks.changed_in_a_pass,
            "the dict is empty at first and holds both gradients of each pass": logs.logged_in_each_pass,
            "each pass is clipped by itself": hooks.EVERY_PASS,
            "the gradient can be differentiated again": hooks.differentiated_again,
            "any tensor and several at a time": (hooks.several_at_a_time, logs.logged_by_each_call),
            "the entries are copies without a graph": logs.COPIES,
            "nothing else changes": hooks.NOTHING_ELSE,
        },
        axes={**hooks.TENSOR, **hooks.BOUNDS},
        impossible=hooks.IMPOSSIBLE,
        arguments=hooks.two_bounds,
    ),
)
class TestClipAndLog:
    """Write `clip_and_log(t, lo, hi)`, which returns a new, empty dict at once. From then on, each backward pass clamps
    the gradient at `t` to the range from `lo` to `hi` before it goes on, and stores both in the dict: `"raw"` as it
    arrived, and `"clipped"`.

    **Example.**

    >>> w = torch.tensor([1.0, 1.0], requires_grad=True)
    >>> log = clip_and_log(w, -1.0, 2.0)
    >>> (torch.tensor([0.5, 7.0]) * w).sum().backward()
    >>> log["raw"], log["clipped"], w.grad
    (tensor([0.5000, 7.0000]), tensor([0.5000, 2.0000]), tensor([0.5000, 2.0000]))

    **Fine print.** `t` requires grad and may be a leaf or not; `lo < hi`. Each pass stores new copies, each with
    memory of its own and without a graph, even in a pass with `create_graph=True`; the gradient that goes on keeps its
    graph there. Hooks that are already on `t` come before yours, later ones after. Your hooks stay for good, even when
    the caller has thrown the dict away.
    """

    def reference(t, lo, hi):
        return logging(t, lambda grad: grad.clamp(lo, hi))

    may_differ = {"the gradient differentiated": no_graph_for_zeros}

    class Mistakes:
        def logged_after_clip(t, lo, hi):
            """Your raw log runs after the clipping hook, so it records the clipped gradient. Log before you clip."""
            log = {}
            t.register_hook(lambda grad: grad.clamp(lo, hi))
            t.register_hook(lambda grad: log.update(raw=grad.detach().clone(), clipped=grad.detach().clone()))
            return log

        def forgot_return(t, lo, hi):
            """Your log is right, but the gradient went on unclipped. A hook changes a gradient only by returning the
            new one, in every pass, even when the caller has thrown the dict away.
            """
            log = {}
            t.register_hook(lambda grad: log.update(raw=grad.detach().clone(), clipped=grad.detach().clamp(lo, hi)))
            return log

        def in_place_leak(t, lo, hi):
            return logging(t, lambda grad: grad.clamp_(lo, hi))

        def cut_off_graph(t, lo, hi):
            return logging(t, lambda grad: grad.detach().clamp(lo, hi))

        def hooked_a_copy(t, lo, hi):
            return logging(t * 1, lambda grad: grad.clamp(lo, hi))

        def another_dict(t, lo, hi):
            """The dict that you returned stays empty. In a hook, `log = {...}` makes a new one, which the caller does
            not see: change the entries of that very dict.
            """
            logging(t, lambda grad: grad.clamp(lo, hi))
            return {}

        def stored_alias(t, lo, hi):
            """The numbers are right, but an entry of your log is not a copy: it shares its memory with a tensor that
            others may write into, or the next pass writes into it. Store `grad.detach().clone()` in every pass.
            """
            log = {}

            def hook(grad):
                log["raw"], log["clipped"] = grad, grad.clamp(lo, hi)
                return log["clipped"]

            t.register_hook(hook)
            return log

        def stored_alias__2(t, lo, hi):
            log = {}

            def hook(grad):
                clipped = grad.clamp(lo, hi)
                log["raw"] = grad.detach().clone()
                log["clipped"] = log["raw"] if grad.equal(clipped) else clipped.detach().clone()
                return clipped

            t.register_hook(hook)
            return log

        def stored_alias__3(t, lo, hi):
            log = {}

            def hook(grad):
                clipped = grad.clamp(lo, hi)
                for key, value in (("raw", grad), ("clipped", clipped)):
                    log.setdefault(key, torch.empty_like(grad)).copy_(value.detach())
                return clipped

            t.register_hook(hook)
            return log

        def stored_alias__4(t, lo, hi):
            log = {}

            def hook(grad):
                log["raw"], log["clipped"] = grad.detach().clone(), grad.clamp(lo, hi)
                return log["clipped"]

            t.register_hook(hook)
            return log

        def stored_alias__5(t, lo, hi):
            log = {}

            def hook(grad):
                clipped = grad.clamp(lo, hi)
                log["raw"], log["clipped"] = grad.detach().clone(), clipped.detach()
                return clipped

            t.register_hook(hook)
            return log

        def one_bound_only(t, lo, hi):
            return logging(t, lambda grad: grad.clamp(max=hi))

        def one_bound_only__2(t, lo, hi):
            return logging(t, lambda grad: grad.clamp(lo or None, hi or None))

        def entries_of_all_passes(t, lo, hi):
            """Your dict has lists in it. It is empty at first, and then each entry is one tensor: that of the latest
            pass.
            """
            log = {"raw": [], "clipped": []}

            def hook(grad):
                clipped = grad.clamp(lo, hi)
                log["raw"].append(grad.detach().clone())
                log["clipped"].append(clipped.detach().clone())
                return clipped

            t.register_hook(hook)
            return log

        def not_empty_at_first(t, lo, hi):
            """Your dict has its two keys from the start, and it should be empty then. Return `{}`, and let the first
            pass make both entries.
            """
            log = logging(t, lambda grad: grad.clamp(lo, hi))
            log.update(raw=None, clipped=None)
            return log

        def not_in_every_pass(t, lo, hi):
            """Your log does not have the latest pass. Store both entries in every pass, also when nothing had to be
            clipped, and in place of those of the pass before.
            """
            log = {}

            def hook(grad):
                clipped = grad.clamp(lo, hi)
                if not clipped.equal(grad):
                    log.update(raw=grad.detach().clone(), clipped=clipped.detach().clone())
                return clipped

            t.register_hook(hook)
            return log

        def not_in_every_pass__2(t, lo, hi):
            log = logging(t, lambda grad: grad.clamp(lo, hi))
            first = {}
            t.register_hook(lambda grad: log.update(first or first.update(log) or log))
            return log

        def reads_dot_grad(t, lo, hi):
            log = {}

            def hook(grad):
                log.update(raw=grad.detach().clone(), clipped=t.grad)
                return grad.clamp(lo, hi)

            t.register_hook(hook)
            return log


def logging(t, clip):
    """The log of three hooks, of which the second one clips."""
    log = {}
    t.register_hook(lambda grad: log.update(raw=grad.detach().clone()))
    t.register_hook(clip)
    t.register_hook(lambda grad: log.update(clipped=grad.detach().clone()))
    return log
