"""Answers to 01-per-pass-grads."""

from graders.author.answers import Wrong

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
        q = p.detach().requires_grad_()
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
    return [torch.func.grad(loss)(p.detach()).detach() for loss in losses]
""",
]

WRONG = [
    Wrong(
        "one list for all calls",
        violates="as often as it likes",
        check="test_another_call_starts_afresh",
        source="""
import torch

grads = []

def per_pass_grads(p, losses):
    grads.clear()
    for loss in losses:
        grads.append(torch.autograd.grad(loss(p), p)[0].clone())
    return list(grads)
""",
    ),
]

SURVIVORS = {
    "lost copy: return [torch.func.grad(loss)(_not_detached(p)).detach()": "what is handed out has no graph",
    "zero_grad() first": "what `p.grad` holds at the end is up to the function",
    "`.grad` put back as a copy": "what `p.grad` holds at the end is up to the function",
}
