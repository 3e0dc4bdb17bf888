"""Exercise 07-clamp-grad-input."""

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_07_module_backward_hooks.programs import each
from graders.scenes.scene import stories
from graders.scenes.stories import flowing_back


@exercise(
    "07-clamp-grad-input",
    points=2,
    minutes=15,
    difficulty=2,
    title="Clamp what a module sends back",
    hints=(
        "What a full backward hook returns replaces `grad_input`: a tuple with one entry for each input, "
        "in the same order.",
        "An entry may be `None`. It has to stay `None` in the tuple that you return: "
        "`tuple(g if g is None else ... for g in grad_input)`.",
        "A full backward pre-hook would be too early: it changes `grad_output`, from which the module's own parameters "
        "learn.",
    ),
    why=(
        "What a full backward hook returns takes the place of `grad_input`, and the module's own parameters have "
        "learned from the unclamped gradient by then. A forward pre-hook that passes each input through a "
        "`torch.autograd.Function` with a clamp in its `backward` would do as well."
    ),
    scene=stories(
        promises={
            "what the module sends back is clamped": flowing_back.changed_in_a_pass,
            "its own parameters learn from the unclamped gradient": (
                *flowing_back.PARAMETERS,
                flowing_back.with_a_weight_used_outside,
            ),
            "every pass is clamped": flowing_back.EVERY_PASS,
            "several inputs and outputs, in any layout": flowing_back.SEVERAL,
            "the gradient keeps its graph": flowing_back.differentiated_again,
            "several modules and several calls": flowing_back.several_at_a_time,
            "nothing else changes": flowing_back.NOTHING_ELSE,
            "the handle restores the old behaviour": flowing_back.HANDLES,
        },
        axes={**flowing_back.FLOW, "number": ("fraction", "large")},
        impossible=flowing_back.IMPOSSIBLE,
        arguments=flowing_back.a_bound,
    ),
)
class TestClampGradInput:
    """Write `clamp_grad_input(module, c)`: from now on, in every backward pass, each gradient that `module` sends to an
    input is clamped elementwise to [-c, c] before it goes on. The gradients of its own parameters stay as they are.
    Return the handle.

    **Example.**

    >>> module, x = torch.nn.Linear(1, 1), torch.tensor([[3.0]], requires_grad=True)
    >>> module.weight.data.fill_(5.0)
    >>> handle = clamp_grad_input(module, 2.0)
    >>> module(x).sum().backward()
    >>> x.grad, module.weight.grad
    (tensor([[2.]]), tensor([[3.]]))

    **Fine print.** `c` is greater than 0. Only what this module sends is clamped, not what an input gets from
    elsewhere. Full backward hooks that `module` already has come first: what they return is clamped. Inputs may be
    numbers or need no gradient; one passed by keyword is left alone. With `create_graph=True` gradients keep their
    graph. The output is a tensor or a tuple of tensors; nothing works in place on it or the inputs. `handle.remove()`
    applies to later calls of `module`.
    """

    def reference(module, c):
        def through_a_view(t):
            t = t.view_as(t) if isinstance(t, torch.Tensor) else t
            if getattr(t, "requires_grad", False):
                t.register_hook(lambda grad: grad.clamp(-c, c))
            return t

        return module.register_forward_pre_hook(lambda m, args: tuple(map(through_a_view, args)))

    class Mistakes:
        def not_like_grad_input(module, c):
            """What a full backward hook returns takes the place of `grad_input`: a tuple with one entry for each entry
            of `grad_input`, of the same shape. A bare tensor is taken as a tuple of its rows.
            """
            return module.register_full_backward_hook(lambda m, gi, go: gi[0].clamp(-c, c))

        def forgot_return(module, c):
            """The gradient that leaves the module is not clamped. A hook that returns `None` keeps `grad_input` as it
            is: return a tuple with the clamped gradients. And `with` takes a hook off at the end of its block.
            """
            return module.register_full_backward_hook(lambda m, gi, go: None)

        def clamped_too_early(module, c):
            """You clamped `grad_output`, before the module used it: its own weights learn from that, and what it sends
            back can still be larger than `c`. Clamp `grad_input`, in a full backward hook.
            """
            return module.register_full_backward_pre_hook(lambda m, go: each(go, lambda g: g.clamp(-c, c)))

        def returned_grad_output(module, c):
            """You returned the clamped `grad_output`. What a full backward hook returns takes the place of
            `grad_input`: clamp that.
            """
            return module.register_full_backward_hook(lambda m, gi, go: each(go, lambda g: g.clamp(-c, c)))

        def parameter_grads(module, c):
            """You clamped the gradients of the module's own parameters. The task is about the gradients of its
            inputs.
            """

            def hook(m, gi, go):
                torch.nn.utils.clip_grad_value_(m.parameters(), c)

            return module.register_full_backward_hook(hook)

        def clamped_none(module, c):
            """An input that needs no gradient, or is not a tensor, has `None` in `grad_input`, and `None` has no
            `clamp`. Leave such an entry as it is.
            """
            return module.register_full_backward_hook(lambda m, gi, go: tuple(g.clamp(-c, c) for g in gi))

        def in_place_leak(module, c):
            return module.register_full_backward_hook(lambda m, gi, go: each(gi, lambda g: g.clamp_(-c, c)))

        def cut_off_graph(module, c):
            return module.register_full_backward_hook(lambda m, gi, go: each(gi, lambda g: g.detach().clamp(-c, c)))

        def clamped_before_the_callers_hooks(module, c):
            """You clamped before a full backward hook that the module already had, and that one then multiplied the
            gradient. Hooks of one kind run in the order of registration: register yours on the module, without
            `prepend`.
            """
            return module.register_full_backward_hook(
                lambda m, gi, go: each(gi, lambda g: g.clamp(-c, c)), prepend=True
            )

        def no_handle(module, c):
            module.register_full_backward_hook(lambda m, gi, go: each(gi, lambda g: g.clamp(-c, c)))

        def first_input_only(module, c):
            """You clamped the gradient of the first input alone. Clamp every entry of `grad_input`."""

            def hook(m, gi, go):
                return (gi[0] if gi[0] is None else gi[0].clamp(-c, c), *gi[1:])

            return module.register_full_backward_hook(hook)

        def limited_the_norm(module, c):
            """You limited each gradient as a whole, by its norm or its largest entry, which shortens all of its entries
            alike. The task clamps each entry by itself: `clamp(-c, c)`.
            """
            return module.register_full_backward_hook(
                lambda m, gi, go: each(gi, lambda g: g * (c / (g.norm() + 1e-12)).clamp(max=1.0))
            )

        def limited_the_norm__2(module, c):
            return module.register_full_backward_hook(
                lambda m, gi, go: each(gi, lambda g: g * (c / (g.norm() + 1e-6)).clamp(max=1.0))
            )

        def limited_the_norm__3(module, c):
            return module.register_full_backward_hook(
                lambda m, gi, go: each(gi, lambda g: g * (c / g.abs().amax()).clamp(max=1.0))
            )

        def one_bound_only(module, c):
            """Values below `-c` stay as they are. Clamp on both sides: `clamp(-c, c)`."""
            return module.register_full_backward_hook(lambda m, gi, go: each(gi, lambda g: g.clamp(max=c)))

        def hooked_the_inputs(module, c):
            """You hooked the input tensors themselves. So what comes to them from elsewhere is clamped, too: use a full
            backward hook of the module.
            """

            def before(m, args):
                for t in args:
                    if isinstance(t, torch.Tensor) and t.requires_grad:
                        t.register_hook(lambda g: g.clamp(-c, c))

            return module.register_forward_pre_hook(before)

        def none_left_out(module, c):
            """Entries that are `None` are left out, and each entry of `grad_input` needs one value. Return
            `None` in their place.
            """
            return module.register_full_backward_hook(
                lambda m, gi, go: tuple(g.clamp(-c, c) for g in gi if g is not None)
            )
