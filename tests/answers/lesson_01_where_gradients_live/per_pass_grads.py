"""Answers to 01-per-pass-grads."""

RIGHT = [
    """
def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        p.grad = None
        loss(p).backward()
        grads.append(p.grad.clone())
    return grads
""",
    """
import torch

def per_pass_grads(p, losses):
    return [torch.autograd.grad(loss(p), p)[0].clone() for loss in losses]
""",
    """
from functools import partial

def note(store, grad):
    store.append(grad.detach().clone())

def per_pass_grads(p, losses):
    store = []
    with p.register_hook(partial(note, store)):
        for loss in losses:
            loss(p).backward()
    return store
""",
    """
def per_pass_grads(p, losses):
    out = []
    for loss in losses:
        q = p.detach().clone().requires_grad_()
        loss(q).backward()
        out.append(q.grad)
    return out
""",
    """
def per_pass_grads(p, losses):
    store = []
    def take(p):
        store.append(p.grad)
        p.grad = None
    p.grad = None
    with p.register_post_accumulate_grad_hook(take):
        for loss in losses:
            loss(p).backward()
    return store
""",
    """
import torch

def per_pass_grads(p, losses):
    return [torch.func.grad(loss)(p.detach().clone()) for loss in losses]
""",
]

WRONG = {
    "accumulated-grad": """
def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        loss(p).backward()
        grads.append(p.grad.clone())
    return grads
""",
    "stored-alias": """
def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        if p.grad is not None:
            p.grad.zero_()
        loss(p).backward()
        grads.append(p.grad)
    return grads
""",
}

ALSO_WRONG = [
    """
def per_pass_grads(p, losses):
    p.data.zero_()
    return [p.grad for _ in losses]
""",
    """
import torch
def per_pass_grads(p, losses):
    return [torch.autograd.grad(loss(p), p, create_graph=True)[0] * 1 * p / p for loss in losses]
""",
    """
def per_pass_grads(p, losses):
    store = []
    p.register_hook(lambda grad: store.append(grad.clone()))
    for loss in losses:
        loss(p).backward()
    return store
""",
]
