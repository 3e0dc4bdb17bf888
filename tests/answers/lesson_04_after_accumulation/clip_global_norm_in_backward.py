"""Answers to 04-clip-global-norm-in-backward."""

RIGHT = [
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
]

WRONG = {
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
}

ALSO_WRONG = [
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
]
