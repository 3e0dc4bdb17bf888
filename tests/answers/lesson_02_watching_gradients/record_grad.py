"""Answers to 02-record-grad."""

RIGHT = [
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
    @torch.no_grad()
    def hook(grad):
        store.append(grad.clone())
        return grad
    return t.register_hook(hook)
""",
    """
class Recording:
    def __init__(self, t, store):
        self.store = store
        self.inner = t.register_hook(self.keep)
    def keep(self, grad):
        self.store.append(grad.detach().clone())
    def remove(self):
        self.inner.remove()

def record_grad(t, store):
    return Recording(t, store)
""",
]
