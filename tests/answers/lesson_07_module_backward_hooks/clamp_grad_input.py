"""Answers to 07-clamp-grad-input."""

RIGHT = [
    """
def clamp_grad_input(module, c):
    def hook(module, grad_input, grad_output):
        return tuple(None if g is None else g.clamp(-c, c) for g in grad_input)
    return module.register_full_backward_hook(hook)
""",
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
    """
import torch
def clamp_grad_input(module, c):
    def guard(t):
        if not (torch.is_tensor(t) and t.requires_grad): return t
        t = t.clone()
        t.register_hook(lambda g: g.clamp(-c, c))
        return t
    def pre(module, args, kwargs):
        return tuple(guard(a) for a in args), {k: guard(v) for k, v in kwargs.items()}
    return module.register_forward_pre_hook(pre, with_kwargs=True)
""",
    """
import torch

class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, c):
        ctx.c = c
        return a.view_as(a)

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-ctx.c, ctx.c), None

def clamp_grad_input(module, c):
    def pre(m, args):
        return tuple(Fn.apply(a, c) if torch.is_tensor(a) and a.requires_grad else a for a in args)

    return module.register_forward_pre_hook(pre)
""",
]

WRONG = {
    "bare-tensor": """
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(lambda m, gi, go: gi[0].clamp(-c, c))
""",
    "forgot-return": """
def clamp_grad_input(module, c):
    def hook(module, grad_input, grad_output):
        clamped = tuple(None if g is None else g.clamp(-c, c) for g in grad_input)
    return module.register_full_backward_hook(hook)
""",
    "clamped-too-early": """
def clamp_grad_input(module, c):
    def hook(module, grad_output):
        return tuple(None if g is None else g.clamp(-c, c) for g in grad_output)
    return module.register_full_backward_pre_hook(hook)
""",
    "parameter-grads": """
def clamp_grad_input(module, c):
    handles = [p.register_hook(lambda g: g.clamp(-c, c)) for p in module.parameters()]
    class All:
        def remove(self):
            for h in handles:
                h.remove()
    return All()
""",
    "clamped-none": """
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(lambda m, gi, go: tuple(g.clamp(-c, c) for g in gi))
""",
    "wrong-length": """
def clamp_grad_input(module, c):
    def hook(module, grad_input, grad_output):
        return tuple(g.clamp(-c, c) for g in grad_input if g is not None)
    return module.register_full_backward_hook(hook)
""",
    "first-input-only": """
def clamp_grad_input(module, c):
    def hook(module, grad_input, grad_output):
        first = grad_input[0]
        return (None if first is None else first.clamp(-c, c), *grad_input[1:])
    return module.register_full_backward_hook(hook)
""",
    "in-place-leak": """
def clamp_grad_input(module, c):
    def hook(module, grad_input, grad_output):
        for g in grad_input:
            if g is not None:
                g.clamp_(-c, c)
    return module.register_full_backward_hook(hook)
""",
    "hooked-the-input": """
import torch
def clamp_grad_input(module, c):
    def pre(module, args):
        for a in args:
            if isinstance(a, torch.Tensor) and a.requires_grad:
                a.register_hook(lambda g: g.clamp(-c, c))
    return module.register_forward_pre_hook(pre)
""",
    "returned-grad-output": """
import torch
def clamp_grad_input(module, c):
    def hook(module, gi, go):
        return tuple(None if g is None else torch.clip(g, -c, c) for g in go)
    return module.register_full_backward_hook(hook)
""",
}

ALSO_WRONG = [
    "def clamp_grad_input(module, c):\n    return None",
    """
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.clamp(max=c) for g in gi))
""",
    """
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g * min(1.0, c / g.norm().item()) for g in gi))
""",
    """
def clamp_grad_input(module, c):
    module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.clamp(-c, c) for g in gi))
""",
    """
import torch
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(torch.zeros(1) if g is None else g.clamp(-c, c) for g in gi))
""",
    """
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.float().clamp(-c, c) for g in gi))
""",
    """
def clamp_grad_input(module, c):
    def hook(m, gi, go):
        handle.remove()
        return tuple(None if g is None else g.clamp(-c, c) for g in gi)
    handle = module.register_full_backward_hook(hook)
    return handle
""",
    """
def clamp_grad_input(module, c):
    def hook(m, gi, go):
        if any(g is None for g in gi): return None
        return tuple(g.clamp(-c, c) for g in gi)
    return module.register_full_backward_hook(hook)
""",
    """
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(g.clamp(-c, c) if g is not None else g for g in gi) if m.training else None
    )
""",
    """
def clamp_grad_input(module, c):
    hs = [
        m.register_full_backward_hook(
            lambda m, gi, go: tuple(g.clamp(-c, c) if g is not None else g for g in gi)
        )
        for m in module.modules()
    ]

    class H:
        def remove(self):
            for h in hs:
                h.remove()

    return H()
""",
]
