"""Answers to 01-branch-grads."""

from graders.author.answers import Wrong

RIGHT = [
    """
def branch_grads(w, x):
    a = w + x
    b = w + 1
    a.retain_grad()
    b.retain_grad()
    (a * b).sum().backward()
    return {"w": w.grad, "x": x.grad, "a": a.grad, "b": b.grad}
""",
    """
import torch

def branch_grads(w, x):
    a, b = w + x, w + 1
    grads = torch.autograd.grad((a * b).sum(), [w, x, a, b])
    return dict(zip(["w", "x", "a", "b"], grads))
""",
    """
def branch_grads(w, x):
    found = {}
    a, b = w + x, w + 1
    def keep(name):
        return lambda grad: found.update({name: grad.detach()})
    handles = [t.register_hook(keep(name)) for name, t in (("w", w), ("x", x), ("a", a), ("b", b))]
    try:
        (a * b).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    """
from collections import OrderedDict
import torch

@torch.no_grad()
def branch_grads(w, x):
    return OrderedDict(b=w + x, a=w + 1, x=w + 1, w=2 * w + x + 1)
""",
    """
import torch

def branch_grads(w, x):
    def y(w, x, to_a, to_b):
        return ((w + x + to_a) * (w + 1 + to_b)).sum()
    zero = torch.zeros_like(w)
    grads = torch.func.grad(y, argnums=(0, 1, 2, 3))(w.detach(), x.detach(), zero, zero)
    return dict(zip("wxab", grads))
""",
]

WRONG = [
    Wrong(
        "one list for all calls",
        violates="as often as it likes",
        check="test_another_call_starts_afresh",
        source="""
parts = []

def branch_grads(w, x):
    parts[:] = [w, x, w + x, w + 1]
    for part in parts[2:]:
        part.retain_grad()
    (parts[2] * parts[3]).sum().backward()
    return {name: part.grad for name, part in zip("wxab", parts)}
""",
    ),
]

SURVIVORS = {
    "not for all: for handle in _part(handles, stop=": "the hooks that are left sit on `a` and `b`, which nobody sees",
}
