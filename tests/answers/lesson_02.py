"""Answers to the exercises of lesson 2."""

RIGHT = {
    "02-record-grad": [
        """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().clone()))
""",
        """
from functools import partial

def keep(store, grad):
    store += [grad.clone().detach()]

def record_grad(t, store):
    return t.register_hook(partial(keep, store))
""",
        """
import torch

class Recorder:
    def __init__(self, store):
        self.store = store
    def __call__(self, grad):
        with torch.no_grad():
            self.store.append(torch.empty_like(grad).copy_(grad))

def record_grad(t, store):
    handle = t.register_hook(Recorder(store))
    return handle
""",
        """
import torch

def record_grad(t, store):
    keep = lambda grad: store.append(grad.detach().clone())
    return torch.autograd.graph.register_multi_grad_hook([t], keep, mode="any")
""",
    ],
    "02-count-and-sum": [
        """
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        g = grad.detach().clone()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
    t.register_hook(hook)
    return d
""",
        """
class Tally(object):
    def __init__(self):
        self.d = dict(n=0, sum=None)
    def __call__(self, grad):
        self.d["n"] = self.d["n"] + 1
        if self.d["sum"] is None:
            self.d["sum"] = grad.new_zeros(grad.shape)
        self.d["sum"].add_(grad.detach())

def count_and_sum(t):
    tally = Tally()
    t.register_hook(tally)
    return tally.d
""",
        """
class Tally(dict):
    def __init__(self):
        super().__init__(n=0, sum=None)
    def __call__(self, grad):
        before = 0 if self["sum"] is None else self["sum"]
        self.update(n=self["n"] + 1, sum=before + grad.detach())

def count_and_sum(t):
    tally = Tally()
    t.register_hook(tally)
    return tally
""",
        """
import torch

def count_and_sum(t):
    d, received = {"n": 0, "sum": None}, []
    def hook(grads):
        received.append(grads[0].detach().clone())
        d.update(n=len(received), sum=torch.stack(received).sum(0))
    torch.autograd.graph.register_multi_grad_hook((t,), hook)
    return d
""",
    ],
    "02-norm-log": [
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
    ],
    "02-grads-by-name": [
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
    ],
    "02-old-and-new-grad": [
        """
def old_and_new_grad(x, k, loss_fn):
    seen = {}
    t = 3 * x
    t.register_hook(lambda grad: seen.update(old=grad.clone()))
    t.mul_(k)
    t.register_hook(lambda grad: seen.update(new=grad.clone()))
    loss_fn(t).backward()
    return seen["old"], seen["new"]
""",
        """
def old_and_new_grad(x, k, loss_fn):
    seen = []
    t = 3 * x
    t.register_hook(seen.append)
    t.retain_grad()
    t *= k
    loss_fn(t).backward()
    return seen[0], t.grad
""",
        """
def old_and_new_grad(x, k, loss_fn):
    old = 3 * x
    new = old * k
    old.retain_grad()
    new.retain_grad()
    loss_fn(new).backward()
    return (old.grad, new.grad)
""",
        """
from typing import NamedTuple
import torch

class Pair(NamedTuple):
    old: torch.Tensor
    new: torch.Tensor

def old_and_new_grad(x, k, loss_fn):
    old = 3 * x
    new = k * old
    loss_fn(new).backward(inputs=(x, old, new))
    return Pair(old=old.grad, new=new.grad)
""",
        """
import torch

def old_and_new_grad(x, k, loss_fn):
    t = 3 * x
    t *= k
    x.grad, new = torch.autograd.grad(loss_fn(t), (x, t))
    return x.grad / 3, new
""",
    ],
}

WRONG = {
    "02-record-grad": {
        "values-not-gradients": """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(t.detach().clone()))
""",
        "stored-alias": """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach()))
""",
        "no-handle": """
def record_grad(t, store):
    t.register_hook(lambda grad: store.append(grad.detach().clone()))
""",
        "hooked-a-copy": """
def record_grad(t, store):
    return (t * 1).register_hook(lambda grad: store.append(grad.detach().clone()))
""",
        "reads-dot-grad": """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(None if t.grad is None else t.grad.clone()))
""",
    },
    "02-count-and-sum": {
        "only-last-pass": """
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] = 1
        d["sum"] = grad.clone()
    t.register_hook(hook)
    return d
""",
        "reads-dot-grad": """
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        d["sum"] = None if t.grad is None else t.grad.clone()
    t.register_hook(hook)
    return d
""",
    },
    "02-norm-log": {
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
    },
    "02-grads-by-name": {
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
    },
    "02-old-and-new-grad": {
        "hook-after-in-place": """
def old_and_new_grad(x, k, loss_fn):
    seen = []
    t = 3 * x
    t.mul_(k)
    t.register_hook(lambda grad: seen.append(grad.clone()))
    t.retain_grad()
    loss_fn(t).backward()
    return seen[0], t.grad
""",
        "swapped-pair": """
def old_and_new_grad(x, k, loss_fn):
    seen = []
    t = 3 * x
    t.register_hook(lambda grad: seen.append(grad.clone()))
    t.mul_(k)
    t.retain_grad()
    loss_fn(t).backward()
    return t.grad, seen[0]
""",
        "multiplied-out-of-sight": """
def old_and_new_grad(x, k, loss_fn):
    seen = {}
    t = 3 * x
    t.register_hook(lambda grad: seen.update(old=grad.clone()))
    t.data.mul_(k)
    t.register_hook(lambda grad: seen.update(new=grad.clone()))
    loss_fn(t).backward()
    return seen["old"], seen["new"]
""",
    },
}

ALSO_WRONG = {
    "02-record-grad": [
        """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().flatten().clone()))
""",
        """
def record_grad(t, store):
    def hook(grad):
        store.append(grad.detach().clone())
        return grad * 1.5
    return t.register_hook(hook)
""",
        """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.clone()))
""",
        """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().float().clone()) if not store else None)
""",
        """
def record_grad(t, store):
    def hook(grad):
        store.append(grad.detach().clone())
        return grad.detach()
    return t.register_hook(hook)
""",
    ],
    "02-count-and-sum": [
        "def count_and_sum(t):\n    return {'n': 0, 'sum': None}",
        """
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        d["sum"] = grad if d["sum"] is None else d["sum"] + grad
    t.register_hook(hook)
    return d
""",
        """
def count_and_sum(t):
    d = {"n": 0, "sum": 0}
    def hook(grad):
        d["n"] += 1
        d["sum"] = d["sum"] + grad.clone()
    t.register_hook(hook)
    return d
""",
        """
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        d["sum"] = grad.clone() if d["sum"] is None else d["sum"] + grad
    t.register_hook(hook)
    return d
""",
        """
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        d["sum"] = t.grad
    t.register_hook(hook)
    return d
""",
    ],
    "02-norm-log": [
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
    ],
    "02-grads-by-name": [
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
    ],
    "02-old-and-new-grad": [
        """
def old_and_new_grad(x, k, loss_fn):
    t = 3 * x * k
    loss_fn(t).backward()
    return x.grad / 3, x.grad / 3 / k / k
""",
        """
import torch
def old_and_new_grad(x, k, loss_fn):
    old = 3 * x
    new = old * k
    return torch.autograd.grad(loss_fn(new), [old, new])
""",
        """
def old_and_new_grad(x, k, loss_fn):
    x.register_hook(lambda grad: None)
    old = 3 * x
    new = old * k
    old.retain_grad()
    new.retain_grad()
    loss_fn(new).backward()
    return old.grad, new.grad
""",
    ],
}
