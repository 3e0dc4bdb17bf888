"""Answers to 01-chain-grads."""

from graders.author.answers import Wrong

RIGHT = [
    """
def chain_grads(fns, x):
    h, steps = x, []
    for fn in fns:
        argument = h.clone()
        steps.append(fn(argument))
        h = steps[-1]
        h.retain_grad()
    h.backward(gradient=h.new_ones(h.shape))
    return list(map(lambda step: step.grad, steps))
""",
    """
import torch

class Keeper:
    def __init__(self, size):
        self.grads = [None] * size
    def at(self, index):
        def hook(grad):
            self.grads[index] = grad.detach()
        return hook

def chain_grads(fns, x):
    keeper, h = Keeper(len(fns)), x
    for index, fn in enumerate(fns):
        h = fn(h.clone())
        h.register_hook(keeper.at(index))
    torch.sum(h).backward()
    return keeper.grads
""",
    """
import torch

def chain_grads(fns, x):
    inputs, outputs, h = [], [], x
    for fn in fns:
        inputs.append(h.detach().requires_grad_())
        h = fn(inputs[-1].clone())
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
    steps = [*accumulate(fns, lambda h, fn: fn(h.clone()), initial=x)]
    steps[-1].sum().backward(inputs=steps)
    return [h.grad for h in steps[1:]]
""",
    """
import torch

def chain_grads(fns, x):
    steps = [x]
    for fn in fns:
        steps.append(fn(steps[-1].clone()))
    loss = steps[-1].sum()
    x.grad, *rest = [torch.autograd.grad(loss, h, retain_graph=True)[0] for h in steps]
    return rest
""",
]

WRONG = [
    Wrong(
        "one list for all calls",
        violates="as often as it likes",
        check="test_another_call_starts_afresh",
        source="""
steps = []

def chain_grads(fns, x):
    steps.clear()
    h = x
    for fn in fns:
        h = fn(h.clone())
        h.retain_grad()
        steps.append(h)
    h.sum().backward()
    return [h.grad for h in steps]
""",
    ),
]

SURVIVORS = {
    "lost copy: inputs.append(_not_detached(h)": "`autograd.grad` stops at the input all the same",
}
