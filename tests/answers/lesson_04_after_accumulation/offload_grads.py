"""Answers to 04-offload-grads."""

RIGHT = [
    """
import torch

def offload_grads(params):
    sums = {}
    def hook(p):
        gradient = p.grad.to("cpu", torch.float64)
        sums[p] = sums[p] + gradient if p in sums else gradient
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    """
import torch

def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def add(p):
        sums[p] += p.grad
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
        new = p.grad.numpy().astype(np.float64)
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

class Off(dict):
    def __call__(self, p):
        new = p.grad.to(torch.float64, copy=True)
        self[p] = self[p].add(new) if p in self else new
        p.grad = None
def offload_grads(params):
    off = Off()
    return off, list(map(lambda p: p.register_post_accumulate_grad_hook(off), params))
""",
    """
import torch

class Sums(dict):
    def add(self, p):
        zeros = torch.zeros_like(p, dtype=torch.double, device="cpu", requires_grad=False)
        self.setdefault(p, zeros).add_(p.grad)
        p.grad = None

def offload_grads(params):
    sums = Sums()
    return sums, [p.register_post_accumulate_grad_hook(sums.add) for p in params]
""",
]

WRONG = {
    "wrong-hook-kind": """
import torch

def offload_grads(params):
    sums = {p: torch.zeros_like(p, dtype=torch.float64, requires_grad=False) for p in params}
    handles = []
    for p in params:
        def hook(grad, p=p):
            sums[p] += grad
            p.grad = None
        handles.append(p.register_hook(hook))
    return sums, handles
""",
    "counted-twice": """
import torch

def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def hook(p):
        sums[p] += p.grad
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    "overwrote-total": """
def offload_grads(params):
    sums = {}
    def hook(p):
        sums[p] = p.grad.cpu().double()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    "changed-dtype": """
def offload_grads(params):
    sums = {}
    def hook(p):
        sums[p] = p.grad.cpu() if p not in sums else sums[p] + p.grad.cpu()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    "zeroed-not-freed": """
def offload_grads(params):
    sums = {}
    def hook(p):
        gradient = p.grad.cpu().double().clone()
        sums[p] = gradient if p not in sums else sums[p] + gradient
        p.grad.zero_()
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    "late-binding": """
import torch

def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    handles = []
    for p in params:
        def hook(_):
            sums[p] += p.grad.double()
            p.grad = None
        handles.append(p.register_post_accumulate_grad_hook(hook))
    return sums, handles
""",
    "keys-not-parameters": """
def offload_grads(params):
    sums = {}
    def hook(p):
        sums[id(p)] = p.grad.double() if id(p) not in sums else sums[id(p)] + p.grad.double()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    "returned-a-value": """
import torch

def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    handles = [p.register_post_accumulate_grad_hook(lambda p: sums[p].add_(p.grad)) for p in params]
    handles += [p.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None)) for p in params]
    return sums, handles
""",
    "grad-not-freed": """
def offload_grads(params):
    sums = {}
    def hook(p):
        sums[p] = p.grad.double()
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
}

ALSO_WRONG = [
    "def offload_grads(params):\n    return {}, []",
    "def offload_grads(params):\n    return None",
    # Added up in float32, converted afterwards.
    """
import torch
def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def hook(p):
        sums[p] = (sums[p].to(p.dtype) + p.grad).double()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    # No handles.
    """
import torch
def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def hook(p):
        sums[p] += p.grad
        p.grad = None
    for p in params:
        p.register_post_accumulate_grad_hook(hook)
    return sums, None
""",
    # Only the handles.
    """
import torch
def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def hook(p):
        sums[p] += p.grad
        p.grad = None
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    # A tensor hook that reads .grad.
    """
import torch
def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def make(p):
        def hook(grad):
            sums[p] += p.grad
            p.grad = None
        return hook
    return sums, [p.register_hook(make(p)) for p in params]
""",
    # Moves the parameter instead of its gradient.
    """
import torch
def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def hook(p):
        sums[p] += p.detach()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    # The mean instead of the sum.
    """
import torch
def offload_grads(params):
    sums, n = {}, {}
    def hook(p):
        n[p] = n.get(p, 0) + 1
        old = sums.get(p, torch.zeros(p.shape, dtype=torch.float64))
        sums[p] = old + (p.grad - old) / n[p]
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    # Keeps the first pass only.
    """
def offload_grads(params):
    s = {}
    def hook(p):
        s.setdefault(p, p.grad.double())
        p.grad = None
    return s, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    # One dict for the whole notebook, emptied by each call.
    """
sums = {}

def offload_grads(params):
    sums.clear()
    def hook(p):
        sums[p] = sums.get(p, 0) + p.grad.double()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
]
