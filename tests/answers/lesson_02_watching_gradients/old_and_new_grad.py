"""Answers to 02-old-and-new-grad."""

RIGHT = [
    """
def old_and_new_grad(x, k, loss_fn):
    seen = {}
    t = 3 * x
    t.register_hook(lambda grad: seen.update(old=grad.clone()))
    t.mul_(k)
    t.register_hook(lambda grad: seen.update(new=grad.clone()))
    loss_fn(t).backward()
    return seen["old"], seen["new"]
""",
    """
def old_and_new_grad(x, k, loss_fn):
    seen = []
    t = 3 * x
    t.register_hook(seen.append)
    t.retain_grad()
    t *= k
    loss_fn(t).backward()
    return seen[0], t.grad
""",
    """
def old_and_new_grad(x, k, loss_fn):
    old = 3 * x
    new = old * k
    old.retain_grad()
    new.retain_grad()
    loss_fn(new).backward()
    return (old.grad, new.grad)
""",
    """
from typing import NamedTuple
import torch

class Pair(NamedTuple):
    old: torch.Tensor
    new: torch.Tensor

def old_and_new_grad(x, k, loss_fn):
    old = 3 * x
    new = k * old
    loss_fn(new).backward(inputs=(x, old, new))
    return Pair(old=old.grad, new=new.grad)
""",
    """
import torch

def old_and_new_grad(x, k, loss_fn):
    t = 3 * x
    t *= k
    x.grad, new = torch.autograd.grad(loss_fn(t), (x, t))
    return x.grad / 3, new
""",
]

WRONG = {
    "hook-after-in-place": """
def old_and_new_grad(x, k, loss_fn):
    seen = []
    t = 3 * x
    t.mul_(k)
    t.register_hook(lambda grad: seen.append(grad.clone()))
    t.retain_grad()
    loss_fn(t).backward()
    return seen[0], t.grad
""",
    "swapped-pair": """
def old_and_new_grad(x, k, loss_fn):
    seen = []
    t = 3 * x
    t.register_hook(lambda grad: seen.append(grad.clone()))
    t.mul_(k)
    t.retain_grad()
    loss_fn(t).backward()
    return t.grad, seen[0]
""",
    "multiplied-out-of-sight": """
def old_and_new_grad(x, k, loss_fn):
    seen = {}
    t = 3 * x
    t.register_hook(lambda grad: seen.update(old=grad.clone()))
    t.data.mul_(k)
    t.register_hook(lambda grad: seen.update(new=grad.clone()))
    loss_fn(t).backward()
    return seen["old"], seen["new"]
""",
}

ALSO_WRONG = [
    """
def old_and_new_grad(x, k, loss_fn):
    t = 3 * x * k
    loss_fn(t).backward()
    return x.grad / 3, x.grad / 3 / k / k
""",
    """
import torch
def old_and_new_grad(x, k, loss_fn):
    old = 3 * x
    new = old * k
    return torch.autograd.grad(loss_fn(new), [old, new])
""",
    """
def old_and_new_grad(x, k, loss_fn):
    x.register_hook(lambda grad: None)
    old = 3 * x
    new = old * k
    old.retain_grad()
    new.retain_grad()
    loss_fn(new).backward()
    return old.grad, new.grad
""",
]
