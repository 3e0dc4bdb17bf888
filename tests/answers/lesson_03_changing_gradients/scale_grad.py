"""Answers to 03-scale-grad."""

from graders.author.answers import Wrong

RIGHT = [
    """
import functools
import torch

def scale_grad(t, s):
    return t.register_hook(functools.partial(torch.mul, s))
""",
    """
class Scaler:
    def __init__(self, factor):
        self.factor = factor
    def __call__(self, grad):
        new = grad.clone()
        new.mul_(self.factor)
        return new

def scale_grad(t, s):
    handle = t.register_hook(Scaler(s))
    return handle
""",
    """
import torch

def scale_grad(t, s):
    def hook(grad):
        return torch.full_like(grad, s).mul_(grad)
    return t.register_hook(hook)
""",
    """
import torch

class Handle:
    def __init__(self, handle):
        self.handle = handle
    def remove(self):
        self.handle.remove()

def scale_grad(t, s):
    return Handle(t.register_hook(torch.tensor(s, dtype=t.dtype).mul))
""",
]

WRONG = [
    Wrong(
        "a handle that removes the hook that came last",
        violates="its handle removes that hook alone",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
class Handle:
    def __init__(self, t):
        self.t = t
    def remove(self):
        if self.t._backward_hooks:
            self.t._backward_hooks.popitem()

def scale_grad(t, s):
    t.register_hook(lambda grad: grad * s)
    return Handle(t)
""",
    ),
    Wrong(
        "the last hook of a tensor counts",
        violates="as often as it likes",
        check="test_any_tensor_and_several_at_a_time",
        source="""
hooked = {}

def scale_grad(t, s):
    if id(t) in hooked:
        hooked[id(t)].remove()
    hooked[id(t)] = t.register_hook(lambda grad: grad * s)
    return hooked[id(t)]
""",
    ),
]
