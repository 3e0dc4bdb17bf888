"""Answers to the exercises of lesson 4."""

RIGHT = {
    "04-pass-and-total-norms": [
        """
def pass_and_total_norms(p):
    log = []
    p.register_hook(lambda grad: log.append(("pass", grad.norm().item())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().item())))
    return log
""",
        """
import math
from functools import partial

def note(log, label, tensor):
    log.append((label, math.sqrt(float((tensor.detach().double() ** 2).sum()))))

def pass_and_total_norms(p):
    log = []
    p.register_post_accumulate_grad_hook(lambda q: note(log, "total", q.grad))
    p.register_hook(partial(note, log, "pass"))
    return log
""",
        """
import torch

def pass_and_total_norms(p):
    log = []
    def hook(grad):
        total = grad if p.grad is None else p.grad + grad
        log.extend([("pass", torch.linalg.vector_norm(grad).item()),
                    ("total", torch.linalg.vector_norm(total).item())])
    p.register_hook(hook)
    return log
""",
        """
class Norms:
    def __init__(self):
        self.log, self.last = [], None
    def arriving(self, grad):
        self.last = grad.clone()
    def written(self, p):
        self.log += [("pass", float(self.last.norm())), ("total", float(p.grad.norm()))]

def pass_and_total_norms(p):
    norms = Norms()
    p.register_hook(norms.arriving)
    p.register_post_accumulate_grad_hook(norms.written)
    return norms.log
""",
        """
import torch

def pass_and_total_norms(p):
    log = []
    torch.autograd.graph.register_multi_grad_hook((p,), lambda gs: log.append(("pass", float(gs[0].norm()))))
    @p.register_post_accumulate_grad_hook
    def _(q): log.append(("total", float(q.grad.norm())))
    return log
""",
        """
def pass_and_total_norms(p):
    log = []
    def hook(g):
        total = g if p.grad is None else p.grad + g
        log.extend([("pass", g.norm().item()), ("total", total.norm().item())])
    p.register_hook(hook)
    return log
""",
    ],
    "04-sgd-in-backward": [
        """
import torch

def sgd_in_backward(model, lr):
    def step(p):
        with torch.no_grad():
            p -= lr * p.grad
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
        """
import torch

def sgd_in_backward(model, lr):
    optimizers = {p: torch.optim.SGD([p], lr=lr) for p in model.parameters()}
    def hook(p):
        optimizers[p].step()
        optimizers[p].zero_grad()
    handles = []
    for p in model.parameters():
        handles.append(p.register_post_accumulate_grad_hook(hook))
    return handles
""",
        """
from functools import partial

class Step:
    def __init__(self, lr):
        self.lr = lr
    def __call__(self, p):
        p.data.add_(p.grad, alpha=-self.lr)

def free(p):
    p.grad = None

def sgd_in_backward(model, lr):
    handles = []
    for _, p in model.named_parameters():
        handles.append(p.register_post_accumulate_grad_hook(Step(lr)))
        handles.append(p.register_post_accumulate_grad_hook(free))
    return handles
""",
        """
def sgd_in_backward(model, lr):
    params = list(model.parameters())
    def hook(_):
        for p in params:
            if p.grad is not None:
                p.sub_(p.grad.mul_(lr))
                p.grad = None
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        """
import torch

def sgd_in_backward(model, lr):
    def make(p):
        def hook(_):
            p.copy_(p - lr * p.grad)
            p.grad = None
        return hook
    seen, handles = set(), []
    for module in model.modules():
        for p in module.parameters(recurse=False):
            if p not in seen:
                seen.add(p)
                handles.append(p.register_post_accumulate_grad_hook(make(p)))
    return handles
""",
        """
import functools
import torch

def go(lr, p):
    g, p.grad = p.grad, None
    with torch.no_grad(): p.add_(g, alpha=-lr)
def sgd_in_backward(model, lr):
    handles = []
    for _, p in model.named_parameters():
        handles.append(p.register_post_accumulate_grad_hook(functools.partial(go, lr)))
    return handles
""",
        """
def step(p, lr):
    p.grad.mul_(-lr)
    p.detach().add_(p.grad)
    del p.grad

class Step:
    def __init__(self, lr):
        self.lr = lr
    def __call__(self, p):
        step(p, self.lr)

def sgd_in_backward(model, lr):
    seen, handles = set(), []
    for module in model.modules():
        for p in module.parameters(recurse=False):
            if p not in seen:
                seen.add(p)
                handles.append(p.register_post_accumulate_grad_hook(Step(lr)))
    return handles
""",
    ],
    "04-offload-grads": [
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
    ],
    "04-clip-global-norm-in-backward": [
        """
import torch

def clip_global_norm_in_backward(params, c):
    arrived = 0
    def hook(p):
        nonlocal arrived
        arrived += 1
        if arrived == len(params):
            arrived = 0
            torch.nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        """
import torch

class Clip:
    def __init__(self, params, c):
        self.params, self.c, self.arrived = params, c, set()
    def __call__(self, p):
        self.arrived.add(p)
        if len(self.arrived) < len(self.params):
            return
        self.arrived.clear()
        norm = torch.sqrt(sum((q.grad ** 2).sum() for q in self.params))
        if norm > self.c:
            for q in self.params:
                q.grad = q.grad * (self.c / norm)

def clip_global_norm_in_backward(params, c):
    clip = Clip(params, c)
    handles = []
    for p in params:
        handles.append(p.register_post_accumulate_grad_hook(clip))
    return handles
""",
        """
def clip_global_norm_in_backward(params, c):
    squares = []
    def hook(p):
        squares.append(p.grad.double().square().sum().item())
        if len(squares) == len(params):
            norm = sum(squares) ** 0.5
            squares.clear()
            for q in params:
                q.grad.mul_(min(1.0, c / norm))
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        """
import itertools
import torch

def clip_global_norm_in_backward(params, c):
    turn = itertools.cycle(range(len(params)))
    def hook(p):
        if next(turn) == len(params) - 1:
            grads = [q.grad for q in params]
            norm = torch.cat([g.flatten() for g in grads]).norm()
            torch._foreach_mul_(grads, float((c / (norm + 1e-6)).clamp(max=1.0)))
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        """
import torch
from torch.autograd.graph import register_multi_grad_hook

def clip_global_norm_in_backward(params, c):
    computed = []
    def hook(p):
        if computed:
            computed.clear()
            torch.nn.utils.clip_grad_norm_(params, c)
    handles = [p.register_post_accumulate_grad_hook(hook) for p in params]
    return [register_multi_grad_hook(params, lambda grads: computed.append(True))] + handles
""",
        """
import torch

import itertools
def clip_global_norm_in_backward(params, c):
    counter = itertools.count(1)
    def hook(_):
        if next(counter) % len(params): return
        total = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p.grad) for p in params]))
        k = torch.clamp(c / (total + 1e-6), max=1.0)
        for p in params: p.grad = p.grad * k
    return list(map(lambda p: p.register_post_accumulate_grad_hook(hook), params))
""",
        """
from torch import nn
import torch

def clip_global_norm_in_backward(params, c):
    pend = []
    def done():
        pend.clear()
        nn.utils.clip_grad_norm_(params, c)
    def hook(p):
        if not pend:
            pend.append(1)
            torch.autograd.Variable._execution_engine.queue_callback(done)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        """
import torch

def clip_global_norm_in_backward(params, c):
    # Whoever comes first asks the engine to clip when this pass is over.
    queued = []
    def at_the_end():
        queued.clear()
        torch.nn.utils.clip_grad_norm_(params, c)
    def hook(p):
        if not queued:
            queued.append(True)
            torch.autograd.Variable._execution_engine.queue_callback(at_the_end)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ],
}

WRONG = {
    "04-pass-and-total-norms": {
        "reads-dot-grad-too-early": """
def pass_and_total_norms(p):
    log = []
    def hook(grad):
        log.append(("pass", grad.norm().item()))
        log.append(("total", 0.0 if p.grad is None else p.grad.norm().item()))
    p.register_hook(hook)
    return log
""",
        "pass-is-not-total": """
def pass_and_total_norms(p):
    log = []
    def hook(grad):
        log.append(("pass", grad.norm().item()))
        log.append(("total", grad.norm().item()))
    p.register_hook(hook)
    return log
""",
        "accumulated-grad": """
def pass_and_total_norms(p):
    log = []
    def hook(p):
        log.append(("pass", p.grad.norm().item()))
        log.append(("total", p.grad.norm().item()))
    p.register_post_accumulate_grad_hook(hook)
    return log
""",
    },
    "04-sgd-in-backward": {
        "wrong-hook-kind": """
import torch

def sgd_in_backward(model, lr):
    handles = []
    for p in model.parameters():
        def hook(grad, p=p):
            with torch.no_grad():
                p.sub_(lr * grad)
            p.grad = None
        handles.append(p.register_hook(hook))
    return handles
""",
        "grad-not-freed": """
import torch

def sgd_in_backward(model, lr):
    def step(p):
        with torch.no_grad():
            p -= lr * p.grad
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
        "zeroed-not-freed": """
import torch

def sgd_in_backward(model, lr):
    def step(p):
        with torch.no_grad():
            p -= lr * p.grad
        p.grad.zero_()
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
        "late-binding": """
def sgd_in_backward(model, lr):
    handles = []
    for p in model.parameters():
        def step(_):
            p.sub_(lr * p.grad)
            p.grad = None
        handles.append(p.register_post_accumulate_grad_hook(step))
    return handles
""",
        "wrong-sign": """
def sgd_in_backward(model, lr):
    def step(p):
        p.add_(lr * p.grad)
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
        "missed-parameters": """
from torch import nn

def sgd_in_backward(model, lr):
    def step(p):
        p.sub_(lr * p.grad)
        p.grad = None
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    return [p.register_post_accumulate_grad_hook(step) for layer in layers for p in (layer.weight, layer.bias)]
""",
        "hooked-twice": """
def sgd_in_backward(model, lr):
    def step(p):
        p.sub_(lr * p.grad)
        p.grad = None
    named = model.named_parameters(remove_duplicate=False)
    return [p.register_post_accumulate_grad_hook(step) for name, p in named]
""",
        "returned-a-value": """
def sgd_in_backward(model, lr):
    return [
        p.register_post_accumulate_grad_hook(lambda p: (p.sub_(lr * p.grad), setattr(p, "grad", None)))
        for p in model.parameters()
    ]
""",
    },
    "04-offload-grads": {
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
    },
    "04-clip-global-norm-in-backward": {
        "per-tensor-norm": """
import torch

def clip_global_norm_in_backward(params, c):
    def hook(p):
        torch.nn.utils.clip_grad_norm_([p], c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        "elements-not-norm": """
def clip_global_norm_in_backward(params, c):
    def hook(p):
        p.grad.clamp_(-c, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        "clipped-too-early": """
import torch

def clip_global_norm_in_backward(params, c):
    def hook(_):
        torch.nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        "counter-not-reset": """
import torch

def clip_global_norm_in_backward(params, c):
    arrived = []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            torch.nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        "scaled-up": """
import torch

def clip_global_norm_in_backward(params, c):
    arrived = []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            arrived.clear()
            norm = torch.cat([q.grad.flatten() for q in params]).norm()
            for q in params:
                q.grad.mul_(c / norm)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        "returned-a-value": """
import torch

def clip_global_norm_in_backward(params, c):
    arrived = []
    def last(p):
        arrived.append(p)
        if len(arrived) == len(params):
            arrived.clear()
            return torch.nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(last) for p in params]
""",
    },
}

ALSO_WRONG = {
    "04-pass-and-total-norms": [
        "def pass_and_total_norms(p):\n    return []",
        "def pass_and_total_norms(p):\n    pass",
        # The gradient of this pass as a difference of totals: breaks when the caller clears .grad.
        """
def pass_and_total_norms(p):
    log, state = [], {"last": 0.0 if p.grad is None else p.grad.clone()}
    def hook(q):
        log.append(("pass", (q.grad - state["last"]).norm().item()))
        log.append(("total", q.grad.norm().item()))
        state["last"] = q.grad.clone()
    p.register_post_accumulate_grad_hook(hook)
    return log
""",
        # A sum of its own: knows neither an old .grad nor that the caller cleared it.
        """
def pass_and_total_norms(p):
    log, total = [], []
    def hook(grad):
        total.append(grad.clone())
        log.append(("pass", grad.norm().item()))
        log.append(("total", sum(total).norm().item()))
    p.register_hook(hook)
    return log
""",
        # One list for all calls.
        """
log = []
def pass_and_total_norms(p):
    p.register_hook(lambda grad: log.append(("pass", grad.norm().item())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().item())))
    return log
""",
        # Tensors instead of floats.
        """
def pass_and_total_norms(p):
    log = []
    p.register_hook(lambda grad: log.append(("pass", grad.norm())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm())))
    return log
""",
        # The L1 norm.
        """
def pass_and_total_norms(p):
    log = []
    p.register_hook(lambda grad: log.append(("pass", grad.abs().sum().item())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.abs().sum().item())))
    return log
""",
        # Changes the flow.
        """
def pass_and_total_norms(p):
    log = []
    def hook(grad):
        log.append(("pass", grad.norm().item()))
        return grad / 2
    p.register_hook(hook)
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().item())))
    return log
""",
        # The norm of the total without its first entry, read too early.
        """
def pass_and_total_norms(p):
    log = []
    def hook(grad):
        log.append(("pass", grad.norm().item()))
        log.append(("total", p.grad.norm().item()))
    p.register_hook(hook)
    return log
""",
        # A sum of its own, which misses what `.grad` held before.
        """
import torch

def pass_and_total_norms(p):
    log, t = [], torch.zeros_like(p)
    def hook(g):
        t.add_(g)
        log.extend([("pass", g.norm().item()), ("total", t.norm().item())])
    p.register_hook(hook)
    return log
""",
    ],
    "04-sgd-in-backward": [
        "def sgd_in_backward(model, lr):\n    return []",
        # Right, but no handles.
        """
def sgd_in_backward(model, lr):
    def step(p):
        p.sub_(lr * p.grad)
        p.grad = None
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
""",
        # Only the last handle.
        """
def sgd_in_backward(model, lr):
    def step(p):
        p.sub_(lr * p.grad)
        p.grad = None
    for p in model.parameters():
        handle = p.register_post_accumulate_grad_hook(step)
    return [handle]
""",
        # Works once.
        """
def sgd_in_backward(model, lr):
    handles = {}
    def step(p):
        p.sub_(lr * p.grad)
        p.grad = None
        handles[p].remove()
    for p in model.parameters():
        handles[p] = p.register_post_accumulate_grad_hook(step)
    return list(handles.values())
""",
        # Another optimizer.
        """
import torch
def sgd_in_backward(model, lr):
    optimizers = {p: torch.optim.SGD([p], lr=lr, momentum=0.9) for p in model.parameters()}
    def hook(p):
        optimizers[p].step()
        optimizers[p].zero_grad()
    return [p.register_post_accumulate_grad_hook(hook) for p in model.parameters()]
""",
        # Rebinds the local name: nothing moves.
        """
def sgd_in_backward(model, lr):
    def step(p):
        p = p - lr * p.grad
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
        # A tensor hook that reads .grad.
        """
def sgd_in_backward(model, lr):
    def make(p):
        def hook(grad):
            p.data.sub_(lr * p.grad)
            p.grad = None
        return hook
    return [p.register_hook(make(p)) for p in model.parameters()]
""",
        # A guarded late binding: only the last parameter moves.
        """
def sgd_in_backward(model, lr):
    handles = []
    for p in model.parameters():
        def step(_):
            if p.grad is not None:
                p.sub_(lr * p.grad)
                p.grad = None
        handles.append(p.register_post_accumulate_grad_hook(step))
    return handles
""",
        # Only the top level.
        """
def sgd_in_backward(model, lr):
    def step(p):
        p.sub_(lr * p.grad)
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step)
            for layer in model.children() for p in layer.parameters(recurse=False)]
""",
        # Steps and frees inside a tensor hook by returning zeros.
        """
import torch
def sgd_in_backward(model, lr):
    def make(p):
        def hook(grad):
            p.data.sub_(lr * grad)
            return torch.zeros_like(grad)
        return hook
    return [p.register_hook(make(p)) for p in model.parameters()]
""",
        # A multi-grad hook, which cannot free `.grad`.
        """
import torch

def sgd_in_backward(model, lr):
    ps = list(model.parameters())
    def hook(gs):
        with torch.no_grad():
            for p, g in zip(ps, gs):
                if g is not None: p -= lr * g
                p.grad = None
    return [torch.autograd.graph.register_multi_grad_hook(ps, hook)]
""",
        # Late binding of the parameter, not of the gradient.
        """
def sgd_in_backward(model, lr):
    handles = []
    for p in model.parameters():
        def step(q):
            p.data -= lr * q.grad
            q.grad = None
        handles.append(p.register_post_accumulate_grad_hook(step))
    return handles
""",
        # Waits for all parameters; a pass that reaches few of them takes no step.
        """
def sgd_in_backward(model, lr):
    params, arrived = list(model.parameters()), []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            for q in arrived:
                q.data -= lr * q.grad
                q.grad = None
            arrived.clear()
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        # One hook, on the parameter that happens to come last.
        """
import torch

def sgd_in_backward(model, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr)
    def hook(p):
        optimizer.step()
        optimizer.zero_grad()
    return [next(model.parameters()).register_post_accumulate_grad_hook(hook)]
""",
        # A global learning rate: a second model changes that of the first.
        """
import torch

rate = 0.0

def sgd_in_backward(model, lr):
    global rate
    rate = lr
    def hook(p):
        with torch.no_grad():
            p -= rate * p.grad
        p.grad = None
    return [p.register_post_accumulate_grad_hook(hook) for p in model.parameters()]
""",
    ],
    "04-offload-grads": [
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
    ],
    "04-clip-global-norm-in-backward": [
        "def clip_global_norm_in_backward(params, c):\n    return []",
        # The first of the list need not be the last to arrive.
        """
import torch
def clip_global_norm_in_backward(params, c):
    def hook(_):
        torch.nn.utils.clip_grad_norm_(params, c)
    return [params[0].register_post_accumulate_grad_hook(hook)]
""",
        # A tensor hook counts, but the last gradient is not written yet.
        """
import torch
def clip_global_norm_in_backward(params, c):
    arrived = []
    def hook(grad):
        arrived.append(1)
        if len(arrived) == len(params):
            arrived.clear()
            torch.nn.utils.clip_grad_norm_(params, c)
    return [p.register_hook(hook) for p in params]
""",
        # Every arrival looks at every gradient.
        """
import torch
def clip_global_norm_in_backward(params, c):
    def hook(_):
        norm = torch.stack([p.grad.norm() for p in params]).norm()
        for p in params:
            p.grad.mul_(min(1.0, c / norm.item()))
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        # Never reset, and >= instead of ==: from the second pass on every arrival clips.
        """
import torch
def clip_global_norm_in_backward(params, c):
    arrived = []
    def hook(p):
        arrived.append(p)
        if len(arrived) >= len(params):
            torch.nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        # Clips the gradient of this pass, not the accumulated one.
        """
import torch
def clip_global_norm_in_backward(params, c):
    grads = {}
    def watch(p):
        return lambda grad: grads.update({p: grad.clone()})
    def hook(p):
        if len(grads) == len(params):
            norm = torch.cat([g.flatten() for g in grads.values()]).norm()
            factor = min(1.0, c / norm.item())
            for q in params:
                q.grad.sub_(grads[q] * (1 - factor))
            grads.clear()
    return [p.register_hook(watch(p)) for p in params] + [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        # The sum of the norms instead of their root sum of squares.
        """
def clip_global_norm_in_backward(params, c):
    arrived = []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            arrived.clear()
            norm = sum(q.grad.norm().item() for q in params)
            for q in params:
                q.grad.mul_(min(1.0, c / norm))
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        # No handles.
        """
import torch
def clip_global_norm_in_backward(params, c):
    arrived = []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            arrived.clear()
            torch.nn.utils.clip_grad_norm_(params, c)
    for p in params:
        p.register_post_accumulate_grad_hook(hook)
""",
        # Clips the values.
        """
import torch
def clip_global_norm_in_backward(params, c):
    def hook(p):
        torch.nn.utils.clip_grad_value_([p], c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        # Hooks that do nothing.
        """
def clip_global_norm_in_backward(params, c):
    return [p.register_post_accumulate_grad_hook(lambda p: None) for p in params]
""",
        # Takes the order of the first pass for that of all.
        """
from torch import nn

def clip_global_norm_in_backward(params, c):
    seen = []
    def hook(p):
        if len(seen) < len(params): seen.append(p)
        if len(seen) == len(params) and p is seen[-1]: nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        # A `.grad` that is not None may stem from an earlier pass.
        """
from torch import nn

def clip_global_norm_in_backward(params, c):
    def hook(p):
        if all(q.grad is not None for q in params): nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        # A global counter: two lists in one pass disturb each other.
        """
from torch import nn

count = 0

def clip_global_norm_in_backward(params, c):
    def hook(p):
        global count
        count += 1
        if count == len(params):
            count = 0
            nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        # The bound is global: a second call changes that of the first.
        """
from torch import nn

bound = 0.0

def clip_global_norm_in_backward(params, c):
    global bound
    bound, arrived = c, []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            arrived.clear()
            nn.utils.clip_grad_norm_(params, bound)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
        # Takes the order of the first pass for that of all passes.
        """
from torch import nn

def clip_global_norm_in_backward(params, c):
    order = []
    def hook(p):
        if len(order) < len(params):
            order.append(p)
        if len(order) == len(params) and p is order[-1]:
            nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ],
}
