"""Answers to 02-norm-log."""

RIGHT = [
    """
def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.norm().item())):
        for loss in losses:
            loss(p).backward()
    return norms
""",
    """
def norm_log(p, losses):
    norms = []
    for loss in losses:
        before = None if p.grad is None else p.grad.clone()
        p.grad = None
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
def norm_log(p, losses):
    norms = []
    for loss in losses:
        before = 0 if p.grad is None else p.grad.clone()
        loss(p).backward()
        norms.append((p.grad - before).norm().item())
    return norms
""",
]

WRONG = {
    "accumulated-grad": """
def norm_log(p, losses):
    norms = []
    for loss in losses:
        loss(p).backward()
        norms.append(p.grad.norm().item())
    return norms
""",
    "cleared-callers-grad": """
def norm_log(p, losses):
    norms = []
    for loss in losses:
        p.grad = None
        loss(p).backward()
        norms.append(p.grad.norm().item())
    return norms
""",
    "hook-left-behind": """
def norm_log(p, losses):
    norms = []
    for loss in losses:
        p.register_hook(lambda grad: norms.append(grad.norm().item()))
        loss(p).backward()
    return norms
""",
    "hook-left-after-exception": """
def norm_log(p, losses):
    norms = []
    handle = p.register_hook(lambda grad: norms.append(grad.norm().item()))
    for loss in losses:
        loss(p).backward()
    handle.remove()
    return norms
""",
}

ALSO_WRONG = [
    """
import torch
def norm_log(p, losses):
    return [torch.autograd.grad(loss(p), p)[0].norm().item() for loss in losses]
""",
    """
def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.norm())):
        for loss in losses:
            loss(p).backward()
    return norms
""",
    """
def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.abs().sum().item())):
        for loss in losses:
            loss(p).backward()
    return norms
""",
]
