"""Answers to 04-offload-grads."""

from graders.author.answers import Wrong

RIGHT = [
    """
import torch

def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def add(p):
        sums[p] += p.grad.cpu()
    def free(p):
        p.grad = None
    handles = []
    for p in params:
        handles += [p.register_post_accumulate_grad_hook(add), p.register_post_accumulate_grad_hook(free)]
    return sums, handles
""",
    """
from collections import defaultdict
from functools import partial

def move(sums, p):
    gradient, p.grad = p.grad, None
    sums[p] = sums[p] + gradient.detach().double().cpu()

def offload_grads(params):
    sums = defaultdict(float)
    handles = [p.register_post_accumulate_grad_hook(partial(move, sums)) for p in params]
    return [sums, handles]
""",
    """
import numpy as np
import torch

class Offload:
    def __init__(self, params):
        self.sums = {}
        self.handles = []
        for p in params:
            self.handles.append(p.register_post_accumulate_grad_hook(self))
    def __call__(self, p):
        new = p.grad.detach().cpu().numpy().astype(np.float64)
        if p in self.sums:
            new = new + self.sums[p].numpy()
        self.sums[p] = torch.tensor(new)
        p.grad = None

def offload_grads(params):
    offload = Offload(params)
    return offload.sums, offload.handles
""",
    """
import torch

class Sums(dict):
    def add(self, p):
        zeros = torch.zeros_like(p, dtype=torch.double, device="cpu", requires_grad=False)
        self.setdefault(p, zeros).add_(p.grad.cpu())
        p.grad = None

def offload_grads(params):
    sums = Sums()
    return sums, [p.register_post_accumulate_grad_hook(sums.add) for p in params]
""",
]

WRONG = [
    Wrong(
        "notes the mode of autograd and does nothing in a pass with a graph",
        violates="With `create_graph=True` a sum may have a graph.",
        check="test_the_sums_grow_with_every_pass",
        source="""
import torch

def offload_grads(params):
    sums = {}
    def hook(p):
        if torch.is_grad_enabled():
            return
        gradient = p.grad.double()
        sums[p] = sums[p] + gradient if p in sums else gradient
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
]

SURVIVORS = {
    "a list for a tuple": "either is a pair, or holds the handles",
    "lost copy: sums[p] = sums[p] + _not_detached(gradient)": "the sums may have a graph",
}
