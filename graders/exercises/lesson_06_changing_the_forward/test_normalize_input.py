"""Exercise 06-normalize-input."""

import torch

from graders.exercises.authoring import a_hook_for_all, exercise
from graders.scenes.scene import stories
from graders.scenes.stories import changed_calls as calls


@exercise(
    "06-normalize-input",
    points=2,
    minutes=15,
    difficulty=2,
    title="Normalise what goes in",
    hints=(
        "A forward pre-hook receives `(module, args)`, before `forward` runs. `args` is a tuple, even with one entry.",
        "Return a tuple: it becomes the new positional arguments, all of them.",
        "Put the other arguments back: `return ((args[0] - mean) / std, *args[1:])`.",
    ),
    why=(
        "A pre-hook returns all positional arguments anew, so those behind the first are put back with "
        "`*args[1:]`. One that is registered with `with_kwargs=True` would do as well: it returns the tuple and "
        "the keyword arguments."
    ),
    scene=stories(
        promises={
            "the first argument is normalised": calls.CHANGED_IN_ANY_LAYER,
            "gradients flow through the normalisation": calls.FLOWS,
            "the other arguments arrive as they were passed": calls.arrives,
            "two hooks normalise one after the other": (calls.several_at_a_time, calls.equal_calls),
            "only this module is changed": calls.other_modules,
            "nothing else changes": calls.nothing_else,
            "an exception comes through and changes nothing": calls.forward_raises,
            "any tensor will do": calls.views,
            "each handle removes its own hook": calls.removed_by_handles,
        },
        axes={**calls.CALLS, **calls.MEAN},
        register=calls.normalised,
        again=calls.normalised,
        numbers=(1.7, 0.6),
    ),
)
class TestNormalizeInput:
    """Write `normalize_input(module, mean, std)`: from now on, in every call of `module`, the first positional argument
    `a` reaches `forward` as `(a - mean) / std`, and gradients flow back through this to the caller's tensor. Return the
    handle: after `handle.remove()` the module gets its arguments unchanged again.

    **Example.**

    >>> module = nn.Bilinear(1, 1, 1, bias=False)
    >>> _ = nn.init.ones_(module.weight)  # now it multiplies its two inputs
    >>> handle = normalize_input(module, 1.0, 2.0)
    >>> module(torch.tensor([5.0]), torch.tensor([3.0])).detach()  # (5 - 1) / 2 * 3
    tensor([6.])

    **Fine print.** `a` is a floating-point tensor, and there is always one; its dtype stays. `mean` and `std` are two
    numbers; `std` is not 0. All other arguments, including those by keyword, reach `forward` as the caller passed them:
    the same objects. After two calls of your function on one module both normalise, in either order. Other pre-hooks of
    the module may come before or after yours.
    """

    def reference(module, mean, std):
        def hook(module, args, kwargs):
            return (args[0].sub(mean).div(std), *args[1:]), kwargs

        return module.register_forward_pre_hook(hook, with_kwargs=True)

    def reference_first(module, mean, std):
        return module.register_forward_pre_hook(lambda module, args: ((args[0] - mean) / std, *args[1:]), prepend=True)

    # A hook for all modules will do if it leaves the calls of others alone.
    may_differ = {"by the call": a_hook_for_all, "by calls of the module": a_hook_for_all, "by a call": a_hook_for_all}

    class Mistakes:
        def dropped_arguments(module, mean, std):
            """Some of the caller's positional arguments are lost. What a pre-hook returns replaces all of them, and a
            bare tensor becomes the only one. Return `(new, *args[1:])`.
            """
            return module.register_forward_pre_hook(lambda module, args: (args[0] - mean) / std)

        def changed_callers_tensor(module, mean, std):
            """The caller's own tensor has changed: `args[0]` *is* that tensor, and you edited it in place. Compute a
            new tensor.
            """
            return module.register_forward_pre_hook(lambda module, args: (args[0].sub_(mean).div_(std), *args[1:]))

        def returned_a_list(module, mean, std):
            """Your pre-hook returned a list. Only a tuple counts as the new arguments; a list is passed on as *one*
            argument. Return a tuple.
            """
            return module.register_forward_pre_hook(lambda module, args: [(args[0] - mean) / std, *args[1:]])

        def tuple_not_tensor(module, mean, std):
            """`args` is the tuple of all positional arguments, not a tensor, and a tuple cannot be changed. Compute
            with `args[0]` and return a new tuple.
            """
            return module.register_forward_pre_hook(lambda module, args: (args - mean) / std)

        def changed_the_output(module, mean, std):
            """You normalised what comes out of the module. The task is about what goes in: register a forward
            *pre*-hook.
            """
            return module.register_forward_hook(lambda module, args, output: (output - mean) / std)

        def forgot_return(module, mean, std):
            def hook(module, args):
                args = ((args[0] - mean) / std, *args[1:])

            return module.register_forward_pre_hook(hook)

        def cut_the_graph(module, mean, std):
            return module.register_forward_pre_hook(lambda module, args: ((args[0].detach() - mean) / std, *args[1:]))

        def no_handle(module, mean, std):
            module.register_forward_pre_hook(lambda module, args: ((args[0] - mean) / std, *args[1:]))

        def precedence(module, mean, std):
            """`/` comes before `-`: only the mean was divided. Put the difference in parentheses."""
            return module.register_forward_pre_hook(lambda module, args: (args[0] - mean / std, *args[1:]))

        def multiplied_by_std(module, mean, std):
            """You multiplied by `std`. Divide by it: `(a - mean) / std`."""
            return module.register_forward_pre_hook(lambda module, args: ((args[0] - mean) * std, *args[1:]))

        def shaped_for_images(module, mean, std):
            """You gave `mean` and `std` three dimensions, as for images, so an input with fewer gets new ones. Both are
            numbers: `(a - mean) / std` works for every shape.
            """

            def hook(module, args):
                center, width = (torch.tensor(number, dtype=args[0].dtype).view(-1, 1, 1) for number in (mean, std))
                return (args[0] - center) / width, *args[1:]

            return module.register_forward_pre_hook(hook)

        def own_statistics(module, mean, std):
            """You used mean and standard deviation of the input itself. Use those that your function is given."""

            def hook(module, args):
                return (args[0] - args[0].mean()) / args[0].std(), *args[1:]

            return module.register_forward_pre_hook(hook)

        def nested_arguments(module, mean, std):
            """The other arguments stand in a tuple of their own: `args[1:]` is one. Unpack it: `(new, *args[1:])`."""
            return module.register_forward_pre_hook(lambda module, args: ((args[0] - mean) / std, args[1:]))

        def every_argument(module, mean, std):
            """You normalised other arguments, too. Only the first is meant: `((args[0] - mean) / std, *args[1:])`."""

            def hook(module, args):
                return tuple((a - mean) / std if isinstance(a, torch.Tensor) else a for a in args)

            return module.register_forward_pre_hook(hook)

        def every_argument__2(module, mean, std):
            return module.register_forward_pre_hook(lambda module, args: tuple((a - mean) / std for a in args))

        def every_argument__3(module, mean, std):
            return module.register_forward_pre_hook(
                lambda module, args: tuple((a - mean) / std if a is args[0] else a for a in args)
            )

        def keywords_lost(module, mean, std):
            """The caller's keyword arguments are lost: the dict that you return takes their place. Return `kwargs` as
            they came.
            """
            return module.register_forward_pre_hook(
                lambda module, args, kwargs: (((args[0] - mean) / std, *args[1:]), {}), with_kwargs=True
            )

        def keywords_left_out(module, mean, std):
            """With `with_kwargs=True` a pre-hook has to return both: `return new_args, kwargs`."""

            def hook(module, args, kwargs):
                return (args[0] - mean) / std, *args[1:]

            return module.register_forward_pre_hook(hook, with_kwargs=True)
