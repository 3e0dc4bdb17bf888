"""Answers to 03-reverse-gradient."""

RIGHT = [
    """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    """
import torch

class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return -ctx.lam * grad, None

def reverse_gradient(x, lam):
    return Reverse.apply(x, lam)
""",
    """
from functools import partial

def turn(factor, grad):
    return grad.mul(factor)

def reverse_gradient(x, lam):
    y = x.clone()
    if not y.requires_grad:
        return y
    y.register_hook(partial(turn, -lam))
    return y
""",
    """
import torch

def reverse_gradient(x, lam):
    if not (x.requires_grad and torch.is_grad_enabled()):
        return x
    y = x.view_as(x)
    y.register_hook(lambda grad: grad.neg() * lam)
    return y
""",
    """
def reverse_gradient(x, lam):
    away = -lam * x
    return away + (x - away).detach()
""",
    """
import torch

class Turn:
    def __init__(self, lam):
        self.lam = lam
    def __call__(self, grad):
        return torch.neg(grad).mul_(self.lam)

def reverse_gradient(x, lam):
    y = x + torch.zeros_like(x)
    try:
        y.register_hook(Turn(lam))
    except RuntimeError:
        pass
    return y
""",
    """
from torch import nn

def reverse_gradient(x, lam):
    identity = nn.Identity()
    identity.register_full_backward_hook(lambda module, grad_input, grad_output: (-lam * grad_input[0],))
    return identity(x)
""",
    """
import torch

def reverse_gradient(x, lam):
    if not (torch.is_grad_enabled() and x.requires_grad):
        return x
    y = x + 0
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: tuple(g if g is None else -lam * g for g in grad_inputs))
    return y
""",
]

WRONG = {
    "hooked-the-input": """
def reverse_gradient(x, lam):
    if x.requires_grad:
        x.register_hook(lambda grad: -lam * grad)
    return x * 1
""",
    "changed-forward": """
def reverse_gradient(x, lam):
    return -lam * x
""",
    "forgot-sign": """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: lam * grad)
    return y
""",
    "in-place-leak": """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: grad.mul_(-lam))
    return y
""",
    "forgot-return": """
def reverse_gradient(x, lam):
    y = x * 1
    def hook(grad):
        grad = -lam * grad
    if y.requires_grad:
        y.register_hook(hook)
    return y
""",
    "cut-from-x": """
def reverse_gradient(x, lam):
    y = x.detach().clone().requires_grad_()
    y.register_hook(lambda grad: -lam * grad)
    return y
""",
    "hook-without-grad": """
def reverse_gradient(x, lam):
    y = x * 1
    y.register_hook(lambda grad: -lam * grad)
    return y
""",
}

ALSO_WRONG = [
    "def reverse_gradient(x, lam):\n    return x",
    # Hooks x and returns x.
    """
def reverse_gradient(x, lam):
    if x.requires_grad:
        x.register_hook(lambda grad: -lam * grad)
    return x
""",
    "def reverse_gradient(x, lam):\n    return -x",
    "def reverse_gradient(x, lam):\n    return x.detach()",
    # lam is forgotten.
    """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -grad)
    return y
""",
    # Changes x.
    """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    x.data += 1
    return y
""",
    # Copies an expanded gradient, and writes into every other one.
    """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: grad.contiguous().mul_(-lam))
    return y
""",
    # The gradient is reversed twice for what comes later.
    """
def reverse_gradient(x, lam):
    y = x * 1
    z = y * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
        z.register_hook(lambda grad: -lam * grad)
    return z
""",
    # lam is kept on the class: a second call changes it for the first.
    """
import torch

class Reverse(torch.autograd.Function):
    lam = 1.0
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return -Reverse.lam * grad

def reverse_gradient(x, lam):
    Reverse.lam = lam
    return Reverse.apply(x)
""",
    # Switches gradients on for everyone.
    """
import torch

def reverse_gradient(x, lam):
    torch.set_grad_enabled(True)
    y = x.clone()
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    # Makes x require grad.
    """
def reverse_gradient(x, lam):
    x.requires_grad_(True)
    y = x.clone()
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
]
