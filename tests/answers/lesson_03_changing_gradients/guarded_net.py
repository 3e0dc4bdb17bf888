"""Answers to 03-guarded-net."""

from graders.author.answers import Wrong

GUARDED_NET = """
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi
        self.fc.bias.register_hook(lambda grad: torch.zeros_like(grad))

    def forward(self, x):
        h = self.body(x)
        if h.requires_grad:
            h.register_hook(lambda grad: grad.clamp(self.lo, self.hi))
        return self.fc(h.flatten(1))
"""


def guarded_net(right: str, wrong: str) -> str:
    """The right answer with one part replaced."""
    assert GUARDED_NET.count(right) == 1, right
    return GUARDED_NET.replace(right, wrong)


BIAS_HOOK = "self.fc.bias.register_hook(lambda grad: torch.zeros_like(grad))"

ACTIVATION_HOOK = "h.register_hook(lambda grad: grad.clamp(self.lo, self.hi))"

RIGHT = [
    # The hook on the bias is registered in the first pass.
    """
import torch
from torch import nn

class GuardedNet(nn.Module):
    ready = False

    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi

    def forward(self, x):
        if not self.ready:
            self.ready = self.fc.bias.register_hook(torch.zeros_like)
        h = self.body(x)
        if h.grad_fn is not None:
            h.grad_fn.register_prehook(lambda grads: (grads[0].clamp(self.lo, self.hi),))
        return self.fc(h.flatten(1))
""",
    """
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi
        fc.bias.register_hook(torch.zeros_like)

    def forward(self, x):
        h = self.body(x)
        if h.requires_grad:
            h.register_hook(lambda grad: grad.clamp(self.lo, self.hi))
        return self.fc(h.flatten(1))
""",
    """
import torch

class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, lo, hi):
        ctx.bounds = lo, hi
        return h.view_as(h)
    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(*ctx.bounds), None, None

class GuardedNet(torch.nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.add_module("body", body)
        self.add_module("fc", fc)
        self.bounds = (lo, hi)
        self.handle = self.fc.bias.register_hook(lambda grad: grad * 0)

    def forward(self, x):
        h = Clamp.apply(self.body(x), *self.bounds)
        return self.fc(h.reshape(h.size(0), -1))
""",
    """
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body = body
        self.fc = fc
        def clamp(grad):
            return torch.clamp(grad, lo, hi)
        def watch(module, args, output):
            if output.requires_grad:
                output.register_hook(clamp)
        body.register_forward_hook(watch)
        fc.bias.register_hook(lambda grad: grad.new_zeros(grad.shape))

    def forward(self, x):
        return self.fc(torch.flatten(self.body(x), start_dim=1))
""",
    """
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc = body, fc
        body.register_full_backward_pre_hook(
            lambda module, grad_output: tuple(g if g is None else g.clamp(lo, hi) for g in grad_output)
        )
        fc.bias.register_hook(torch.zeros_like)

    def forward(self, x):
        h = self.body(x)
        return self.fc(h.reshape(h.size(0), -1))
""",
]

WRONG = [
    Wrong(
        "the shape of the last forward pass",
        violates="for any number of forward passes before or after a backward pass",
        check="raised",
        source=guarded_net(
            f"if h.requires_grad:\n            {ACTIVATION_HOOK}",
            "self.size = h.shape\n        if h.requires_grad:\n"
            "            h.register_hook(lambda grad: grad.clamp(self.lo, self.hi).reshape(self.size))",
        ),
    ),
    Wrong(
        "hooks the activation without a guard",
        violates="`forward` also works under `torch.no_grad()`",
        check="raised",
        mistake="hook-without-grad",
        source=guarded_net("if h.requires_grad:", "if True:"),
    ),
    Wrong(
        "a guard that asks for grad mode",
        violates="and when neither `body` nor `x` requires grad",
        check="raised",
        mistake="hook-without-grad",
        source=guarded_net("if h.requires_grad:", "if torch.is_grad_enabled():"),
    ),
    Wrong(
        "zeros in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="raised",
        mistake="changed-dtype",
        source=guarded_net("torch.zeros_like(grad)", "torch.zeros(grad.shape)"),
    ),
    Wrong(
        "zeros made beforehand",
        violates="after `net.double()`",
        check="raised",
        mistake="changed-dtype",
        source=guarded_net(
            BIAS_HOOK,
            "zeros = torch.zeros_like(fc.bias, requires_grad=False)\n        fc.bias.register_hook(lambda grad: zeros)",
        ),
    ),
    Wrong(
        "merges the samples",
        violates="This holds for any batch size",
        check="raised",
        mistake="flattened-the-batch",
        source=guarded_net("h.flatten(1)", "h.flatten()"),
    ),
    Wrong(
        "flattens by `view`",
        violates="rule 1: in any layout",
        check="raised",
        source=guarded_net("h.flatten(1)", "h.view(len(h), -1)"),
    ),
    Wrong(
        "clamps the activation",
        violates="returns `fc(body(x).flatten(1))`",
        check="test_forward_is_fc_after_body",
        mistake="clamped-the-activation",
        source=guarded_net("h = self.body(x)", "h = self.body(x).clamp(self.lo, self.hi)"),
    ),
    Wrong(
        "drops the clamped gradient",
        violates="The gradient that arrives at the output of `body` is clamped",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        mistake="forgot-return",
        source=guarded_net(ACTIVATION_HOOK, "h.register_hook(lambda grad: (grad.clamp(self.lo, self.hi), None)[1])"),
    ),
    Wrong(
        "drops the zeros",
        violates="The gradient of `fc.bias` is exactly zero",
        check="test_the_bias_gets_zeros_and_the_weight_its_gradient",
        mistake="forgot-return",
        source=guarded_net("lambda grad: torch.zeros_like(grad)", "lambda grad: None"),
    ),
    Wrong(
        "clamps the gradients of the parameters of the body",
        violates="before it goes on into `body`",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        mistake="parameter-grads",
        source=guarded_net(
            BIAS_HOOK,
            BIAS_HOOK
            + "\n        for p in body.parameters():\n            if p.requires_grad:\n"
            + "                p.register_hook(lambda grad: grad.clamp(lo, hi))",
        ).replace(ACTIVATION_HOOK, "pass"),
    ),
    Wrong(
        "freezes the bias",
        violates="it is a tensor of zeros afterwards",
        check="test_the_bias_gets_zeros_and_the_weight_its_gradient",
        mistake="bias-without-grad",
        source=guarded_net(BIAS_HOOK, "self.fc.bias.requires_grad_(False)"),
    ),
    Wrong(
        "hooks the bias in every pass",
        violates="their number does not grow from one forward pass to the next",
        check="test_nothing_else_changes",
        mistake="hook-in-forward",
        source=guarded_net(BIAS_HOOK, "pass").replace(
            "h = self.body(x)", "h = self.body(x)\n        if torch.is_grad_enabled():\n            " + BIAS_HOOK
        ),
    ),
    Wrong(
        "the plain network",
        violates="The gradient that arrives at the output of `body` is clamped",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        source=guarded_net(BIAS_HOOK, "pass").replace(ACTIVATION_HOOK, "pass"),
    ),
    Wrong(
        "every pass leaves a module hook behind",
        violates="their number does not grow from one forward pass to the next",
        check="test_nothing_else_changes",
        source=guarded_net(
            "h = self.body(x)", "self.fc.register_forward_hook(lambda *args: None)\n        h = self.body(x)"
        ),
    ),
    Wrong(
        "the weight gets zeros, too",
        violates="That of `fc.weight` is as usual.",
        check="test_the_bias_gets_zeros_and_the_weight_its_gradient",
        source=guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        fc.weight.register_hook(torch.zeros_like)"),
    ),
    Wrong(
        "the gradient of the weight is clamped, too",
        violates="That of `fc.weight` is as usual.",
        check="test_the_bias_gets_zeros_and_the_weight_its_gradient",
        source=guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        fc.weight.register_hook(lambda g: g.clamp(lo, hi))"),
    ),
    Wrong(
        "the upper bound only",
        violates="to the range from `lo` to `hi`",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        mistake="one-bound-only",
        source=guarded_net("grad.clamp(self.lo, self.hi)", "grad.clamp(max=self.hi)"),
    ),
    Wrong(
        "a bound of 0 counts as none",
        violates="`lo` and `hi` are numbers with `lo < hi`.",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        mistake="one-bound-only",
        source=guarded_net("grad.clamp(self.lo, self.hi)", "grad.clamp(self.lo or -1e9, self.hi or 1e9)"),
    ),
    Wrong(
        "clamps the norm",
        violates="element by element",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        source=guarded_net("grad.clamp(self.lo, self.hi)", "grad / grad.norm() * grad.norm().clamp(0, self.hi)"),
    ),
    Wrong(
        "clamps at the output of fc",
        violates="The gradient that arrives at the output of `body` is clamped",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        source=guarded_net(ACTIVATION_HOOK, "pass").replace(
            "return self.fc(h.flatten(1))",
            "out = self.fc(h.flatten(1))\n        if out.requires_grad:\n"
            "            out.register_hook(lambda grad: grad.clamp(self.lo, self.hi))\n        return out",
        ),
    ),
    Wrong(
        "clamps the gradient of the input",
        violates="before it goes on into `body`",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        source=guarded_net(
            "if h.requires_grad:", "if x.requires_grad and x.is_leaf and not self.__dict__.get('done'):"
        ).replace(ACTIVATION_HOOK, "self.done = x.register_hook(lambda grad: grad.clamp(self.lo, self.hi))"),
    ),
    Wrong(
        "calls neither module",
        violates="it calls both modules once, so that their hooks run",
        check="test_forward_is_fc_after_body",
        source=guarded_net("h = self.body(x)", "h = self.body.forward(x)").replace("self.fc(h", "self.fc.forward(h"),
    ),
    Wrong(
        "multiplies by the weight itself",
        violates="it calls both modules once, so that their hooks run",
        check="test_forward_is_fc_after_body",
        source=guarded_net("self.fc(h.flatten(1))", "nn.functional.linear(h.flatten(1), self.fc.weight, self.fc.bias)"),
    ),
    Wrong(
        "calls the body twice",
        violates="it calls both modules once, so that their hooks run",
        check="test_forward_is_fc_after_body",
        source=guarded_net("h = self.body(x)", "self.body(x)\n        h = self.body(x)"),
    ),
    Wrong(
        "bounds in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        source=guarded_net("self.hi = body, fc, lo, hi", "self.hi = body, fc, torch.tensor(lo), torch.tensor(hi)"),
    ),
    Wrong(
        "leaves the bias out",
        violates="returns `fc(body(x).flatten(1))`",
        check="test_forward_is_fc_after_body",
        source=guarded_net("self.fc(h.flatten(1))", "self.fc(h.flatten(1)) - self.fc.bias"),
    ),
    Wrong(
        "the bias becomes zero itself",
        violates="rule 2: A model keeps its parameters",
        check="test_nothing_else_changes",
        source=guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        fc.bias.data.zero_()"),
    ),
    Wrong(
        "children under other names",
        violates="become child modules under these names",
        check="test_forward_is_fc_after_body",
        source=GUARDED_NET.replace("self.body", "self.trunk"),
    ),
    Wrong(
        "plain attributes",
        violates="become child modules under these names",
        check="raised",
        source=guarded_net(
            "self.body, self.fc, self.lo, self.hi = body, fc, lo, hi",
            "self.__dict__.update(body=body, fc=fc, lo=lo, hi=hi)",
        ),
    ),
    Wrong(
        "hooks the first activation only",
        violates="any number of forward passes before or after a backward pass",
        check="test_it_works_pass_after_pass",
        source=guarded_net(
            "if h.requires_grad:",
            "if h.requires_grad and not self.__dict__.setdefault('done', []):\n            self.done.append(1)",
        ),
    ),
    Wrong(
        "hooks the latest activation only",
        violates="any number of forward passes before or after a backward pass",
        check="test_it_works_pass_after_pass",
        source=guarded_net(
            ACTIVATION_HOOK,
            "if self.__dict__.get('last'):\n                self.last.remove()\n            self.last = "
            + ACTIVATION_HOOK,
        ),
    ),
    Wrong(
        "guards in training mode only",
        violates="in training and in evaluation mode",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        source=guarded_net("if h.requires_grad:", "if h.requires_grad and self.training:"),
    ),
    Wrong(
        "guards only where `x` requires grad",
        violates="the others, and `x` if it requires grad, still get their gradient, through the clamp",
        check="test_it_works_with_data_that_requires_no_grad",
        source=guarded_net("if h.requires_grad:", "if h.requires_grad and x.requires_grad:"),
    ),
    Wrong(
        "guards a body that can be trained only",
        violates="Parameters of `body` may be frozen",
        check="test_it_works_with_a_frozen_body",
        source=guarded_net(
            "if h.requires_grad:", "if h.requires_grad and any(p.requires_grad for p in self.body.parameters()):"
        ),
    ),
    Wrong(
        "guards a body without frozen parameters only",
        violates="Parameters of `body` may be frozen",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        source=guarded_net(
            "if h.requires_grad:", "if h.requires_grad and all(p.requires_grad for p in self.body.parameters()):"
        ),
    ),
    Wrong(
        "not for two dimensions",
        violates="of shape `[batch, ...]` with two or more dimensions",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        source=guarded_net("if h.requires_grad:", "if h.requires_grad and h.dim() > 2:"),
    ),
    Wrong(
        "detaches the body",
        violates="before it goes on into `body`",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        source=guarded_net("h = self.body(x)", "h = self.body(x).detach()"),
    ),
    Wrong(
        "writes zeros into `.grad`, when the pass is over",
        violates="rule 5: `torch.autograd.grad`",
        check="test_the_bias_gets_zeros_and_the_weight_its_gradient",
        source=guarded_net(
            BIAS_HOOK, "fc.bias.register_post_accumulate_grad_hook(lambda p: [p.grad.zero_()] and None)"
        ),
    ),
    Wrong(
        "what goes on has no graph",
        violates="rule 5: then gradients can be differentiated again",
        check="test_the_gradient_can_be_differentiated_again",
        source=guarded_net("grad.clamp(self.lo, self.hi)", "grad.detach().clamp(self.lo, self.hi)"),
    ),
    Wrong(
        "does not clamp under `create_graph=True`",
        violates="rule 5: `backward(create_graph=True)`",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        source=guarded_net(
            "lambda grad: grad.clamp(self.lo, self.hi)",
            "lambda grad: None if torch.is_grad_enabled() else grad.clamp(self.lo, self.hi)",
        ),
    ),
    Wrong(
        "clamps in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_the_gradient_at_the_output_of_body_is_clamped",
        source=guarded_net("grad.clamp(self.lo, self.hi)", "grad.float().clamp(self.lo, self.hi).to(grad.dtype)"),
    ),
    Wrong(
        "one pair of bounds for all networks",
        violates="rule 1: on one object or on several at the same time",
        check="test_it_works_pass_after_pass",
        source=GUARDED_NET.replace("self.lo, self.hi", "GuardedNet.lo, GuardedNet.hi"),
    ),
    Wrong(
        "empties `.grad` first",
        violates="rule 2: What you were given stays as it was.",
        check="test_nothing_else_changes",
        source=guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        fc.bias.grad = None"),
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before",
        check="test_nothing_else_changes",
        source=guarded_net(BIAS_HOOK, "fc.bias._backward_hooks = None\n        " + BIAS_HOOK),
    ),
    Wrong(
        "swallows what the body raises",
        violates="rule 4: Errors come through.",
        check="test_nothing_else_changes",
        source=guarded_net(
            "h = self.body(x)",
            "try:\n            h = self.body(x)\n        except Exception:\n            return None",
        ),
    ),
    Wrong(
        "calls its argument by another name",
        violates="`forward(self, x)`",
        check="raised",
        source=guarded_net("def forward(self, x)", "def forward(self, inputs)").replace(
            "self.body(x)", "self.body(inputs)"
        ),
    ),
    Wrong(
        "switches autograd on and leaves it so",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_nothing_else_changes",
        source=guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        torch.set_grad_enabled(True)"),
    ),
    Wrong(
        "switches autograd on in `forward` and leaves it so",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_nothing_else_changes",
        source=guarded_net("h = self.body(x)", "h = self.body(x)\n        torch.set_grad_enabled(True)"),
    ),
    Wrong(
        "clamps in place: what a hook of the caller's has kept changes",
        violates="your hooks write into none",
        check="test_nothing_else_changes",
        source=guarded_net("grad.clamp(", "grad.clamp_("),
    ),
    Wrong(
        "writes zeros into the gradient of the bias",
        violates="your hooks write into none",
        check="test_nothing_else_changes",
        source=guarded_net(BIAS_HOOK, "fc.bias.register_hook(lambda grad: grad.zero_())"),
    ),
    Wrong(
        "detaches the gradient of the weight",
        violates="That of `fc.weight` is as usual.",
        check="test_the_gradient_can_be_differentiated_again",
        source=guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        fc.weight.register_hook(lambda grad: grad.detach())"),
    ),
]

GIVENS = [
    "Write a class `GuardedNet(nn.Module)`",
    "`fc` is an `nn.Linear` with a bias that requires grad.",
]

SURVIVORS = {
    "a hook left on a module": "the net is the learner's own, and may hook its parts when it is built",
    "a hook left on a tensor": "the same",
    "under no_grad": "to register a hook makes no graph",
    "truth for None: if": "an activation that requires grad has a `grad_fn`, and no other has one",
    "a hook that works at times: @_only_with_grad_mode def watch": "without grad mode there is nothing to hook",
    "prepend=True: body.register_full_backward_pre_hook": "the caller's watch alone there",
    "a list for a tuple: body.register_full_backward_pre_hook": "PyTorch takes either from this hook",
    "condition dropped: body.register_full_backward_pre_hook": "the only output of `body` has a gradient",
}
