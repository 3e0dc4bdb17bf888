"""Exercise 02-record-grad."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_hooks as hooks
from graders.scenes.stories import watching_gradients as watching


@exercise(
    "02-record-grad",
    points=1,
    minutes=5,
    difficulty=1,
    core=True,
    title="Record every gradient that arrives",
    hints=(
        "Register a hook on `t` with `t.register_hook(fn)`. The hook receives the gradient and may simply append it.",
        "A hook that returns `None` changes nothing, and `list.append` returns `None`.",
        "Store a copy without a graph, `grad.detach().clone()`, and return the handle that `register_hook` gave you.",
    ),
    why=(
        "`append` returns `None`, so the hook changes nothing, and the copy stays as it is when somebody writes "
        "into the gradient later. A named function or an object with `__call__` would do as well, as long as it "
        "returns `None` or the same gradient."
    ),
    scene=stories(
        promises={
            "every gradient is recorded": (watching.recorded_in_each_pass, watching.recorded_for_all_gradients),
            "before any pass the list stays as it is": watching.at_the_start,
            "every call records on its own": (watching.each_by_itself, watching.recorded_under_no_grad),
            "entries are copies without a graph": watching.COPIES,
            "gradients flow on unchanged": (*hooks.EVERY_PASS, hooks.differentiated_again),
            "nothing else changes": hooks.NOTHING_ELSE,
            "the handle removes its hook and no other": watching.removed_by_handles,
        },
        axes=hooks.TENSOR,
        impossible=hooks.IMPOSSIBLE,
        arguments=watching.a_store,
        watch=watching.into_a_list,
    ),
)
class TestRecordGrad:
    """Write `record_grad(t, store)`: from now on, every backward pass appends the gradient that arrives at the tensor
    `t` to the list `store`, as a copy without a graph. Return the handle: after `handle.remove()` nothing is appended
    any more.

    **Example.**

    >>> y, store = torch.tensor([2.0], requires_grad=True), []
    >>> handle = record_grad(y, store)
    >>> (y * y).sum().backward()
    >>> store
    [tensor([4.])]

    **Fine print.** `t` requires grad, and may be a leaf or not. If there were hooks on `t` before, an entry is the
    gradient as they left it. A gradient of zeros is a gradient, too. The gradients that flow through `t` stay as they
    are, and so do the entries that `store` already has. Every pass counts, even `torch.autograd.grad`, and one with
    `create_graph=True`.
    """

    def reference(t, store):
        keep = lambda grad: store.append(grad.detach().clone())  # noqa: E731
        return torch.autograd.graph.register_multi_grad_hook((t,), keep, mode="any")

    class Mistakes:
        def stored_alias(t, store):
            """You stored the gradient without a copy: `detach()` shares its memory, into which a later pass or another
            hook may write. Store `grad.detach().clone()`, in the hook.
            """
            return t.register_hook(lambda grad: store.append(grad.detach()))

        def no_copy(t, store):
            """You stored the gradient itself: a later hook may overwrite it, and with `create_graph=True` it keeps a
            graph alive. Store a copy: `grad.detach().clone()`.
            """
            return t.register_hook(lambda grad: store.append(grad))

        def returned_the_copy(t, store):
            """Your hook returned its copy, and what a hook returns flows on instead of the gradient: without its
            graph, and in memory that others may overwrite. Return nothing.
            """
            return t.register_hook(lambda grad: store.append(grad.detach().clone()) or store[-1])

        def returned_the_copy__2(t, store):
            return t.register_hook(lambda grad: store.append(grad.detach().clone()) or grad.detach())

        def reads_dot_grad(t, store):
            t.retain_grad()
            return t.register_hook(lambda grad: store.append(t.grad.clone()))

        def accumulated_grad(t, store):
            return t.register_hook(lambda grad: store.append((0 if t.grad is None else t.grad) + grad.detach()))

        def hooked_a_copy(t, store):
            with t.register_hook(lambda grad: store.append(grad.detach().clone())) as handle:
                return handle

        def only_the_last(t, store):
            """An entry that `store` already had is gone. Append to that very list, and change nothing else in it."""
            return t.register_hook(lambda grad: store.__setitem__(slice(None), [grad.detach().clone()]))

        def only_the_last__2(t, store):
            entries = []
            return t.register_hook(
                lambda grad: store.__setitem__(slice(None), entries.append(grad.detach().clone()) or entries)
            )

        def zeros_left_out(t, store):
            return t.register_hook(lambda grad: store.append(grad.detach().clone()) if grad.any() else None)
