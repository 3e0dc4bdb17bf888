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
        "no hook where there is nothing to scale",
        violates="Return the handle",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
def scale_grad(t, s):
    return None if s == 1 else t.register_hook(lambda grad: grad * s)
""",
    ),
    Wrong(
        "throws other hooks out",
        violates="leave everyone else's on",
        check="test_the_gradient_is_scaled",
        source="""
def scale_grad(t, s):
    if t._backward_hooks:
        t._backward_hooks.clear()
    return t.register_hook(lambda grad: grad * s)
""",
    ),
    Wrong(
        "a pre-hook of the node that accumulates, which `autograd.grad` does not run",
        violates="A pass may also be `torch.autograd.grad`",
        check="test_the_gradient_is_scaled",
        source="""
import torch

def scale_grad(t, s):
    with torch.enable_grad():
        node = t.grad_fn if t.grad_fn is not None else t.view_as(t).grad_fn.next_functions[0][0]
    handle = node.register_prehook(lambda grads: tuple(g * s for g in grads))
    handle.node = node
    return handle
""",
    ),
    Wrong(
        "fills or retains `.grad`",
        violates="Leave what you were given as you found it",
        check="test_every_pass_is_scaled_once",
        source="""
import torch

def scale_grad(t, s):
    if t.is_leaf:
        t.grad = torch.zeros_like(t)
    else:
        t.retain_grad()
    return t.register_hook(lambda grad: grad * s)
""",
    ),
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
