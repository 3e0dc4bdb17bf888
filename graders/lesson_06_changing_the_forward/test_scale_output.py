"""Exercise 06-scale-output."""

# mypy: ignore-errors
# An exercise class is a namespace of plain functions: there is no self.
from __future__ import annotations

import torch

from graders.authoring import exercise
from graders.scenes.forward_changes import a_factor, changes_calls, whole_numbers_too


@exercise(
    "06-scale-output",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="Scale what a module says",
    hints=(
        "A forward hook that returns something replaces the module's output by it.",
        "Compute a new tensor. An in-place change of `output` overwrites numbers that the backward pass needs.",
        "No `detach()`, no `.data`, no `torch.no_grad()`: autograd has to see the multiplication. "
        "And return the handle.",
    ),
    why=(
        "What a forward hook returns takes the place of the output, and `output * s` is a new tensor that autograd "
        "knows about, so gradients are scaled, too. Any function that computes a new tensor would do, such as "
        "`torch.mul`; writing into `output` would not."
    ),
    scene=changes_calls(
        arguments=a_factor,
        also=whole_numbers_too,
        only={
            "number": ("zero", "negative", "fraction", "whole"),
            "others": ("none", "keyword"),
            "output": (),
            "count": (),
            "value": (),
        },
        words={
            "task": "every output is multiplied",
            "gradients": "the gradient is multiplied too",
            "arrives": "the module runs once as it is called",
            "twice": "two hooks multiply by both numbers",
            "failing": "a call that raises changes nothing",
            "any": "any tensor will do",
        },
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

    **Fine print.** `s` is a number, and `module` returns one tensor. That may hold integers: the output becomes what
    `output * s` is. Forward hooks that `module` has at this moment come first, then the multiplication. Two calls of
    `scale_output` on one module multiply by both numbers.
    """

    def reference(module, s):
        class Times:
            def __call__(self, module, args, output):
                return torch.mul(output, s)

        return module.register_forward_hook(Times())

    class Mistakes:
        def forgot_return(module, s):
            def hook(module, args, output):
                output = output * s

            return module.register_forward_hook(hook)

        def in_place_output(module, s):
            """Your hook changed `output` in place. Numbers that the backward pass needs are overwritten, and where a
            module hands its input on, that of the caller. Compute a new tensor, `output * s`, and return it.
            """
            return module.register_forward_hook(lambda module, args, output: output.mul_(s))

        def in_place_output__2(module, s):
            def hook(module, args, output):
                return output * s if torch.is_grad_enabled() else output.mul_(s)

            return module.register_forward_hook(hook)

        def whole_numbers(module, s):
            """An output of whole numbers cannot become fractional in place, nor can a tensor of its dtype hold a
            fraction `s`. Compute a new tensor, `output * s`.
            """
            return module.register_forward_hook(lambda module, args, output: output.clone().mul_(s))

        def whole_numbers__2(module, s):
            return module.register_forward_hook(lambda module, args, output: output * torch.full_like(output, s))

        def data_edit(module, s):
            """The output is right, but the gradient does not know of `s`: you changed the numbers behind autograd's
            back, with `.data`. Return `output * s`, computed by an ordinary operation.
            """
            return module.register_forward_hook(lambda module, args, output: [output.data.mul_(s)].clear())

        def data_edit__2(module, s):
            class Times(torch.autograd.Function):
                @staticmethod
                def forward(ctx, output):
                    return output * s

                @staticmethod
                def backward(ctx, grad):
                    return grad

            return module.register_forward_hook(lambda module, args, output: Times.apply(output))

        def cut_the_graph(module, s):
            """The output is right, but no gradient comes through any more. Your hook returned a tensor without a
            graph: leave out `detach()`, `.data` and `torch.no_grad()`.
            """
            return module.register_forward_hook(lambda module, args, output: output.detach() * s)

        def changed_the_input(module, s):
            return module.register_forward_pre_hook(lambda module, args: args[0] * s)

        def before_other_hooks(module, s):
            """Your multiplication comes first, and then a hook of the caller changes the output. It has to come after
            the hooks that are there: register a forward hook on `module`, without `prepend=True`.
            """
            return module.register_forward_hook(lambda module, args, output: output * s, prepend=True)

        def before_other_hooks__2(module, s):
            def hook(called, args, output):
                return output * s if called is module else None

            return torch.nn.modules.module.register_module_forward_hook(hook)

        def zero_means_nothing(module, s):
            """With `s = 0` the module gives its own output. 0 is a number like others: `s or 1` and `if s:` take it
            for nothing.
            """
            return module.register_forward_hook(lambda module, args, output: output * (s or 1))

        def no_second_derivative(module, s):
            """The gradient is right, and it cannot be differentiated again (`create_graph=True`): you computed it
            outside autograd. Return `output * s`, computed by an ordinary operation.
            """

            class Times(torch.autograd.Function):
                @staticmethod
                def forward(ctx, output):
                    return output * s

                @staticmethod
                @torch.autograd.function.once_differentiable
                def backward(ctx, grad):
                    return grad * s

            return module.register_forward_hook(lambda module, args, output: Times.apply(output))

        def replaced_the_first(module, s, factors={}):  # noqa: B006 - the mistake
            """After a second call of your function on one module, only the second number counts. Register a hook of
            its own in each call, and keep the number in that hook: then both multiply.
            """
            if module in factors:
                factors[module][0].remove()
            factors[module] = [module.register_forward_hook(lambda module, args, output: output * s)]
            return factors[module][0]

        def replaced_the_first__2(module, s, factors={}):  # noqa: B006 - the mistake
            had_one = module in factors
            factors[module] = s
            return module.register_forward_hook(
                lambda module, args, output: None if had_one else output * factors[module]
            )

        def removed_another(module, s):
            """`remove()` of the first handle took another hook away than its own: the last one, or all of them. Return
            the handle that `register_forward_hook` gives; it stands for one hook.
            """

            class Handle:
                def remove(self):
                    module._forward_hooks.popitem()

            module.register_forward_hook(lambda module, args, output: output * s)
            return Handle()

        def removed_another__2(module, s):
            class Handle:
                def remove(self):
                    module._forward_hooks.clear()

            module.register_forward_hook(lambda module, args, output: output * s)
            return Handle()

        def no_handle(module, s):
            """Your function has to return the handle, so that the caller can remove the hook. It is what the
            `register_...` method gives you.
            """
            module.register_forward_hook(lambda module, args, output: output * s)

        def edited_weights(module, s):
            """You changed the weights. They belong to the caller, and `s` times the weight is not `s` times the output:
            a bias, or a hook of the caller, comes after them. Return `output * s` from a forward hook.
            """
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.mul_(s)
            return module.register_forward_hook(lambda module, args, output: None)

        def edited_weights__2(module, s):
            class Handle:
                def remove(self):
                    for parameter in module.parameters():
                        parameter.data /= s

            for parameter in module.parameters():
                parameter.data *= s
            return Handle()
