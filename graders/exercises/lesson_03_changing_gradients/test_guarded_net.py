"""Exercise 03-guarded-net."""

import torch
from torch import nn

from graders.exercises.authoring import exercise, no_graph_for_zeros
from graders.scenes.scene import stories
from graders.scenes.stories import guarded_nets as nets
from graders.scenes.stories.gradient_hooks import two_bounds


@exercise(
    "03-guarded-net",
    name="GuardedNet",
    points=3,
    minutes=40,
    difficulty=3,
    title="A network that guards its gradients",
    hints=(
        "A parameter lives as long as the module: register the hook on `fc.bias` once, in `__init__`.",
        "The output of `body` is a new tensor in every forward pass: register its hook in `forward`, and only "
        "`if h.requires_grad`.",
        "The hook on the bias returns `torch.zeros_like(grad)`, which always has the right shape and dtype.",
    ),
    why=(
        "A parameter stays the same tensor, so one hook in `__init__` is enough; the output of `body` is new in "
        "each forward pass and needs a new one, which goes when its graph goes. A full backward pre-hook on `body` "
        "would do as well: it is registered once and clamps `grad_output`."
    ),
    scene=stories(
        promises={
            "forward is fc after body": nets.forward_as_usual,
            "the gradient at the output of body is clamped": nets.clamped_behind_the_body,
            "the bias gets zeros and the weight its gradient": nets.zeros_for_the_bias,
            "it works pass after pass": nets.PASS_AFTER_PASS,
            "it works with data that requires no grad": nets.data_without_grad,
            "it works with a frozen body": nets.frozen_body,
            "the gradient can be differentiated again": nets.differentiated_again,
            "nothing else changes": nets.NOTHING_ELSE,
        },
        axes=nets.NET,
        arguments=two_bounds,
    ),
)
class TestGuardedNet:
    """Write a class `GuardedNet(nn.Module)` with `__init__(self, body, fc, lo, hi)`; `body` and `fc` become child
    modules. `forward(x)` returns `fc(body(x).flatten(1))`. The gradient at the output of `body` is clamped to the range
    from `lo` to `hi`, and that of `fc.bias` is zero.

    **Example.**

    >>> fc, x = nn.Linear(2, 1), torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> fc.weight.data = torch.tensor([[5.0, 0.5]])
    >>> net = GuardedNet(nn.ReLU(), fc, -1.0, 1.0)
    >>> net(x).sum().backward()
    >>> x.grad, fc.weight.grad, fc.bias.grad
    (tensor([[1.0000, 0.5000]]), tensor([[1., 2.]]), tensor([0.]))

    **Fine print.** `body` returns a new tensor of shape `[batch, ...]`; `fc` has a bias that requires grad and keeps
    doing so. Call both once in `forward`. It works after `net.double()`, with several forward passes before a backward
    pass, with frozen parameters in `body`, under `torch.no_grad()`, and when nothing before `fc` requires grad. Your
    hooks may stay for good, but their number does not grow from pass to pass, and they write into no gradient. With
    `create_graph=True` the clamped gradient keeps its graph.
    """

    def reference(body, fc, lo, hi):
        body.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0].clamp(lo, hi),))
        return Net(body, fc, lambda h: h)

    may_differ = {"the gradient differentiated": no_graph_for_zeros}

    class Mistakes:
        def hook_without_grad(body, fc, lo, hi):
            """A tensor that does not require grad takes no hook: the activation under `no_grad` or behind a frozen
            body, and a frozen parameter. Guard the registration in `forward` with `if h.requires_grad:`.
            """
            return Net(body, fc, hooked(lambda grad: grad.clamp(lo, hi), when=lambda h: True))

        def flattened_the_batch(body, fc, lo, hi):
            """The input of `fc` has the wrong shape: it needs one row for each sample. `view(-1)` and `flatten()` merge
            the samples of the batch; `flatten(1)` keeps them apart.
            """
            return Net(body, fc, clamping(lo, hi), first=0)

        def forgot_return(body, fc, lo, hi):
            """The gradient at the output of `body`, or that of `fc.bias`, came through unchanged. Hook these two
            themselves, what `body` returns and `fc.bias`; a hook changes a gradient only by returning the new one.
            """
            return Net(body, fc, lambda h: h)

        def forgot_return__2(body, fc, lo, hi):
            return Net(body, fc, clamping(lo, hi), lambda grad: None)

        def in_place_leak(body, fc, lo, hi):
            """A hook of yours writes into the gradient that it is given, and others hold that very tensor. Compute a
            new one and return it: `grad.clamp(lo, hi)`, `torch.zeros_like(grad)`.
            """
            return Net(body, fc, hooked(lambda grad: grad.clamp_(lo, hi)))

        def in_place_leak__2(body, fc, lo, hi):
            return Net(body, fc, clamping(lo, hi), lambda grad: grad.zero_())

        def cut_off_graph(body, fc, lo, hi):
            return Net(body, fc, hooked(lambda grad: grad.detach().clamp(lo, hi)))

        def bias_without_grad(body, fc, lo, hi):
            """`fc.bias.grad` is `None`. The bias has to stay a parameter that requires grad; let a hook replace its
            gradient by zeros.
            """
            net = Net(body, fc, clamping(lo, hi), lambda grad: None)
            fc.bias.requires_grad_(False)
            return net

        def hooked_in_between(body, fc, lo, hi):
            """`fc.bias` gets a gradient when a loss uses it outside the net, too: you stop only what comes through your
            forward pass. Register a hook on `fc.bias` itself.
            """

            class Cut(Net):
                def forward(self, x):
                    parts = {"bias": fc.bias.detach() + 0 * fc.bias}
                    return torch.func.functional_call(fc, parts, (self.guard(body(x)).flatten(1),))

            return Cut(body, fc, clamping(lo, hi), lambda grad: None)

        def hook_in_forward(body, fc, lo, hi):
            """Every forward pass adds a hook to something that lives on, such as `fc.bias`, and they pile up. Register
            such a hook once, in `__init__`. Only the activation is new in every pass.
            """

            def guard(h):
                fc.bias.register_hook(torch.zeros_like)
                return clamping(lo, hi)(h)

            return Net(body, fc, guard)

        def clamped_elsewhere(body, fc, lo, hi):
            """You clamp the gradient of another tensor than the output of `body`: that of the result, of `x`, or (a
            full backward hook replaces `grad_input`) that of what goes into `body`. Hook what `body` returns.
            """
            net = Net(body, fc, lambda h: h)
            net.register_forward_hook(lambda module, args, output: clamping(lo, hi)(output))
            return net

        def clamped_elsewhere__2(body, fc, lo, hi):
            net = Net(body, fc, lambda h: h)
            net.register_forward_pre_hook(lambda module, args: clamping(lo, hi)(args[0]))
            return net

        def clamped_elsewhere__3(body, fc, lo, hi):
            net = Net(body, fc, lambda h: h)
            body.register_full_backward_hook(
                lambda module, grads, _: tuple(g if g is None else g.clamp(lo, hi) for g in grads)
            )
            return net

        def changed_forward(body, fc, lo, hi):
            """`net(x)` itself is another: you clamped the activation, or changed the bias. Leave the values alone, and
            let hooks change the gradients.
            """
            return Net(body, fc, lambda h: h.clamp(lo, hi))

        def changed_forward__2(body, fc, lo, hi):
            nn.init.zeros_(fc.bias)
            return Net(body, fc, clamping(lo, hi), lambda grad: None)

        def no_gradient_for_the_weight(body, fc, lo, hi):
            """`fc.weight` gets no gradient any more. Only that of `fc.bias` is to be zero."""
            fc.weight.register_hook(torch.zeros_like)
            return Net(body, fc, clamping(lo, hi))

        def zeroed_afterwards(body, fc, lo, hi):
            """You set `fc.bias.grad` to zero after the pass. So what it held before is lost, too, and
            `torch.autograd.grad` still returns the gradient. Replace the gradient itself: `fc.bias.register_hook`.
            """
            fc.bias.register_post_accumulate_grad_hook(lambda p: (p.grad.zero_(), None)[1])
            return Net(body, fc, clamping(lo, hi), lambda grad: None)

        def no_child(body, fc, lo, hi):
            """`body` and `fc` are not child modules. `self.body = body` makes `body` one; in a plain list or dict
            nobody finds a module, neither `parameters()` nor `double()`.
            """
            net = Net(body, fc, clamping(lo, hi))
            hidden = [net.body, net.fc]
            del net.body, net.fc
            net.forward = lambda x: hidden[1](net.guard(hidden[0](x)).flatten(1))
            return net

        def only_the_last_forward(body, fc, lo, hi):
            """With two forward passes before a backward pass, only the last one is clamped: you removed the hook of the
            first. It lives and ends with its activation, so let it stay.
            """
            handles = []

            def guard(h):
                while handles:
                    handles.pop().remove()
                if h.requires_grad:
                    handles.append(h.register_hook(lambda grad: grad.clamp(lo, hi)))
                return h

            return Net(body, fc, guard)

        def only_the_first_forward(body, fc, lo, hi):
            """Only the activation of the first forward pass is clamped. Each pass makes a new one, which needs a hook
            of its own and takes it along when it goes. What lives on, as `fc.bias` does, gets its hook in `__init__`.
            """
            return Net(body, fc, once(clamping(lo, hi)))

        def only_the_first_forward__2(body, fc, lo, hi):
            def guard(h):
                fc.bias.register_hook(torch.zeros_like)
                return clamping(lo, hi)(h)

            return Net(body, fc, once(guard), lambda grad: None)

        def changed_dtype(body, fc, lo, hi):
            """Your zeros have the dtype that `fc.bias` had when you made them, and after `net.double()` it is another.
            Make them in the hook, from the gradient: `torch.zeros_like(grad)`.
            """
            zeros = torch.zeros_like(fc.bias)
            return Net(body, fc, clamping(lo, hi), lambda grad: zeros)


class Net(nn.Module):
    """A network whose activation goes through `guard`, and the gradient of whose bias through `of_bias`."""

    def __init__(self, body, fc, guard, of_bias=torch.zeros_like, first=1):
        """`first` is the first dimension that is flattened."""
        super().__init__()
        self.body, self.fc, self.guard, self.first = body, fc, guard, first
        fc.bias.register_hook(of_bias)

    def forward(self, x):
        """`fc` of the flattened activation."""
        return self.fc(self.guard(self.body(x)).flatten(self.first))


def hooked(hook, when=lambda h: h.requires_grad):
    """A guard that puts a hook on the activation."""

    def guard(h):
        if when(h):
            h.register_hook(hook)
        return h

    return guard


def once(guard):
    """A guard that is there for the first activation alone."""
    waiting = [guard]
    return lambda h: waiting.pop()(h) if h.requires_grad and waiting else h


def clamping(lo, hi):
    """The right guard."""
    return hooked(lambda grad: grad.clamp(lo, hi))
