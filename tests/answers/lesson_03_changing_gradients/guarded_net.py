"""Answers to 03-guarded-net."""

from graders.author.answers import Wrong

RIGHT = [
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
        self.trunk = body
        self.head = fc
        def clamp(grad):
            return torch.clamp(grad, lo, hi)
        def watch(module, args, output):
            if output.requires_grad:
                output.register_hook(clamp)
        body.register_forward_hook(watch)
        fc.bias.register_hook(lambda grad: grad.new_zeros(grad.shape))

    def forward(self, x):
        return self.head(torch.flatten(self.trunk(x), start_dim=1))
""",
    """
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.parts = nn.ModuleList([body, fc])
        body.register_full_backward_pre_hook(
            lambda module, grad_output: tuple(g if g is None else g.clamp(lo, hi) for g in grad_output)
        )
        fc.bias.register_hook(torch.zeros_like)

    def forward(self, x):
        body, fc = self.parts
        h = body(x)
        return fc(h.reshape(h.size(0), -1))
""",
]

WRONG = [
    Wrong(
        "guards only where `x` requires grad",
        violates="The gradient at the output of `body` is clamped",
        check="test_it_works_with_data_that_requires_no_grad",
        source="""
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi
        self.fc.bias.register_hook(lambda grad: torch.zeros_like(grad))

    def forward(self, x):
        h = self.body(x)
        if h.requires_grad and x.requires_grad:
            h.register_hook(lambda grad: grad.clamp(self.lo, self.hi))
        return self.fc(h.flatten(1))
""",
    ),
    Wrong(
        "runs everything once more",
        violates="Call both once in `forward`",
        check="test_forward_is_fc_after_body",
        source="""
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi
        self.fc.bias.register_hook(torch.zeros_like)

    def forward(self, x):
        self.fc(self.body(x).flatten(1))
        h = self.body(x)
        if h.requires_grad:
            h.register_hook(lambda grad: grad.clamp(self.lo, self.hi))
        return self.fc(h.flatten(1))
""",
    ),
]

SURVIVORS = {
    "a hook left on a module": "the net is the learner's own, and may hook its parts when it is built",
    "a hook left on a tensor": "the net is the learner's own, and may hook its parts when it is built",
    "a hook that works at times: @_only_with_grad_mode def watch": "without grad mode there is nothing to hook",
    "condition dropped: body.register_full_backward_pre_hook": "the only output of `body` has a gradient",
}
