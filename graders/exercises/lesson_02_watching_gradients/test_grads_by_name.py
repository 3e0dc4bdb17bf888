"""Exercise 02-grads-by-name."""

import contextlib
import functools

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import one_pass, passes


@exercise(
    "02-grads-by-name",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="Gradients by name",
    hints=(
        "Register one hook for each name; the hook writes the gradient into a dict under that name.",
        "Mind the loop variable: a hook runs long after the loop has ended. Bind the name with a default argument.",
        "Call `remove()` on every handle in a `finally` block, so that it also happens when `backward()` raises.",
    ),
    why=(
        "The hook of a tensor is called only if the gradient reaches it, so the names of the others stay out all by "
        "themselves. `name=name` binds each name at once; `functools.partial` does that, too, and an `ExitStack` can "
        "take the place of `try` and `finally`."
    ),
    scene=stories(
        promises={
            "every reached tensor has its gradient": (one_pass.gradients_of_three, one_pass.gradients_by_name),
            "backward runs once and leaves accumulate": one_pass.one_backward,
            "another call starts afresh": one_pass.NAMED_AFRESH,
            "every gradient is a copy": one_pass.named_copies,
            "an exception comes through and nothing is left": one_pass.a_hook_raises,
            "nothing else changes": one_pass.nothing_else_named,
        },
        axes={axis: values for axis, values in passes.LEAF.items() if axis != "raised_in"},
        impossible=passes.IMPOSSIBLE,
    ),
)
class TestGradsByName:
    """Write `grads_by_name(tensors, loss)`. `tensors` is a dict from names to tensors. Run `loss.backward()` once, and
    return a dict from names to gradients, for those tensors that the gradient reached. The names of the others are
    absent.

    **Example.**

    >>> b = torch.tensor([3.0], requires_grad=True)
    >>> c = b * b
    >>> grads_by_name({"b": b, "c": c}, c.sum())
    {'b': tensor([6.]), 'c': tensor([1.])}

    **Fine print.** All tensors require grad; they may be leaves or not, perhaps `loss` itself, or one under two names.
    A gradient of zeros is a gradient, too. Each gradient is a copy of its own, taken after the hooks that were already
    on the tensor. `backward()` gets no arguments. Leaves accumulate their `.grad` as usual; no other tensor gets one,
    except where the caller asked for it with `retain_grad()`.
    """

    def reference(tensors, loss):
        found = {}
        with contextlib.ExitStack() as stack:
            for name, t in tensors.items():
                keep = lambda grad, name=name: found.update({name: grad.detach().clone()})  # noqa: E731
                stack.enter_context(torch.autograd.graph.register_multi_grad_hook([t], keep, mode="any"))
            loss.backward()
        return found

    class Mistakes:
        def late_binding(tensors, loss):
            grads = {}
            with contextlib.ExitStack() as stack:
                for name, t in tensors.items():
                    stack.enter_context(t.register_hook(lambda grad: grads.update({name: grad.clone()})))  # noqa: B023
                loss.backward()
            return grads

        def dot_grad_on_non_leaf(tensors, loss):
            """You read `.grad`. That of a leaf also holds what earlier passes left, which is not yours to clear, and
            `retain_grad()` on the caller's tensors cannot be undone. A hook hands you the gradient of this pass, and
            leaves nothing behind.
            """
            return retaining(tensors, loss)

        def dot_grad_on_non_leaf__2(tensors, loss):
            for t in tensors.values():
                t.grad = None
            return retaining(tensors, loss)

        def in_order_of_arrival(tensors, loss):
            """You put names and gradients together in the order in which the gradients arrived. `backward()` begins
            at the loss, and never gets to some tensors: let each hook write under its own name.
            """
            return dict(zip(tensors, hooked(tensors, loss).values()))

        def a_key_for_everybody(tensors, loss):
            """Your dict has an entry for a tensor that no gradient reached. Its name should not be there: let the hook
            make the entry.
            """
            return {**dict.fromkeys(tensors), **hooked(tensors, loss)}

        def stored_alias(tensors, loss):
            """An entry shares its memory: with the gradient itself, or with the entry of another name for the same
            tensor. Copy once for each name: `grad.detach().clone()`.
            """
            return hooked(tensors, loss, keep=lambda grad: grad)

        def stored_alias__2(tensors, loss):
            grads = hooked({id(t): t for t in tensors.values()}, loss)
            return {name: grads[id(t)] for name, t in tensors.items() if id(t) in grads}

        def zeros_left_out(tensors, loss):
            return {name: grad for name, grad in hooked(tensors, loss).items() if grad.any()}

        def loss_is_one(tensors, loss):
            """For `loss` itself you put down 1, but the caller's hooks on `loss` may have changed that. Hook it like
            the others.
            """
            grads = hooked(tensors, loss)
            return {name: torch.ones_like(loss) if tensors[name] is loss else grads[name] for name in grads}

        def never_accumulated(tensors, loss):
            """You ran `torch.autograd.grad`. It fills no `.grad`, and for `loss` it returns 1, whatever the caller's
            hooks on `loss` make of it. Run `loss.backward()`, with a hook on each tensor.
            """
            grads = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True)
            return {name: grad.clone() for name, grad in zip(tensors, grads) if grad is not None}

        def only_leaves_with_a_name(tensors, loss):
            """A leaf in `loss` that has no name in `tensors` got no `.grad`. `loss.backward()` without arguments
            fills that of every leaf: leave out `inputs=`.
            """
            return hooked(tensors, loss, inputs=[t for t in tensors.values() if t.is_leaf])

        def hook_left_behind(tensors, loss):
            return hooked(tensors, loss, left=True)

        def one_name_for_a_tensor(tensors, loss):
            """A name is missing: a tensor may be there under two names, and a dict whose keys are the tensors keeps
            only one of them. Go through `tensors.items()`.
            """
            return hooked({name: t for t, name in {t: name for name, t in tensors.items()}.items()}, loss)

        def more_than_one_pass(tensors, loss):
            """You ran more than one pass, so leaves get their gradient more than once, and the caller's hooks run
            again. Register all hooks first, run `loss.backward()` once, and then remove them.
            """
            grads = {}
            for name, t in tensors.items():
                with t.register_hook(lambda grad, name=name: grads.update({name: grad.clone()})):
                    loss.backward(retain_graph=True)
            return grads

        def more_than_one_pass__2(tensors, loss):
            grads = torch.autograd.grad(loss, list(tensors.values()), retain_graph=True, allow_unused=True)
            loss.backward()
            return {name: grad.clone() for name, grad in zip(tensors, grads) if grad is not None}

        def dot_grad_of_leaves(tensors, loss):
            """For leaves you return `.grad`, the total of all passes: it may have held something before. Hook leaves,
            too: a hook is given the gradient of this pass alone.
            """
            grads = hooked(tensors, loss)
            return {
                name: t.grad.clone() if t.is_leaf else grads[name]
                for name, t in tensors.items()
                if name in grads or (t.is_leaf and t.grad is not None)
            }

        def returned_the_copy(tensors, loss):
            """Your hook returned its copy, and what a hook returns flows on: now others write into your entry. Return
            nothing.
            """
            return hooked(tensors, loss, flows=lambda kept: kept)

        def hooked_too_late(tensors, loss):
            """No hook of yours ran. Hooks have to be on the tensors while `loss.backward()` runs: register them before
            it, and remove them after it.
            """
            loss.backward()
            return {}

        def graph_not_freed(tensors, loss):
            """Your pass keeps the graph alive: leave out `retain_graph=True`. One `loss.backward()` is all it takes."""
            return hooked(tensors, loss, retain_graph=True)


def retaining(tensors, loss):
    """What is in `.grad` after a pass in which all tensors retain their gradient."""
    for t in tensors.values():
        t.retain_grad()
    loss.backward()
    return {name: t.grad.clone() for name, t in tensors.items() if t.grad is not None}


def hooked(tensors, loss, keep=torch.clone, left=False, flows=lambda kept: None, **how):
    """The right dict, unless something is done in another way; with `left`, the hooks are not removed."""
    grads = {}

    def hook(grad, name):
        grads[name] = keep(grad)
        return flows(grads[name])

    with contextlib.ExitStack() as stack:
        for name, t in tensors.items():
            handle = t.register_hook(functools.partial(hook, name=name))
            left or stack.enter_context(handle)
        loss.backward(**how)
    return grads
