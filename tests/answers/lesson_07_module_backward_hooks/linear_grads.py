"""Answers to 07-linear-grads."""

from graders.author.answers import Wrong

TAUGHT = """
def linear_grads(lin, x, loss_fn):
    y = lin(x).detach().requires_grad_()
    loss_fn(y).backward()
    g = y.grad.reshape(-1, lin.out_features)
    rows = x.detach().reshape(-1, lin.in_features)
    return g.T @ rows, g.sum(0)
"""

RIGHT = [
    TAUGHT,
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
]

WRONG = [
    Wrong(
        "needs an input that requires grad",
        violates="At least one of `x`, the weight and the bias requires grad",
        check="raised",
        source="""
import torch

def linear_grads(lin, x, loss_fn):
    if not x.requires_grad:
        raise ValueError("x needs a gradient")
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    g = g.reshape(-1, lin.out_features)
    return g.T @ x.detach().reshape(-1, lin.in_features), g.sum(0)
""",
    ),
    Wrong(
        "on a detached x",
        violates="At least one of `x`, the weight and the bias requires grad",
        check="test_any_layer_and_any_gradient",
        source="""
import torch

def linear_grads(lin, x, loss_fn):
    x = x.detach()
    y = lin(x)
    if not y.requires_grad:
        return torch.zeros_like(lin.weight), torch.zeros_like(lin.bias)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    rows, g = x.reshape(-1, lin.in_features), g.reshape(-1, lin.out_features)
    return g.T @ rows, g.sum(0)
""",
    ),
]

SURVIVORS = {
    "eval() and back at the root": "a linear layer computes the same in both modes",
    "condition dropped: x, g = (x[None], g[None])": "`einsum` and `flatten` take one dimension as well",
    "one global slot: seen": "each call writes it anew",
    "lost copy: with lin.register_full_backward_pre_hook(": "products and sums are new tensors",
    "lost copy: … .requires_grad_()": "the gradient comes to this tensor in any case",
}
