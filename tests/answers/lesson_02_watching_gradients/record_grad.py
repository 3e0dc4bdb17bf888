"""Answers to 02-record-grad."""

RIGHT = [
    """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().clone()))
""",
    """
from functools import partial

def keep(store, grad):
    store += [grad.clone().detach()]

def record_grad(t, store):
    return t.register_hook(partial(keep, store))
""",
    """
import torch

class Recorder:
    def __init__(self, store):
        self.store = store
    def __call__(self, grad):
        with torch.no_grad():
            self.store.append(torch.empty_like(grad).copy_(grad))

def record_grad(t, store):
    handle = t.register_hook(Recorder(store))
    return handle
""",
    """
import torch

def record_grad(t, store):
    keep = lambda grad: store.append(grad.detach().clone())
    return torch.autograd.graph.register_multi_grad_hook([t], keep, mode="any")
""",
]

WRONG = {
    "values-not-gradients": """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(t.detach().clone()))
""",
    "stored-alias": """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach()))
""",
    "no-handle": """
def record_grad(t, store):
    t.register_hook(lambda grad: store.append(grad.detach().clone()))
""",
    "hooked-a-copy": """
def record_grad(t, store):
    return (t * 1).register_hook(lambda grad: store.append(grad.detach().clone()))
""",
    "reads-dot-grad": """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(None if t.grad is None else t.grad.clone()))
""",
}

ALSO_WRONG = [
    """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().flatten().clone()))
""",
    """
def record_grad(t, store):
    def hook(grad):
        store.append(grad.detach().clone())
        return grad * 1.5
    return t.register_hook(hook)
""",
    """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.clone()))
""",
    """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().float().clone()) if not store else None)
""",
    """
def record_grad(t, store):
    def hook(grad):
        store.append(grad.detach().clone())
        return grad.detach()
    return t.register_hook(hook)
""",
]
