"""Answers to 07-clamp-grad-input."""

from graders.author.answers import Wrong

RIGHT = [
    """
import torch

class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, c):
        ctx.c = c
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return g.clamp(-ctx.c, ctx.c), None

def clamp_grad_input(module, c):
    def pre(module, args):
        return tuple(Clamp.apply(a, c) if isinstance(a, torch.Tensor) else a for a in args)
    return module.register_forward_pre_hook(pre)
""",
    """
import torch
from functools import partial

def limit(c, module, gi, go):
    if all(g is None for g in gi):
        return None
    return [torch.clamp(g, min=-c, max=c) if g is not None else g for g in gi]

def clamp_grad_input(module, c):
    return module.register_full_backward_hook(partial(limit, c))
""",
    """
import torch

def clamp_grad_input(module, c):
    def pre(module, args):
        new = []
        for a in args:
            if isinstance(a, torch.Tensor) and a.requires_grad and torch.is_grad_enabled():
                a = a.view_as(a)
                a.register_hook(lambda g: g.clamp(-c, c))
            new.append(a)
        return tuple(new)
    return module.register_forward_pre_hook(pre)
""",
]

WRONG = [
    Wrong(
        "nothing goes on where the gradient is zero",
        violates="is clamped elementwise to [-c, c] before it goes on",
        check="test_every_pass_is_clamped",
        source="""
def clamp_grad_input(module, c):
    def hook(module, gi, go):
        return tuple(g.clamp(-c, c) if g is not None and g.any() else None for g in gi)
    return module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "clamps inputs by keyword, too",
        violates="one passed by keyword is left alone",
        check="test_several_inputs_and_outputs,_in_any_layout",
        source="""
import torch
def clamp_grad_input(module, c):
    def guard(t):
        if not (torch.is_tensor(t) and t.requires_grad and torch.is_grad_enabled()): return t
        t = t.clone()
        t.register_hook(lambda g: g.clamp(-c, c))
        return t
    def pre(module, args, kwargs):
        return tuple(guard(a) for a in args), {k: guard(v) for k, v in kwargs.items()}
    return module.register_forward_pre_hook(pre, with_kwargs=True)
""",
    ),
    Wrong(
        "makes each input require grad",
        violates="Leave what you were given as you found it",
        check="test_nothing_else_changes",
        source="""
import torch

def clamp_grad_input(module, c):
    def pre(module, args):
        def fresh(a):
            if not (torch.is_tensor(a) and a.is_floating_point() and torch.is_grad_enabled()):
                return a
            a = a.clone().requires_grad_()
            a.register_hook(lambda g: g.clamp(-c, c))
            return a
        return tuple(map(fresh, args))
    return module.register_forward_pre_hook(pre, prepend=True)
""",
    ),
]

SURVIVORS = {
    "a hook that works at times: @_only_with_grad_mode def pre(": "without grad mode no gradient comes",
    "not for all: if all(": "where one tensor requires grad, PyTorch gives the gradients of all",
    "prepend=True": "pre-hooks of others only watch",
}
