"""Exercise 06-scale-output."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import changed_calls as calls


@exercise(
    "06-scale-output",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="Scale what a module says",
    hints=(
        "A forward hook that returns something replaces the module's output with it.",
        "Compute a new tensor. An in-place change of `output` overwrites numbers that the backward pass needs.",
        "No `detach()`, no `.data`, no `torch.no_grad()`: autograd has to see the multiplication. "
        "And return the handle.",
    ),
    why=(
        "What a forward hook returns takes the place of the output, and `output * s` is a new tensor that autograd "
        "knows about, so gradients are scaled, too. Any function that computes a new tensor would do, such as "
        "`torch.mul`; writing into `output` would not."
    ),
    scene=stories(
        promises={
            "every output is multiplied": calls.CHANGED_IN_ANY_LAYER,
            "the gradient is multiplied too": calls.FLOWS,
            "the module runs once, with the arguments of the call": calls.arrives,
            "two hooks multiply by both numbers": (calls.several_at_a_time, calls.equal_calls),
            "only this module is changed": calls.other_modules,
            "nothing else changes": calls.nothing_else,
            "a call that raises changes nothing": calls.forward_raises,
            "any tensor will do": (calls.views, calls.whole_numbers),
            "each handle removes its own hook": calls.removed_by_handles,
        },
        axes={**calls.CALLS, **calls.FACTOR},
        register=calls.scaled,
        again=calls.scaled,
        numbers=(1.7,),
    ),
)
class TestScaleOutput:
    """Write `scale_output(module, s)`: from now on, every call of `module` gives `s` times what it gave before, and
    gradients flow back through the multiplication. Return the handle: after `handle.remove()` the module gives its own
    output again.

    **Example.**

    >>> act = nn.Sigmoid()
    >>> handle = scale_output(act, 3.0)
    >>> x = torch.tensor([0.0], requires_grad=True)
    >>> y = act(x)
    >>> y.backward()
    >>> y.detach(), x.grad
    (tensor([1.5000]), tensor([0.7500]))

    **Fine print.** `s` is a number, and `module` returns one tensor, which may hold integers: the output becomes what
    `output * s` is. Forward hooks that `module` has at this moment come first, then the multiplication. Two calls of
    `scale_output` on one module multiply by both numbers.
    """

    def reference(module, s):
        class Times:
            def __call__(self, module, args, output):
                return torch.mul(output, s)

        return module.register_forward_hook(Times())

    class Mistakes:
        def through_data(module, s):
            """You wrote through `.data`. Autograd does not see that, and passes gradients on as if nothing had been
            scaled. Return a new output: `return output * s`.
            """

            def hook(module, args, output):
                output.data = output.data * s

            return module.register_forward_hook(hook)

        def through_data__2(module, s):
            return module.register_forward_hook(lambda module, args, output: [output.data.mul_(s)].clear())

        def forgot_return(module, s):
            def hook(module, args, output):
                output = output * s

            return module.register_forward_hook(hook)

        def in_place_output(module, s):
            """Your hook changed `output` in place. Numbers that the backward pass needs are overwritten, and so is the
            caller's input, where a module passes it on. Compute a new tensor, `output * s`, and return it.
            """
            return module.register_forward_hook(lambda module, args, output: output.mul_(s))

        def cut_the_graph(module, s):
            return module.register_forward_hook(lambda module, args, output: output.detach() * s)

        def changed_the_input(module, s):
            return module.register_forward_pre_hook(lambda module, args: args[0] * s)

        def before_other_hooks(module, s):
            """Your multiplication comes first, and then one of the caller's hooks changes the output. It has to come
            after the hooks that are already there: register a forward hook on `module`, without `prepend=True`, and
            leave `forward` alone.
            """
            return module.register_forward_hook(lambda module, args, output: output * s, prepend=True)

        def scaled_the_gradients(module, s):
            """You scaled gradients in a backward hook, and the output is what it was. Scale the output, in a forward
            hook: its gradients follow.
            """
            return module.register_full_backward_pre_hook(
                lambda module, grads: tuple(g if g is None else g * s for g in grads)
            )

        def scaled_twice_on_the_way_back(module, s):
            """The output is right, and its gradient is multiplied twice: once by autograd, which does that for
            `output * s` by itself, and once more by your hook on the result. Leave out that hook.
            """

            def hook(module, args, output):
                scaled = output * s
                if scaled.requires_grad:
                    scaled.register_hook(lambda grad: grad * s)
                return scaled

            return module.register_forward_hook(hook)

        def first_call_only(module, s):
            """Your hook works once and then removes itself. It stays until the caller removes it by its handle."""

            def hook(module, args, output):
                handle.remove()
                return output * s

            handle = module.register_forward_hook(hook)
            return handle

        def no_handle(module, s):
            module.register_forward_hook(lambda module, args, output: output * s)

        def scaled_the_parameters(module, s):
            """You multiplied the parameters of the module. They are the caller's, and a module may have none: multiply
            its output, in a forward hook.
            """
            with torch.no_grad():
                for p in module.parameters():
                    p.mul_(s)
