"""Answers to 02-grads-by-name."""

RIGHT = [
    """
def grads_by_name(tensors, loss):
    grads = {}
    handles = []
    try:
        for name, t in tensors.items():
            def hook(grad, name=name):
                grads[name] = grad.detach().clone()
            handles.append(t.register_hook(hook))
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    return grads
""",
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
    found = []
    names = list(tensors)
    with torch.autograd.graph.register_multi_grad_hook(list(tensors.values()), found.extend):
        loss.backward()
    return {name: grad.detach().clone() for name, grad in zip(names, found) if grad is not None}
""",
]

WRONG = {
    "late-binding": """
def grads_by_name(tensors, loss):
    grads = {}
    handles = [t.register_hook(lambda grad: grads.update({name: grad.clone()})) for name, t in tensors.items()]
    handles = []
    for name, t in tensors.items():
        handles.append(t.register_hook(lambda grad: grads.update({name: grad.clone()})))
    loss.backward()
    for handle in handles:
        handle.remove()
    return grads
""",
    "dot-grad-on-non-leaf": """
def grads_by_name(tensors, loss):
    for t in tensors.values():
        t.retain_grad()
    loss.backward()
    return {name: t.grad.clone() for name, t in tensors.items() if t.grad is not None}
""",
    "hook-left-behind": """
def grads_by_name(tensors, loss):
    grads = {}
    for name, t in tensors.items():
        t.register_hook(lambda grad, name=name: grads.update({name: grad.clone()}))
    loss.backward()
    return grads
""",
    "hook-left-after-exception": """
def grads_by_name(tensors, loss):
    grads = {}
    handles = []
    for name, t in tensors.items():
        handles.append(t.register_hook(lambda grad, name=name: grads.update({name: grad.clone()})))
    loss.backward()
    for handle in handles:
        handle.remove()
    return grads
""",
    "stored-alias": """
def grads_by_name(tensors, loss):
    grads = {}
    handles = [t.register_hook(lambda grad, name=name: grads.update({name: grad})) for name, t in tensors.items()]
    try:
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    return grads
""",
}

ALSO_WRONG = [
    """
def grads_by_name(tensors, loss):
    names = {id(tensor): name for name, tensor in tensors.items()}
    found = {}
    handles = [
        tensor.register_hook(lambda grad, name=names[id(tensor)]: found.update({name: grad.detach().clone()}))
        for tensor in tensors.values()
    ]
    try:
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    """
import torch
def grads_by_name(tensors, loss):
    grads = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True)
    return {n: g for n, g in zip(tensors, grads) if g is not None}
""",
    """
import torch
def grads_by_name(tensors, loss):
    grads = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True, retain_graph=True)
    loss.backward()
    return {n: g for n, g in zip(tensors, grads) if g is not None}
""",
]
