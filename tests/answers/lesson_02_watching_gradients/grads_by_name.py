"""Answers to 02-grads-by-name."""

from graders.author.answers import Wrong

RIGHT = [
    """
from contextlib import ExitStack
from functools import partial

def grads_by_name(tensors, loss):
    grads = {}
    def keep(name, grad):
        grads[name] = grad.clone()
    with ExitStack() as stack:
        for name in tensors:
            stack.enter_context(tensors[name].register_hook(partial(keep, name)))
        loss.backward()
    return grads
""",
    """
import torch

def grads_by_name(tensors, loss):
    grads = {}
    class Keep:
        def __init__(self, name):
            self.name = name
        def __call__(self, grad):
            grads[self.name] = torch.empty_like(grad).copy_(grad)
    handles = [t.register_hook(Keep(name)) for name, t in tensors.items()]
    try:
        torch.autograd.backward(loss)
        return {name: grads[name] for name in sorted(grads)}
    finally:
        while handles:
            handles.pop().remove()
""",
    """
from collections import OrderedDict
import copy

class Grads(OrderedDict):
    def under(self, name):
        return lambda grad: self.__setitem__(name, copy.deepcopy(grad))

def grads_by_name(tensors, loss):
    grads, handles = Grads(), {}
    for name, t in tensors.items():
        handles[name] = t.register_hook(grads.under(name))
    try:
        loss.backward()
    finally:
        [handle.remove() for handle in handles.values()]
    return grads
""",
    """
from torch.autograd.graph import register_multi_grad_hook

def grads_by_name(tensors, loss):
    out = {}
    inner = {name: t for name, t in tensors.items() if t is not loss}
    with register_multi_grad_hook(list(inner.values()), lambda grads: out.update(zip(inner, grads))):
        with loss.register_hook(lambda grad: out.update({n: grad for n, t in tensors.items() if t is loss})):
            loss.backward()
    return {name: grad.clone() for name, grad in out.items() if grad is not None}
""",
]

WRONG = [
    Wrong(
        "what the caller retained is thrown away",
        violates="except where the caller asked for it with `retain_grad()`",
        check="test_backward_runs_once_and_leaves_accumulate",
        source="""
from contextlib import ExitStack

def grads_by_name(tensors, loss):
    grads = {}
    with ExitStack() as stack:
        for name, t in tensors.items():
            stack.enter_context(t.register_hook(lambda grad, name=name: grads.update({name: grad.detach().clone()})))
        loss.backward()
        for t in tensors.values():
            if not t.is_leaf:
                t.grad = None
    return grads
""",
    ),
]

SURVIVORS = {
    "lost copy: with register_multi_grad_hook(": "PyTorch makes a tuple of the tensors",
    "condition dropped: with loss.register_hook(": "the hooks of the others write over their entries",
    ".float() of the arguments": "only the loss is cast, and its gradients stay the same",
    "`.grad` put back as a copy": "the contract says what a `.grad` holds, not in which tensor",
    "lost copy: return {name: grads[name] for name in _not_copied(grads)}": "a dict in any order",
}
