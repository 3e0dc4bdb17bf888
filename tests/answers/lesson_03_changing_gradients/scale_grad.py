"""Answers to 03-scale-grad."""

RIGHT = [
    """
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad * s)
""",
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
def scale_grad(t, s):
    # A pre-hook of the node: for a leaf, that is the node which accumulates.
    node = t.grad_fn if t.grad_fn is not None else t.view_as(t).grad_fn.next_functions[0][0]
    handle = node.register_prehook(lambda grads: tuple(g * s for g in grads))
    handle.node = node
    return handle
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

WRONG = {
    "in-place-leak": """
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad.mul_(s))
""",
    "forgot-return": """
def scale_grad(t, s):
    def hook(grad):
        grad = grad * s
    return t.register_hook(hook)
""",
    "changed-values": """
def scale_grad(t, s):
    t.data *= s
    return t.register_hook(lambda grad: None)
""",
    "wrong-hook-kind": """
def scale_grad(t, s):
    def hook(p):
        p.grad.mul_(s)
    return t.register_post_accumulate_grad_hook(hook)
""",
    "hooked-a-copy": """
def scale_grad(t, s):
    return (t * 1).register_hook(lambda grad: grad * s)
""",
    "changed-dtype": """
import torch

def scale_grad(t, s):
    return t.register_hook(lambda grad: torch.full(grad.shape, s) * grad)
""",
}

ALSO_WRONG = [
    # A detour through float32 loses digits of a float64 gradient.
    "def scale_grad(t, s):\n    return t.register_hook(lambda grad: (grad.float() * s).to(grad.dtype))",
    "def scale_grad(t, s):\n    pass",
    # Copies an expanded gradient, and writes into every other one.
    "def scale_grad(t, s):\n    return t.register_hook(lambda grad: grad.contiguous().mul_(s))",
    # No handle.
    "def scale_grad(t, s):\n    t.register_hook(lambda grad: grad * s)",
    # Scales the first pass only.
    """
def scale_grad(t, s):
    left = [s]
    return t.register_hook(lambda grad: grad * (left.pop() if left else 1))
""",
    # Hooks what t was computed from: the total is scaled again on leaves.
    """
def scale_grad(t, s):
    def hook(p):
        p.grad.mul_(s)
    if t.is_leaf:
        return t.register_post_accumulate_grad_hook(hook)
    return t.register_hook(lambda grad: grad * s)
""",
    # Scales twice.
    """
def scale_grad(t, s):
    t.register_hook(lambda grad: grad)
    return t.register_hook(lambda grad: grad * s * s)
""",
    # Throws other hooks out.
    """
def scale_grad(t, s):
    if t._backward_hooks:
        t._backward_hooks.clear()
    return t.register_hook(lambda grad: grad * s)
""",
    # Leaves a second hook behind.
    """
def scale_grad(t, s):
    t.register_hook(lambda grad: grad * s)
    return t.register_hook(lambda grad: grad)
""",
    # One hook for the whole notebook: a second call takes it from the first tensor.
    """
current = {}

def scale_grad(t, s):
    if "handle" in current:
        current["handle"].remove()
    current["handle"] = t.register_hook(lambda grad: grad * s)
    return current["handle"]
""",
    # The number is global: a second call changes it for the first tensor.
    """
factor = 1.0

def scale_grad(t, s):
    global factor
    factor = s
    return t.register_hook(lambda grad: grad * factor)
""",
    # Loses the sign.
    """
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad * abs(s))
""",
    # Leaves something on t besides the hook.
    """
import torch

def scale_grad(t, s):
    if t.is_leaf:
        t.grad = torch.zeros_like(t)
    else:
        t.retain_grad()
    return t.register_hook(lambda grad: grad * s)
""",
]
