"""Answers to 01-branch-grads."""

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
        return lambda grad: found.update({name: grad.detach().clone()})
    for name, t in (("w", w), ("x", x), ("a", a), ("b", b)):
        t.register_hook(keep(name))
    (a * b).sum().backward()
    return found
""",
    """
def branch_grads(w, x):
    with __import__("torch").no_grad():
        a, b = w + x, w + 1
        return {"w": a + b, "x": b.clone(), "a": b.clone(), "b": a.clone()}
""",
    """
from contextlib import ExitStack
from functools import partial

def branch_grads(w, x):
    w, x = (t.detach().clone().requires_grad_() for t in (w, x))
    parts = {"w": w, "x": x, "a": w + x, "b": w + 1}
    grads = {}
    with ExitStack() as stack:
        for name, t in parts.items():
            stack.enter_context(t.register_hook(partial(grads.__setitem__, name)))
        (parts["a"] * parts["b"]).sum().backward()
    return grads
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

WRONG = {
    "retained-too-late": """
def branch_grads(w, x):
    a, b = w + x, w + 1
    (a * b).sum().backward()
    a.retain_grad()
    b.retain_grad()
    return {"w": w.grad, "x": x.grad, "a": a.grad, "b": b.grad}
""",
    "retained-a-copy": """
def branch_grads(w, x):
    a, b = w + x, w + 1
    copy = a * 1
    copy.retain_grad()
    b.retain_grad()
    (a * b).sum().backward()
    return {"w": w.grad, "x": x.grad, "a": copy.grad, "b": b.grad}
""",
    "values-not-gradients": """
def branch_grads(w, x):
    a, b = w + x, w + 1
    (a * b).sum().backward()
    return {"w": w.grad, "x": x.grad, "a": a.detach(), "b": b.detach()}
""",
    "retained-only-one": """
def branch_grads(w, x):
    a, b = w + x, w + 1
    a.retain_grad()
    (a * b).sum().backward()
    return {"w": w.grad, "x": x.grad, "a": a.grad, "b": b.grad}
""",
}

ALSO_WRONG = [
    "def branch_grads(w, x):\n    return {'w': w * 0, 'x': x * 0, 'a': w * 0, 'b': x * 0}",
    "def branch_grads(w, x):\n    return None",
    "def branch_grads(w, x):\n    return {'w': w + x + w + 1, 'x': w + 1, 'a': w + 1, 'b': w + x}",
    "def branch_grads(w, x):\n    return {'w': 5.0, 'x': 2.0, 'a': 2.0, 'b': 3.0}",
    """
import torch
def branch_grads(w, x):
    a, b = w + x, w + 1
    grads = dict(zip("wxab", torch.autograd.grad((a * b).sum(), (w, x, a, b))))
    w.data.zero_()
    return grads
""",
]
