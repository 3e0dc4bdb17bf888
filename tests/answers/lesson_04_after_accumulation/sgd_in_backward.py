"""Answers to 04-sgd-in-backward."""

RIGHT = [
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
]

WRONG = {
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
}

ALSO_WRONG = [
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
]
