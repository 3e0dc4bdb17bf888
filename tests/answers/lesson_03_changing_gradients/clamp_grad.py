"""Answers to 03-clamp-grad."""

RIGHT = [
    """
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo, hi))
""",
    """
import torch

def clamp_grad(t, lo, hi):
    def limit(grad):
        grad = torch.where(grad < lo, torch.full_like(grad, lo), grad)
        return torch.where(grad > hi, torch.full_like(grad, hi), grad)
    return t.register_hook(limit)
""",
    """
from functools import partial
import torch

def clamp_grad(t, lo, hi):
    return t.register_hook(partial(torch.clamp, min=lo, max=hi))
""",
    """
class Limiter:
    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi
    def __call__(self, grad):
        return grad.clone().clamp_(self.lo, self.hi)

def clamp_grad(t, lo, hi):
    return t.register_hook(Limiter(lo, hi))
""",
    """
class Both:
    def __init__(self, *handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def clamp_grad(t, lo, hi):
    return Both(t.register_hook(lambda g: g.clamp(min=lo)), t.register_hook(lambda g: g.clamp(max=hi)))
""",
    """
class Both:
    def __init__(self, *handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def clamp_grad(t, lo, hi):
    return Both(
        t.register_hook(lambda grad: grad.clamp(min=lo)),
        t.register_hook(lambda grad: grad.clamp(max=hi)),
    )
""",
]

WRONG = {
    "in-place-leak": """
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp_(lo, hi))
""",
    "forgot-return": """
def clamp_grad(t, lo, hi):
    def hook(grad):
        grad.clamp(lo, hi)
    return t.register_hook(hook)
""",
    "clamped-the-total": """
def clamp_grad(t, lo, hi):
    def hook(p):
        p.grad = p.grad.clamp(lo, hi)
    return t.register_post_accumulate_grad_hook(hook)
""",
    "norm-not-elements": """
def clamp_grad(t, lo, hi):
    def hook(grad):
        norm = grad.norm().item()
        return grad * (hi / norm) if norm > hi else grad
    return t.register_hook(hook)
""",
    "hooked-a-copy": """
def clamp_grad(t, lo, hi):
    return (t * 1).register_hook(lambda grad: grad.clamp(lo, hi))
""",
    "changed-values": """
def clamp_grad(t, lo, hi):
    t.data.clamp_(lo, hi)
    return t.register_hook(lambda grad: grad)
""",
    "changed-dtype": """
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo, hi).float())
""",
}

ALSO_WRONG = [
    "def clamp_grad(t, lo, hi):\n    return t.register_hook(lambda grad: grad.clamp(-hi, hi))",
    "def clamp_grad(t, lo, hi):\n    return t.register_hook(lambda grad: grad.clamp(max=hi))",
    "def clamp_grad(t, lo, hi):\n    return t.register_hook(lambda grad: grad.contiguous().clamp_(lo, hi))",
    "def clamp_grad(t, lo, hi):\n    t.register_hook(lambda grad: grad.clamp(lo, hi))",
    # Keeps the running total within the bounds.
    """
def clamp_grad(t, lo, hi):
    def hook(grad):
        old = 0 if not t.is_leaf or t.grad is None else t.grad
        return (old + grad).clamp(lo, hi) - old
    return t.register_hook(hook)
""",
    # Sets what is out of range to zero.
    """
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad * ((grad >= lo) & (grad <= hi)))
""",
    # Right dtype, with the accuracy of another one.
    """
import torch

def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.to(torch.float32).clamp(lo, hi).to(grad.dtype))
""",
    # Global bounds: a second call changes those of the first.
    """
bounds = {}

def clamp_grad(t, lo, hi):
    bounds.update(min=lo, max=hi)
    return t.register_hook(lambda grad: grad.clamp(**bounds))
""",
]
