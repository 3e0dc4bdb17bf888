"""Answers to 02-norm-log."""

from graders.author.answers import Wrong

RIGHT = [
    """
def norm_log(p, losses):
    norms = []
    for loss in losses:
        before, p.grad = p.grad, None
        try:
            loss(p).backward()
            norms.append(float(p.grad.square().sum().sqrt()))
        finally:
            if before is not None:
                p.grad = before if p.grad is None else p.grad + before
    return norms
""",
    """
import math

def norm_log(p, losses):
    out = []
    def hook(grad):
        out.append(math.sqrt((grad.double() ** 2).sum().item()))
    handle = p.register_hook(hook)
    try:
        for loss in losses:
            loss(p).backward()
    finally:
        handle.remove()
    return out
""",
    """
class Norms(list):
    def __call__(self, grad):
        self.append(grad.norm().item())

def norm_log(p, losses):
    norms = Norms()
    with p.register_hook(norms):
        for loss in losses:
            loss(p).backward()
    return norms
""",
    """
import contextlib
import torch

def norm_log(p, losses):
    norms = []
    def hook(grad):
        norms.append(torch.linalg.vector_norm(grad.detach()).item())
        return grad
    with contextlib.ExitStack() as stack:
        stack.callback(p.register_hook(hook).remove)
        for loss in losses:
            torch.autograd.backward([loss(p)])
    return norms
""",
    """
def norm_log(p, losses):
    return [one_norm(p, loss) for loss in losses]

def one_norm(p, loss):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.reshape(-1).norm().item())):
        loss(p).backward()
    return norms.pop()
""",
]

WRONG = [
    Wrong(
        "two passes for each loss",
        violates="run `loss(p).backward()` once",
        check="test_p.grad_accumulates_over_single_passes",
        source="""
import torch

def norm_log(p, losses):
    norms = []
    for loss in losses:
        value = loss(p)
        norms.append(torch.autograd.grad(value, p, retain_graph=True)[0].norm().item())
        value.backward()
    return norms
""",
    ),
]

SURVIVORS = {
    "one global slot": "each call takes out what it has put in",
    "`.grad` put back as a copy": "the contract says what `p.grad` holds, not in which tensor",
}
