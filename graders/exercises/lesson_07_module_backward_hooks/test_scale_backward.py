"""Exercise 07-scale-backward."""

from graders.exercises.authoring import exercise, no_graph_for_zeros
from graders.exercises.lesson_07_module_backward_hooks.programs import Handles, each
from graders.scenes.scene import stories
from graders.scenes.stories import flowing_back
from graders.scenes.stories.gradient_hooks import a_number


def both_ends(module, s, parameters):
    """Hooks that scale the gradients of these parameters, and `grad_input`: their handles."""
    handles = [p.register_hook(lambda g: g * s) for p in parameters if p.requires_grad]
    return [*handles, module.register_full_backward_hook(lambda m, gi, go: each(gi, lambda g: g * s))]


def at_outputs(module, s, takes=lambda t: True):
    """Hooks on the outputs that take one; the handle is that of the forward hook."""

    def hook(m, args, out):
        for t in filter(takes, out if isinstance(out, tuple) else (out,)):
            t.register_hook(lambda grad: grad * s)

    return module.register_forward_hook(hook)


def in_each_part(module, s):
    """The handles of hooks on the module and on all modules inside."""
    return [m.register_full_backward_pre_hook(lambda m, go: each(go, lambda g: g * s)) for m in module.modules()]


@exercise(
    "07-scale-backward",
    points=2,
    minutes=15,
    difficulty=2,
    title="Scale the backward pass from a module onwards",
    hints=(
        "The gradient has to be scaled before the module's own backward pass uses it. Which of the two kinds of hook "
        "runs at that moment?",
        "`register_full_backward_pre_hook(hook)`: the hook is called as `hook(module, grad_output)` and returns a "
        "tuple with one entry for each output.",
        "An output that the loss does not use has `None` in `grad_output`. Keep it as `None`.",
    ),
    why=(
        "The pre-hook changes `grad_output` before the module's own backward pass uses it, so its parameters get "
        "the scaled gradient, too. A forward hook that returns a view of each output, with a tensor hook on it, would "
        "do as well."
    ),
    scene=stories(
        promises={
            "what flows further back is scaled": flowing_back.changed_in_a_pass,
            "its own parameters learn from the scaled gradient": flowing_back.PARAMETERS,
            "every pass is scaled": flowing_back.EVERY_PASS,
            "several inputs and outputs, in any layout": flowing_back.SEVERAL,
            "the gradient keeps its graph": flowing_back.differentiated_again,
            "several modules and several calls": flowing_back.several_at_a_time,
            "nothing else changes": flowing_back.NOTHING_ELSE,
            "the handle restores the old behaviour": flowing_back.HANDLES,
        },
        axes={**flowing_back.FLOW, "number": ("large", "negative", "zero", "fraction")},
        impossible=flowing_back.IMPOSSIBLE,
        arguments=a_number,
    ),
)
class TestScaleBackward:
    """Write `scale_backward(module, s)`: from now on, in every backward pass, the gradients that arrive at the outputs
    of `module` are multiplied by `s`. Its own parameters, and everything before the module, get `s` times what they
    would get. Return the handle.

    **Example.**

    >>> module, x = torch.nn.Linear(1, 1), torch.tensor([[3.0]], requires_grad=True)
    >>> module.weight.data.fill_(5.0)
    >>> handle = scale_backward(module, 10.0)
    >>> module(x).sum().backward()
    >>> x.grad, module.weight.grad
    (tensor([[50.]]), tensor([[30.]]))

    **Fine print.** The modules inside count as parts of `module`, and none of their parameters is used elsewhere. Two
    calls of `scale_backward` multiply; where `s` is 0, zeros arrive. The values of the forward pass stay. The module
    returns a tensor or a tuple of tensors, none computed from another, and nothing works in place on them; the loss may
    leave some unused. The inputs may need no gradient. With `create_graph=True` gradients keep their graph.
    `handle.remove()` applies to later calls of `module`.
    """

    def reference(module, s):
        def hook(m, args, out):
            views = tuple(t.view_as(t) for t in (out if isinstance(out, tuple) else (out,)))
            for t in views:
                if t.requires_grad:
                    t.register_hook(lambda grad: grad * s)
            return views if isinstance(out, tuple) else views[0]

        return module.register_forward_hook(hook)

    may_differ = {"the gradient differentiated": no_graph_for_zeros}

    class Mistakes:
        def too_late_for_weights(module, s):
            """What flows further back is scaled, but the module's own weights are not: a full backward hook changes
            `grad_input`, and the weights do not use that. Scale `grad_output`, in a full backward pre-hook.
            """
            return module.register_full_backward_hook(lambda m, gi, go: each(gi, lambda g: g * s))

        def not_like_grad_output(module, s):
            """What a full backward pre-hook returns takes the place of `grad_output`: a tuple with one entry for each
            output, of the same shape, and `None` where it had `None`. A bare tensor is taken as a tuple of its rows.
            """
            return module.register_full_backward_pre_hook(lambda m, go: s * go[0])

        def not_like_grad_output__2(module, s):
            return module.register_full_backward_pre_hook(lambda m, go: (s * go[0],))

        def changed_forward(module, s):
            """You scaled the output of the module itself. The values of the forward pass have to stay; only the
            gradients are scaled.
            """
            return module.register_forward_hook(
                lambda m, args, out: tuple(t * s for t in out) if isinstance(out, tuple) else out * s
            )

        def hooked_the_parameters(module, s):
            """You hooked the parameters. Frozen ones take no hook, and a hook on a parameter scales nothing that goes
            further back. Scale `grad_output`, in a full backward pre-hook of the module: all the rest follows from it.
            """
            handles = [p.register_hook(lambda grad: grad * s) for p in module.parameters()]
            return handles[-1]

        def hooked_the_outputs(module, s):
            """You hooked the output itself. Under `no_grad()` it takes no hook; and Identity, or Dropout in eval mode,
            returns the very tensor that it was given: your hooks are on the caller's tensor then, one more for each
            call, and no `remove()` ends that. Use a full backward pre-hook.
            """
            return at_outputs(module, s, lambda t: t.requires_grad)

        def hooked_the_outputs__2(module, s):
            return at_outputs(module, s)

        def scaled_in_each_part(module, s):
            """You registered a hook on each module inside as well, and each of them multiplies once more. One on
            `module` is enough: what is inside gets the scaled gradient from it.
            """
            return Handles(*in_each_part(module, s))

        def scaled_in_each_part__2(module, s):
            return in_each_part(module, s)[-1]

        def scaled_both_ends(module, s):
            """You scaled `grad_input`, and the parameters by hooks of their own. An input by keyword is in no
            `grad_input`, modules inside have parameters, too, and each hook wants its `remove()`. Scale `grad_output`,
            in a full backward pre-hook: all the rest follows from it.
            """
            return both_ends(module, s, module.parameters())[-1]

        def scaled_both_ends__2(module, s):
            return Handles(*both_ends(module, s, module.parameters()))

        def scaled_both_ends__3(module, s):
            return Handles(*both_ends(module, s, module.parameters(recurse=False)))

        def scaled_dot_grad(module, s):
            """You scaled the `.grad` of the parameters in a hook: that of this pass is added only after it, and what an
            earlier pass left is scaled again. Scale `grad_output`, in a full backward pre-hook.
            """

            def hook(m, gi, go):
                for p in m.parameters():
                    if p.grad is not None:
                        p.grad.mul_(s)
                return each(gi, lambda g: g * s)

            return module.register_full_backward_hook(hook)

        def forgot_return(module, s):
            """Nothing was scaled. A hook that returns `None` keeps the gradients as they are: return a tuple with the
            scaled ones. And `with` takes a hook off at the end of its block.
            """
            return module.register_full_backward_pre_hook(lambda m, go: None)

        def in_place_leak(module, s):
            return module.register_full_backward_pre_hook(lambda m, go: each(go, lambda g: g.mul_(s)))

        def scaled_none(module, s):
            """`None` stands where there is no gradient: in `grad_output` for an output that the loss does not use, in
            `grad_input` for an input that needs none. `None` cannot be multiplied: leave it as it is.
            """
            return module.register_full_backward_pre_hook(lambda m, go: tuple(g * s for g in go))

        def no_handle(module, s):
            module.register_full_backward_pre_hook(lambda m, go: each(go, lambda g: g * s))

        def first_output_only(module, s):
            """You scaled the first entry of `grad_output` alone. A module may return several tensors: scale every
            entry, and leave `None` as it is.
            """
            return module.register_full_backward_pre_hook(
                lambda m, go: (go[0] if go[0] is None else go[0] * s, *go[1:])
            )
