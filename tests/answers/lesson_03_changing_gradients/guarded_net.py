"""Answers to 03-guarded-net."""

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
        return self.fc(h.view(h.size(0), -1))
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
import torch.nn.functional as F

class GuardedNet(torch.nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc = body, fc
        self.lo, self.hi = lo, hi

    def forward(self, x):
        flat = self.body(x).flatten(1)
        if flat.requires_grad:
            flat.register_hook(lambda g: g.clamp(min=self.lo, max=self.hi))
        # No hook on the bias: its value is used, and its gradient is 0 times something.
        return F.linear(flat, self.fc.weight, self.fc.bias.detach() + 0 * self.fc.bias)
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
        return self.fc(h.view(h.size(0), -1))
""",
]

WRONG = {
    "hook-without-grad": guarded_net("if h.requires_grad:", "if True:"),
    "changed-dtype": guarded_net("torch.zeros_like(grad)", "torch.zeros(grad.shape)"),
    "flattened-the-batch": guarded_net("h.flatten(1)", "h.view(-1)"),
    "clamped-the-activation": guarded_net("h = self.body(x)", "h = self.body(x).clamp(self.lo, self.hi)"),
    "forgot-return": guarded_net(
        ACTIVATION_HOOK, "h.register_hook(lambda grad: (grad.clamp(self.lo, self.hi), None)[1])"
    ),
    "parameter-grads": guarded_net(
        BIAS_HOOK,
        BIAS_HOOK
        + "\n        for p in body.parameters():\n            p.register_hook(lambda grad: grad.clamp(lo, hi))",
    ).replace(ACTIVATION_HOOK, "pass"),
    "bias-without-grad": guarded_net(BIAS_HOOK, "self.fc.bias.requires_grad_(False)"),
    "hook-in-forward": guarded_net(BIAS_HOOK, "pass").replace(
        "h = self.body(x)", "h = self.body(x)\n        if torch.is_grad_enabled():\n            " + BIAS_HOOK
    ),
}

ALSO_WRONG = [
    # No guard at all: the plain network.
    """
from torch import nn
class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc = body, fc
    def forward(self, x):
        return self.fc(self.body(x).flatten(1))
""",
    # The bias keeps its gradient.
    guarded_net(BIAS_HOOK, "pass"),
    # The hook on the bias drops its result.
    guarded_net("lambda grad: torch.zeros_like(grad)", "lambda grad: None"),
    # Every pass leaves a module hook behind.
    guarded_net("h = self.body(x)", "self.fc.register_forward_hook(lambda *args: None)\n        h = self.body(x)"),
    # The weight gets no gradient, either.
    guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        fc.weight.register_hook(torch.zeros_like)"),
    # Everything of fc is clamped, too.
    guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        fc.weight.register_hook(lambda g: g.clamp(lo, hi))"),
    # Only the upper bound.
    guarded_net("grad.clamp(self.lo, self.hi)", "grad.clamp(max=self.hi)"),
    # The gradient at the output of fc is clamped instead.
    """
import torch
from torch import nn
class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi
        fc.bias.register_hook(torch.zeros_like)
    def forward(self, x):
        out = self.fc(self.body(x).flatten(1))
        if out.requires_grad:
            out.register_hook(lambda grad: grad.clamp(self.lo, self.hi))
        return out
""",
    # The input's gradient is clamped instead.
    guarded_net(
        "h = self.body(x)",
        "h = self.body(x)\n        if x.requires_grad:\n            "
        "x.register_hook(lambda grad: grad.clamp(self.lo, self.hi))",
    ).replace("if h.requires_grad:\n            " + ACTIVATION_HOOK, "pass"),
    # Zeros made beforehand do not follow net.double().
    guarded_net(
        BIAS_HOOK,
        "zeros = torch.zeros_like(fc.bias, requires_grad=False)\n        fc.bias.register_hook(lambda grad: zeros)",
    ),
    # The bias is left out of forward.
    guarded_net("self.fc(h.flatten(1))", "h.flatten(1) @ self.fc.weight.T"),
    # The bias becomes zero itself.
    guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        fc.bias.data.zero_()"),
    # Children under other names.
    GUARDED_NET.replace("self.body", "self.trunk"),
    # The activation is hooked in the first pass only.
    guarded_net(
        "if h.requires_grad:",
        "if h.requires_grad and not self.__dict__.setdefault('done', []):\n            self.done.append(1)",
    ),
    # Guards only in training mode.
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
        if self.training and h.requires_grad:
            h.register_hook(lambda grad: grad.clamp(self.lo, self.hi))
        return self.fc(h.flatten(1))
""",
]
