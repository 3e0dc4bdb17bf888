"""Answers to 01-chain-grads."""

RIGHT = [
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
]

WRONG = {
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
}

ALSO_WRONG = [
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
]
