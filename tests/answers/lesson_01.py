"""Answers to the exercises of lesson 1."""

RIGHT = {
    "01-branch-grads": [
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
    ],
    "01-chain-grads": [
        """
import torch

def chain_grads(fns, x):
    inputs, outputs, h = [], [], x
    for fn in fns:
        inputs.append(h.detach().requires_grad_())
        h = fn(inputs[-1])
        outputs.append(h)
    grads, grad = [], torch.ones_like(h)
    for before, after in zip(reversed(inputs), reversed(outputs)):
        grads.insert(0, grad)
        (grad,) = torch.autograd.grad(after, before, grad)
    x.grad = grad
    return grads
""",
        """
from itertools import accumulate

def chain_grads(fns, x):
    steps = list(accumulate(fns, lambda h, fn: fn(h), initial=x))
    steps[-1].sum().backward(inputs=steps)
    return [h.grad for h in steps[1:]]
""",
        """
def chain_grads(fns, x):
    steps, h = [], x
    for fn in fns:
        h = fn(h)
        h.retain_grad()
        steps.append(h)
    h.sum().backward()
    return [h.grad for h in steps]
""",
        """
import torch

class Keeper:
    def __init__(self, size):
        self.grads = [None] * size
    def at(self, index):
        def hook(grad):
            self.grads[index] = grad.detach().clone()
        return hook

def chain_grads(fns, x):
    keeper, h = Keeper(len(fns)), x
    for index, fn in enumerate(fns):
        h = fn(h)
        h.register_hook(keeper.at(index))
    torch.sum(h).backward()
    return keeper.grads
""",
        """
import torch

def chain_grads(fns, x):
    steps = [x]
    for fn in fns:
        steps.append(fn(steps[-1]))
    first, *rest = torch.autograd.grad(steps[-1].sum(), steps)
    x.grad = first if x.grad is None else x.grad + first
    return list(rest)
""",
    ],
    "01-per-pass-grads": [
        """
def per_pass_grads(p, losses):
    store = []
    def take(p):
        store.append(p.grad)
        p.grad = None
    p.grad = None
    with p.register_post_accumulate_grad_hook(take):
        for loss in losses:
            loss(p).backward()
    return store
""",
        """
import torch

def per_pass_grads(p, losses):
    return [torch.func.grad(loss)(p.detach().clone()) for loss in losses]
""",
        """
def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        p.grad = None
        loss(p).backward()
        grads.append(p.grad.clone())
    return grads
""",
        """
import torch

def per_pass_grads(p, losses):
    return [torch.autograd.grad(loss(p), p)[0].clone() for loss in losses]
""",
        """
from functools import partial

def note(store, grad):
    store.append(grad.detach().clone())

def per_pass_grads(p, losses):
    store = []
    with p.register_hook(partial(note, store)):
        for loss in losses:
            loss(p).backward()
    return store
""",
        """
def per_pass_grads(p, losses):
    out = []
    for loss in losses:
        q = p.detach().clone().requires_grad_()
        loss(q).backward()
        out.append(q.grad)
    return out
""",
    ],
}

WRONG = {
    "01-branch-grads": {
        "retained-only-one": """
def branch_grads(w, x):
    a, b = w + x, w + 1
    a.retain_grad()
    (a * b).sum().backward()
    return {"w": w.grad, "x": x.grad, "a": a.grad, "b": b.grad}
""",
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
    },
    "01-chain-grads": {
        "cut-between-steps": """
def chain_grads(fns, x):
    steps, h = [], x
    for fn in fns:
        h = fn(h.detach().requires_grad_())
        h.retain_grad()
        steps.append(h)
    h.sum().backward()
    return [h.grad for h in steps]
""",
        "retained-only-last": """
def chain_grads(fns, x):
    steps, h = [], x
    for fn in fns:
        h = fn(h)
        steps.append(h)
    h.retain_grad()
    h.sum().backward()
    return [h.grad for h in steps]
""",
        "reversed-list": """
def chain_grads(fns, x):
    grads, h = [], x
    for fn in fns:
        h = fn(h)
        h.register_hook(lambda grad: grads.append(grad.clone()))
    h.sum().backward()
    return grads
""",
    },
    "01-per-pass-grads": {
        "accumulated-grad": """
def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        loss(p).backward()
        grads.append(p.grad.clone())
    return grads
""",
        "stored-alias": """
def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        if p.grad is not None:
            p.grad.zero_()
        loss(p).backward()
        grads.append(p.grad)
    return grads
""",
    },
}

# Wrong in ways that no listed mistake describes: they must fail all the same.
ALSO_WRONG = {
    "01-branch-grads": [
        """
import torch
def branch_grads(w, x):
    a, b = w + x, w + 1
    grads = dict(zip("wxab", torch.autograd.grad((a * b).sum(), (w, x, a, b))))
    w.data.zero_()
    return grads
""",
        "def branch_grads(w, x):\n    return {'w': w * 0, 'x': x * 0, 'a': w * 0, 'b': x * 0}",
        "def branch_grads(w, x):\n    return None",
        "def branch_grads(w, x):\n    return {'w': w + x + w + 1, 'x': w + 1, 'a': w + 1, 'b': w + x}",
        "def branch_grads(w, x):\n    return {'w': 5.0, 'x': 2.0, 'a': 2.0, 'b': 3.0}",
    ],
    "01-chain-grads": [
        """
def chain_grads(fns, x):
    x.register_hook(lambda grad: None)
    steps = [x]
    for fn in fns:
        steps.append(fn(steps[-1]))
    steps[-1].sum().backward(inputs=steps)
    return [h.grad for h in steps[1:]]
""",
        """
def chain_grads(fns, x):
    steps, h = [], x
    for fn in fns:
        h = fn(h.detach())
        h.retain_grad()
        steps.append(h)
    h.sum().backward()
    return [h.grad for h in steps]
""",
        "def chain_grads(fns, x):\n    return []",
        """
def chain_grads(fns, x):
    import torch
    steps = [x]
    for fn in fns:
        steps.append(fn(steps[-1]))
    return list(torch.autograd.grad(steps[-1].sum(), steps[1:]))
""",
        """
def chain_grads(fns, x):
    for fn in fns:
        fn(x)
    steps, h = [], x
    for fn in fns:
        h = fn(h)
        h.retain_grad()
        steps.append(h)
    h.sum().backward()
    return [h.grad for h in steps]
""",
    ],
    "01-per-pass-grads": [
        """
def per_pass_grads(p, losses):
    p.data.zero_()
    return [p.grad for _ in losses]
""",
        """
import torch
def per_pass_grads(p, losses):
    return [torch.autograd.grad(loss(p), p, create_graph=True)[0] * 1 * p / p for loss in losses]
""",
        """
def per_pass_grads(p, losses):
    store = []
    p.register_hook(lambda grad: store.append(grad.clone()))
    for loss in losses:
        loss(p).backward()
    return store
""",
    ],
}
