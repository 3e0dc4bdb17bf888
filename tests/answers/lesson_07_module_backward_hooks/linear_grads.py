"""Answers to 07-linear-grads."""

RIGHT = [
    """
def linear_grads(lin, x, loss_fn):
    y = lin(x).detach().requires_grad_()
    loss_fn(y).backward()
    g = y.grad.reshape(-1, lin.out_features)
    rows = x.detach().reshape(-1, lin.in_features)
    return g.T @ rows, g.sum(0)
""",
    """
import torch

def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    x = x.detach()
    if x.dim() == 1:
        x, g = x[None], g[None]
    return torch.einsum("...o,...i->oi", g, x), g.flatten(0, -2).sum(dim=0)
""",
    """
import torch

def linear_grads(lin, x, loss_fn):
    seen = {}
    with lin.register_full_backward_pre_hook(lambda m, go: seen.update(go=go[0].detach().clone())):
        loss_fn(lin(x)).backward()
    g = seen["go"].reshape(-1, lin.out_features)
    w = torch.zeros_like(lin.weight, requires_grad=False)
    b = torch.zeros(lin.out_features)
    for row, grad in zip(x.detach().reshape(-1, lin.in_features), g):
        w = w + torch.outer(grad, row)
        b = b + grad
    return (w, b)
""",
    """
import torch

def linear_grads(lin, x, loss_fn):
    w = lin.weight.detach().clone().requires_grad_()
    b = lin.bias.detach().clone().requires_grad_()
    y = torch.func.functional_call(lin, {"weight": w, "bias": b}, (x,))
    return torch.autograd.grad(loss_fn(y), (w, b))
""",
    """
import torch
def linear_grads(lin, x, loss_fn):
    saved = x.requires_grad, lin.weight.requires_grad, lin.bias.requires_grad
    lin.requires_grad_(False)
    try:
        out = lin(x.detach()).requires_grad_()
        g, = torch.autograd.grad(loss_fn(out), out)
    finally:
        lin.weight.requires_grad_(saved[1]); lin.bias.requires_grad_(saved[2])
    g, rows = g.reshape(-1, g.shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return torch.einsum("no,ni->oi", g, rows), g.sum(0)
""",
    """
import torch
def linear_grads(lin, x, loss_fn):
    out = lin(x); keep = []
    h = torch.autograd.graph.register_multi_grad_hook([out], lambda gs: keep.append(gs[0]))
    try: loss_fn(out).backward()
    finally: h.remove()
    g = keep[0].view(-1, lin.out_features)
    return g.mT @ x.detach().reshape(-1, lin.in_features), g.sum(0)
""",
    """
import torch

def linear_grads(lin, x, loss_fn):
    params = {k: v.detach().clone().requires_grad_() for k, v in lin.named_parameters()}
    loss = loss_fn(torch.func.functional_call(lin, params, (x.detach(),)))
    return torch.autograd.grad(loss, (params["weight"], params["bias"]))
""",
]

WRONG = {
    "reads-dot-grad": """
def linear_grads(lin, x, loss_fn):
    lin.zero_grad()
    loss_fn(lin(x)).backward()
    return lin.weight.grad.clone(), lin.bias.grad.clone()
""",
    "transposed": """
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    g = g.reshape(-1, lin.out_features)
    return x.detach().reshape(-1, lin.in_features).T @ g, g.sum(0)
""",
    "mean-instead-of-sum": """
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    g = g.reshape(-1, lin.out_features)
    rows = x.detach().reshape(-1, lin.in_features)
    return g.T @ rows / len(rows), g.mean(0)
""",
    "two-dimensions-only": """
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    return g.T @ x.detach(), g.sum(0)
""",
    "last-row-only": """
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    for row, grad in zip(x.detach().reshape(-1, lin.in_features), g.reshape(-1, lin.out_features)):
        w, b = torch.outer(grad, row), grad
    return w, b
""",
    "hook-left-behind": """
def linear_grads(lin, x, loss_fn):
    d = []
    lin.register_full_backward_hook(lambda m, gi, go: d.append(go[0]))
    loss_fn(lin(x)).backward()
    G, X = d[0].reshape(-1, d[0].shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.T @ X, G.sum(0)
""",
    "hook-left-after-exception": """
def linear_grads(lin, x, loss_fn):
    d = []
    h = lin.register_full_backward_hook(lambda m, gi, go: d.append(go[0]))
    loss_fn(lin(x)).backward()
    h.remove()
    G, X = d[0].reshape(-1, d[0].shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.T @ X, G.sum(0)
""",
}

ALSO_WRONG = [
    "def linear_grads(lin, x, loss_fn):\n    return None",
    "def linear_grads(lin, x, loss_fn):\n    return lin.weight, lin.bias",
    """
import torch
def linear_grads(lin, x, loss_fn):
    return torch.autograd.grad(loss_fn(lin(x)), (lin.weight, lin.bias))
""",
    """
def linear_grads(lin, x, loss_fn):
    lin.weight._backward_hooks.clear()
    lin.bias._backward_hooks.clear()
    lin.zero_grad()
    loss_fn(lin(x)).backward()
    return lin.weight.grad.clone(), lin.bias.grad.clone()
""",
    """
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y, create_graph=True)
    g = g.reshape(-1, lin.out_features)
    return g.T @ x.reshape(-1, lin.in_features) * lin.weight / lin.weight, g.sum(0)
""",
    """
import torch
def linear_grads(lin, x, loss_fn):
    seen = []
    lin.register_full_backward_pre_hook(lambda m, go: seen.append(go[0].clone()))
    loss_fn(lin(x)).backward()
    g = seen[0].reshape(-1, lin.out_features)
    return g.T @ x.detach().reshape(-1, lin.in_features), g.sum(0)
""",
    """
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    g = g.reshape(-1, lin.out_features)
    return g.T @ x.detach().reshape(-1, lin.in_features), g.mean(0)
""",
    """
import torch
def linear_grads(lin, x, loss_fn):
    lin.eval()
    out = lin(x)
    (g,) = torch.autograd.grad(loss_fn(out), out)
    G, X = g.reshape(-1, g.shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.T @ X, G.sum(0)
""",
    """
import torch
def linear_grads(lin, x, loss_fn):
    lin.requires_grad_(False)
    out = lin(x).detach().requires_grad_()
    (g,) = torch.autograd.grad(loss_fn(out), out)
    G, X = g.reshape(-1, g.shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.T @ X, G.sum(0)
""",
    """
import torch
def linear_grads(lin, x, loss_fn):
    x.requires_grad_()
    out = lin(x)
    (g,) = torch.autograd.grad(loss_fn(out), out)
    G, X = g.reshape(-1, g.shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.T @ X, G.sum(0)
""",
    """
import torch
def linear_grads(lin, x, loss_fn):
    out = lin(x).detach().requires_grad_()
    (g,) = torch.autograd.grad(loss_fn(out), out)
    G, X = g.reshape(-1, g.shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return (G.T @ X), G.sum(0, keepdim=True)
""",
    """
import torch
def linear_grads(lin, x, loss_fn):
    out = lin(x).detach().requires_grad_()
    (g,) = torch.autograd.grad(loss_fn(out), out)
    G, X = g.reshape(-1, g.shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.sum(0), (G.T @ X)
""",
    """
import torch
def linear_grads(lin, x, loss_fn):
    out = lin(x).detach().requires_grad_()
    (g,) = torch.autograd.grad(loss_fn(out), out)
    if g.dim() == 1: return torch.outer(g, x.detach()), g
    return g.T @ x.detach(), g.sum(0)
""",
    """
import torch

def linear_grads(lin, x, loss_fn):
    lin.requires_grad_(False)
    y = lin(x.detach()).requires_grad_()
    g = torch.autograd.grad(loss_fn(y), y)[0].reshape(-1, lin.out_features)
    lin.requires_grad_(True)
    return g.T @ x.detach().reshape(-1, lin.in_features), g.sum(0)
""",
    """
import torch

def linear_grads(lin, x, loss_fn):
    y = lin(x)
    g = torch.autograd.grad(loss_fn(y), y)[0].view(-1, lin.out_features)
    return g.T @ x.detach().view(-1, lin.in_features), g.sum(0)
""",
    """
import torch

def linear_grads(lin, x, loss_fn):
    box = {}
    lin.register_forward_hook(lambda m, a, o: box.update(y=o))
    try:
        loss = loss_fn(lin(x))
    finally:
        lin._forward_hooks.clear()
    g = torch.autograd.grad(loss, box["y"])[0].reshape(-1, lin.out_features)
    return g.T @ x.detach().reshape(-1, lin.in_features), g.sum(0)
""",
]
