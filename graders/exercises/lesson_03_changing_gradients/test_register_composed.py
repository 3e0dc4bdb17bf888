"""Exercise 03-register-composed."""

import torch

from graders.exercises.authoring import exercise, no_graph_for_zeros
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_hooks as hooks
from graders.scenes.stories import hook_lists


@exercise(
    "03-register-composed",
    points=2,
    minutes=15,
    difficulty=2,
    title="Compose functions with hooks",
    hints=(
        "In `f(g(x))` the inner function runs first. Which entry of `fs` is the innermost?",
        "Hooks of a tensor run in the order in which they were registered, each on the result of the one before.",
        "Register the functions from the last to the first, and collect the handles. One hook that calls all of them "
        "in that order works as well.",
    ),
    why=(
        "Hooks of a tensor run in the order in which they were registered, each on the result of the one before, "
        "so the last function is registered first. One hook that calls the functions from the last to the first "
        "would do as well, with its handle alone in the list."
    ),
    scene=stories(
        promises={
            "the functions are applied from the last to the first": hooks.changed_in_a_pass,
            "each function is called once for each pass": (hook_lists.called_once_in_each_pass, *hooks.EVERY_PASS),
            "an exception of a function comes through and the next pass is right": hook_lists.functions_may_raise,
            "the gradient can be differentiated again": hooks.differentiated_again,
            "any tensor and several at a time": hooks.several_at_a_time,
            "nothing else changes": hooks.NOTHING_ELSE,
            "the handles remove the hooks and no other": hook_lists.HANDLES_IN_A_LIST,
        },
        axes={**hooks.TENSOR, **hook_lists.FUNCTIONS},
        impossible=hooks.IMPOSSIBLE,
        arguments=hook_lists.some_functions,
    ),
)
class TestRegisterComposed:
    """Write `register_composed(t, fs)`: in every backward pass from now on, the gradient `g` at `t` is replaced by
    `fs[0](fs[1](...fs[-1](g)))`: the last function of the list comes first. Return a list of all handles; when all are
    removed, gradients pass as they are.

    **Example.**

    >>> x = torch.tensor([1.0], requires_grad=True)
    >>> handles = register_composed(x, [lambda g: g + 1, lambda g: g * 10])
    >>> (3 * x).sum().backward()
    >>> x.grad
    tensor([31.])

    **Fine print.** `t` requires grad and may be a leaf or not. `fs` holds one or more functions, each from a tensor to
    a new tensor of the same shape and dtype; a function may be in it twice. Each entry is called once for each pass,
    and never before the first. Hooks that are already on `t` come before yours, later ones after. The list that you
    return holds one or more handles. With `create_graph=True` the new gradient keeps its graph.
    """

    def reference(t, fs):
        def hook(grad):
            for f in reversed(fs):
                grad = f(grad)
            return grad

        return [t.register_hook(hook)]

    may_differ = {"the gradient differentiated": no_graph_for_zeros}

    class Mistakes:
        def registration_order(t, fs):
            """You applied `fs[0]` first. Hooks run in the order in which they were registered, so the innermost
            function, `fs[-1]`, has to be registered first.
            """
            return [t.register_hook(f) for f in fs]

        def late_binding(t, fs):
            """All your hooks call the same function: a lambda reads the loop variable when it runs, and by then it has
            its last value. Register `f` itself, or bind it: `lambda grad, f=f: f(grad)`.
            """
            handles = []
            for f in reversed(fs):
                handles.append(t.register_hook(lambda grad: f(grad)))  # noqa: B023 - the mistake
            return handles

        def forgot_return(t, fs):
            def hook(grad):
                for f in reversed(fs):
                    grad = f(grad)

            return [t.register_hook(hook)]

        def cut_off_graph(t, fs):
            return [t.register_hook(lambda grad, f=f: f(grad.detach())) for f in reversed(fs)]

        def hooked_a_copy(t, fs):
            return [t.view_as(t).register_hook(f) for f in reversed(fs)]

        def a_handle_is_missing(t, fs):
            """The caller removed all handles of your list, and a function is still called. The list needs the handle of
            every hook that you register; a dict whose keys are the functions loses one if a function is in `fs` twice.
            """
            return [t.register_hook(f) for f in reversed(fs)][-1:]

        def a_handle_is_missing__2(t, fs):
            return list({f: t.register_hook(f) for f in reversed(fs)}.values())

        def once_for_each_function(t, fs):
            """A function that is in `fs` twice is called once: a set or a dict has each entry only once. Go through
            `reversed(fs)` itself.
            """
            return [t.register_hook(f) for f in dict.fromkeys(reversed(fs))]

        def called_too_early(t, fs):
            """You called the functions before there was a gradient. Hand them to `register_hook`, or call them in a
            hook of your own.
            """
            for f in fs:
                f(torch.zeros_like(t))
            return [t.register_hook(f) for f in reversed(fs)]

        def changed_the_list(t, fs):
            """Your function changed the caller's list `fs`. `reversed(fs)` and `fs[::-1]` leave it as it is;
            `fs.reverse()` and `fs.pop()` do not.
            """
            fs.reverse()
            return [t.register_hook(f) for f in fs]

        def one_function_only(t, fs):
            """Only one of the functions has an effect. Give each what the one before has returned, `grad = f(grad)`,
            and `return grad` below the loop, not in it.
            """
            return [t.register_hook(fs[-1])]

        def one_function_only__2(t, fs):
            return [t.register_hook(lambda grad: [f(grad) for f in reversed(fs)][-1])]

        def used_up(t, fs):
            """The first pass is right, and in the next ones nothing happens: an iterator, such as `reversed(fs)`, is
            used up after one loop. Make it inside the hook.
            """
            order = reversed(fs)

            def hook(grad):
                for f in order:
                    grad = f(grad)
                return grad

            return [t.register_hook(hook)]

        def registered_too_late(t, fs):
            """No hook is registered while the pass runs: a generator, `(... for f in fs)`, begins only when somebody
            goes through it. Return a list: `[... for f in reversed(fs)]`.
            """
            return (t.register_hook(f) for f in reversed(fs))
