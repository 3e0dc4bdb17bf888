"""Answers to 03-clamp-grad."""

from graders.author.answers import Wrong

RIGHT = [
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
import torch

def clamp_grad(t, lo, hi):
    low, high = torch.tensor([lo, hi], dtype=t.dtype)
    return t.register_hook(lambda grad: grad.maximum(low).minimum(high))
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
]

WRONG = [
    Wrong(
        "a second call replaces the first",
        violates="as often as it likes",
        check="test_any_tensor_and_several_at_a_time",
        source="""
handles = {}

def clamp_grad(t, lo, hi):
    if id(t) in handles:
        handles[id(t)].remove()
    handles[id(t)] = t.register_hook(lambda grad: grad.clamp(lo, hi))
    return handles[id(t)]
""",
    ),
]

SURVIVORS = {
    "almost: grad = torch.where(grad <= lo": "at the bound, the bound is the value",
    "almost: return torch.where(": "at a bound both are the bound",
}
