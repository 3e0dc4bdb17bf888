"""Answers to 03-reverse-gradient."""

from graders.author.answers import Wrong

RIGHT = [
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
def reverse_gradient(x, lam):
    y = x[...]
    if y.requires_grad:  # a view of an `x` that requires grad does, under `no_grad` as well
        y.register_hook(lambda grad: grad * -lam)
    return y
""",
    """
from torch import nn

def reverse_gradient(x, lam):
    identity = nn.Identity()
    identity.register_full_backward_hook(lambda module, grad_input, grad_output: (-lam * grad_input[0],))
    return identity(x)
""",
]

WRONG = [
    Wrong(
        "flattens by `view(-1)`, which takes contiguous gradients only",
        violates="tensors of any shape and layout",
        check="raised",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad.view(-1).view(grad.shape))
    return y
""",
    ),
    Wrong(
        "retains the gradient of `x`",
        violates="Leave what you were given as you found it",
        check="test_x_is_left_as_it_was",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        x.retain_grad()
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "records a graph under `no_grad`",
        violates="under `torch.no_grad()`, where no graph is recorded",
        check="test_without_gradients_the_values_come_back",
        source="""
import torch

@torch.enable_grad()
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "adds 1 and takes it away",
        violates="its values may be rounded as `lam * x` is",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    y = x + 1 - 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
]

SURVIVORS = {
    "almost: y = x / 1": "the same values, and the same gradient",
    "truth for None: if _for_requires_grad(y, 'grad_fn')": (
        "what an operation has made takes a hook of any use where it has a `grad_fn`"
    ),
}
