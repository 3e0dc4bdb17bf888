"""Exercise 06-run-first."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import changed_calls as calls
from graders.scenes.stories import first_hooks


@exercise(
    "06-run-first",
    points=1,
    minutes=5,
    difficulty=1,
    title="First in the queue",
    hints=(
        "One keyword argument of `register_forward_hook` is enough.",
        "A pre-hook would be too early: it runs before there is an output.",
        "Leave the other hooks alone. `prepend=True` puts yours in front of them.",
    ),
    why=(
        "`prepend=True` is made for this, and the handle comes with it. Removing the other hooks and registering them "
        "again behind yours would not do: their handles would then belong to hooks that are gone."
    ),
    scene=stories(
        promises={
            "the hook runs before the others": calls.CHANGED_IN_ANY_LAYER,
            "gradients flow through what the hook returns": calls.FLOWS,
            "it is called as any forward hook and once": (
                first_hooks.called_as_a_forward_hook,
                first_hooks.called_inside,
                calls.arrives,
            ),
            "of two such hooks, the later one runs first": calls.several_at_a_time,
            "each handle removes its own hook": (first_hooks.one_takes_away, calls.removed_by_handles),
            "only this module is changed": calls.other_modules,
            "nothing else changes": calls.nothing_else,
            "it is not called when forward raises": (first_hooks.silent_when_forward_raises, calls.forward_raises),
            "what it returns or raises counts as with any forward hook": (
                first_hooks.hooks_return_anything,
                first_hooks.hooks_raise,
            ),
        },
        axes={**calls.CALLS, **first_hooks.HOOK},
        register=first_hooks.first_of_all,
        again=first_hooks.runs_first_again,
    ),
)
class TestRunFirst:
    """Write `run_first(module, hook)`: register the forward hook `hook` on `module` so that, in every call from now on,
    it runs before all forward hooks that `module` has at this moment. Return its handle.

    **Example.**

    >>> module = nn.Identity()
    >>> _ = module.register_forward_hook(lambda module, args, output: output + 1)
    >>> _ = module.register_forward_hook(lambda module, args, output: output * 10)
    >>> handle = run_first(module, lambda module, args, output: output - 5)
    >>> module(torch.tensor(7.0))  # ((7 - 5) + 1) * 10
    tensor(30.)

    **Fine print.** `hook` is called once in each call, as `hook(module, args, output)` with the output itself, and not
    when `forward` raises. What it returns or raises counts as with any forward hook: anything but `None` replaces the
    output, even `False`. The handles of the other hooks still remove them. When `run_first` is used twice, the later
    hook runs before the earlier one.
    """

    def reference(module, hook):
        def first(module, args, output):
            return hook(module, args, output)

        handle = module.register_forward_hook(first)
        module._forward_hooks.move_to_end(handle.id, last=False)
        return handle

    class Mistakes:
        def registration_order(module, hook):
            """Your hook ran last: forward hooks run in the order in which they were registered. `prepend=True` puts
            a hook in front of those that are already there.
            """
            return module.register_forward_hook(hook)

        def removed_others(module, hook):
            """Other hooks of the module are gone, or were registered again and lost their options and handles. Leave
            them as they are: `prepend=True` puts yours in front of them.
            """
            module._forward_hooks.clear()
            return module.register_forward_hook(hook)

        def removed_others__2(module, hook):
            others = list(module._forward_hooks.values())
            module._forward_hooks.clear()
            handle = module.register_forward_hook(hook)
            for other in others:
                module.register_forward_hook(other)
            return handle

        def for_all_modules(module, hook):
            """You registered the hook for all modules: these run before those of a module, in the order of their
            registration. The task asks for one on `module`, with a method of `module`.
            """

            def first(other, args, output):
                return hook(module, args, output) if other is module else None

            return torch.nn.modules.module.register_module_forward_hook(first)

        def wrong_hook_kind(module, hook):
            """You registered a pre-hook. It runs before `forward`, when there is no output yet. The task asks for a
            forward hook that runs before the other forward hooks.
            """
            return module.register_forward_pre_hook(hook)

        def wrong_hook_kind__2(module, hook):
            return module.register_forward_pre_hook(lambda module, args: hook(module, args, args[0]), prepend=True)

        def no_handle(module, hook):
            module.register_forward_hook(hook, prepend=True)

        def result_dropped(module, hook):
            """`hook` is called, and what it returns is lost, so it cannot replace the output: `return hook(...)`."""

            def first(module, args, output):
                hook(module, args, output)

            return module.register_forward_hook(first, prepend=True)

        def falsy_is_nothing(module, hook):
            """What `hook` returns counts unless it is `None`: also `False`, `0` or an empty list. Do not ask `if
            result` or `result or output`: `return hook(...)` is enough.
            """

            def first(module, args, output):
                result = hook(module, args, output)
                return result if isinstance(result, torch.Tensor) or result else None

            return module.register_forward_hook(first, prepend=True)

        def falsy_is_nothing__2(module, hook):
            return module.register_forward_hook(lambda *given: hook(*given) or given[-1], prepend=True)

        def gave_a_copy(module, hook):
            """`hook` gets a copy of the output, or one without a graph. Hand on the output itself, and gradients flow
            through what `hook` makes of it.
            """
            return module.register_forward_hook(
                lambda module, args, output: hook(module, args, output.detach()), prepend=True
            )

        def gave_a_copy__2(module, hook):
            return module.register_forward_hook(
                lambda module, args, output: hook(module, args, output.clone()), prepend=True
            )

        def also_when_it_raises(module, hook):
            """With `always_call=True` the hook also runs when `forward` raises. Leave that out."""
            return module.register_forward_hook(hook, prepend=True, always_call=True)

        def ran_forward_again(module, hook):
            """You registered a pre-hook that runs `forward` itself, so it runs twice, and what `hook` returns is lost.
            Register a forward hook with `prepend=True`.
            """

            def first(module, args):
                hook(module, args, module.forward(*args))

            return module.register_forward_pre_hook(first)
