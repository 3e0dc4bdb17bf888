"""Answers to 07-linear-grads."""

from graders.author.answers import Wrong, changed

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
    g = keep[0].reshape(-1, lin.out_features)
    return g.mT @ x.detach().reshape(-1, lin.in_features), g.sum(0)
""",
    """
import torch

def linear_grads(lin, x, loss_fn):
    params = {k: v.detach().clone().requires_grad_() for k, v in lin.named_parameters()}
    loss = loss_fn(torch.func.functional_call(lin, params, (x.detach(),)))
    return torch.autograd.grad(loss, (params["weight"], params["bias"]))
""",
    """
from collections import namedtuple

Grads = namedtuple("Grads", "weight bias")

def linear_grads(lin, x, loss_fn):
    y = lin(x).detach().requires_grad_()
    loss_fn(y).backward()
    g, rows = y.grad.flatten(end_dim=-2) if y.dim() > 1 else y.grad[None], x.detach().reshape(-1, lin.in_features)
    return Grads(g.T.matmul(rows), g.sum(0))
""",
]

WRONG = [
    Wrong(
        "reads .grad",
        violates="Do not read them from the parameters",
        check="raised",
        mistake="reads-dot-grad",
        source="""
def linear_grads(lin, x, loss_fn):
    lin.zero_grad()
    loss_fn(lin(x)).backward()
    return lin.weight.grad.clone(), lin.bias.grad.clone()
""",
    ),
    Wrong(
        "reads .grad, also of a frozen parameter",
        violates="Do not read them from the parameters",
        check="raised",
        mistake="reads-dot-grad",
        source="""
import torch

def linear_grads(lin, x, loss_fn):
    kept = lin.weight.requires_grad
    lin.zero_grad()
    lin.weight.requires_grad_()
    loss_fn(lin(x)).backward()
    lin.weight.requires_grad_(kept)
    return lin.weight.grad.clone(), lin.bias.grad.clone()
""",
    ),
    Wrong(
        "transposed",
        violates="with the shapes of `lin.weight` and `lin.bias`",
        check="test_weight_and_bias_have_their_gradients",
        mistake="transposed",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    g = g.reshape(-1, lin.out_features)
    return x.detach().reshape(-1, lin.in_features).T @ g, g.sum(0)
""",
    ),
    Wrong(
        "the mean over the rows",
        violates="return the tuple of dL/dW and dL/db, with the shapes of `lin.weight` and `lin.bias`",
        check="test_weight_and_bias_have_their_gradients",
        mistake="mean-instead-of-sum",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    g = g.reshape(-1, lin.out_features)
    rows = x.detach().reshape(-1, lin.in_features)
    return g.T @ rows / len(rows), g.mean(0)
""",
    ),
    Wrong(
        "two dimensions alone",
        violates="`x` has one dimension or more",
        check="raised",
        mistake="two-dimensions-only",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    return g.T @ x.detach(), g.sum(0)
""",
    ),
    Wrong(
        "the last row alone",
        violates="return the tuple of dL/dW and dL/db, with the shapes of `lin.weight` and `lin.bias`",
        check="test_weight_and_bias_have_their_gradients",
        mistake="last-row-only",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    for row, grad in zip(x.detach().reshape(-1, lin.in_features), g.reshape(-1, lin.out_features)):
        w, b = torch.outer(grad, row), grad
    return w, b
""",
    ),
    Wrong(
        "leaves a hook",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_else_changes",
        mistake="hook-left",
        source="""
def linear_grads(lin, x, loss_fn):
    d = []
    lin.register_full_backward_hook(lambda m, gi, go: d.append(go[0]))
    loss_fn(lin(x)).backward()
    G, X = d[0].reshape(-1, d[0].shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.T @ X, G.sum(0)
""",
    ),
    Wrong(
        "leaves a hook after an exception",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_nothing_is_left",
        mistake="hook-left",
        source="""
def linear_grads(lin, x, loss_fn):
    d = []
    h = lin.register_full_backward_hook(lambda m, gi, go: d.append(go[0]))
    loss_fn(lin(x)).backward()
    h.remove()
    G, X = d[0].reshape(-1, d[0].shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.T @ X, G.sum(0)
""",
    ),
    Wrong(
        "returns nothing",
        violates="return the tuple of dL/dW and dL/db, with the shapes of `lin.weight` and `lin.bias`",
        check="test_weight_and_bias_have_their_gradients",
        source="""
def linear_grads(lin, x, loss_fn):
    return None
""",
    ),
    Wrong(
        "the parameters",
        violates="return the tuple of dL/dW and dL/db, with the shapes of `lin.weight` and `lin.bias`",
        check="test_weight_and_bias_have_their_gradients",
        source="""
def linear_grads(lin, x, loss_fn):
    return lin.weight, lin.bias
""",
    ),
    Wrong(
        "asks autograd for the parameters",
        violates="these may carry hooks of the caller which change or erase the gradients that arrive there",
        check="raised",
        mistake="reads-dot-grad",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    return torch.autograd.grad(loss_fn(lin(x)), (lin.weight, lin.bias))
""",
    ),
    Wrong(
        "removes the hooks of the caller",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_else_changes",
        source="""
def linear_grads(lin, x, loss_fn):
    for p in lin.parameters():
        if p._backward_hooks:
            p._backward_hooks.clear()
    kept = lin.weight.requires_grad
    lin.requires_grad_()
    lin.zero_grad()
    loss_fn(lin(x)).backward()
    lin.weight.requires_grad_(kept)
    return lin.weight.grad.clone(), lin.bias.grad.clone()
""",
    ),
    Wrong(
        "with a graph",
        violates="rule 6: A tensor that you return has no graph",
        check="test_they_are_copies_without_a_graph",
        mistake="graph-kept",
        source="""
import torch

def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    g = g.reshape(-1, lin.out_features)
    return g.T @ x.reshape(-1, lin.in_features), g.sum(0)
""",
    ),
    Wrong(
        "the mean for the bias",
        violates="return the tuple of dL/dW and dL/db, with the shapes of `lin.weight` and `lin.bias`",
        check="test_weight_and_bias_have_their_gradients",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    g = g.reshape(-1, lin.out_features)
    return g.T @ x.detach().reshape(-1, lin.in_features), g.mean(0)
""",
    ),
    Wrong(
        "in eval mode from now on",
        violates="rule 2: the mode of each part",
        check="test_nothing_else_changes",
        mistake="changed-what-was-given",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    lin.eval()
    out = lin(x)
    (g,) = torch.autograd.grad(loss_fn(out), out)
    G, X = g.reshape(-1, g.shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.T @ X, G.sum(0)
""",
    ),
    Wrong(
        "frozen from now on",
        violates="rule 2: their `requires_grad`",
        check="test_nothing_else_changes",
        mistake="changed-what-was-given",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    lin.requires_grad_(False)
    out = lin(x).detach().requires_grad_()
    (g,) = torch.autograd.grad(loss_fn(out), out)
    G, X = g.reshape(-1, g.shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.T @ X, G.sum(0)
""",
    ),
    Wrong(
        "x requires grad from now on",
        violates="rule 2: their `requires_grad`",
        check="test_nothing_else_changes",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    x = x if x.grad_fn else x.requires_grad_()
    out = lin(x)
    (g,) = torch.autograd.grad(loss_fn(out), out)
    G, X = g.reshape(-1, g.shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.T @ X, G.sum(0)
""",
    ),
    Wrong(
        "another shape for the bias",
        violates="with the shapes of `lin.weight` and `lin.bias`",
        check="test_weight_and_bias_have_their_gradients",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    out = lin(x).detach().requires_grad_()
    (g,) = torch.autograd.grad(loss_fn(out), out)
    G, X = g.reshape(-1, g.shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return (G.T @ X), G.sum(0, keepdim=True)
""",
    ),
    Wrong(
        "the bias first",
        violates="return the tuple of dL/dW and dL/db",
        check="test_weight_and_bias_have_their_gradients",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    out = lin(x).detach().requires_grad_()
    (g,) = torch.autograd.grad(loss_fn(out), out)
    G, X = g.reshape(-1, g.shape[-1]), x.detach().reshape(-1, x.shape[-1])
    return G.sum(0), (G.T @ X)
""",
    ),
    Wrong(
        "one or two dimensions",
        violates="`x` has one dimension or more",
        check="raised",
        mistake="two-dimensions-only",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    out = lin(x).detach().requires_grad_()
    (g,) = torch.autograd.grad(loss_fn(out), out)
    if g.dim() == 1: return torch.outer(g, x.detach()), g
    return g.T @ x.detach(), g.sum(0)
""",
    ),
    Wrong(
        "thawed, and not after an exception",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source="""
import torch

def linear_grads(lin, x, loss_fn):
    kept = [p.requires_grad for p in lin.parameters()]
    lin.requires_grad_(False)
    y = lin(x.detach()).requires_grad_()
    g = torch.autograd.grad(loss_fn(y), y)[0].reshape(-1, lin.out_features)
    for p, flag in zip(lin.parameters(), kept):
        p.requires_grad_(flag)
    return g.T @ x.detach().reshape(-1, lin.in_features), g.sum(0)
""",
    ),
    Wrong(
        "view",
        violates="rule 1: in any layout",
        check="raised",
        mistake="view-of-strides",
        source="""
import torch

def linear_grads(lin, x, loss_fn):
    y = lin(x)
    g = torch.autograd.grad(loss_fn(y), y)[0].view(-1, lin.out_features)
    return g.T @ x.detach().view(-1, lin.in_features), g.sum(0)
""",
    ),
    Wrong(
        "clears the forward hooks",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_else_changes",
        source="""
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
    ),
    Wrong(
        "a list",
        violates="rule 6: A tuple is a tuple: a namedtuple or a `torch.Size` is one, a list is not",
        check="test_weight_and_bias_have_their_gradients",
        mistake="another-type",
        source=changed(TAUGHT, ("g.T", "[g.T"), ("g.sum(0)\n", "g.sum(0)]\n")),
    ),
    Wrong(
        "float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_weight_and_bias_have_their_gradients",
        mistake="another-dtype",
        source=changed(TAUGHT, ("g.T", "(g.T"), ("rows,", "rows).float(),"), ("g.sum(0)\n", "g.sum(0).float()\n")),
    ),
    Wrong(
        "float32 and back",
        violates="rule 1: in `float32` and in `float64`",
        check="test_weight_and_bias_have_their_gradients",
        mistake="rounded-to-float32",
        source=changed(TAUGHT, ("g.T", "(g.float().T"), ("rows,", "rows.float()).to(g.dtype),")),
    ),
    Wrong(
        "the first result for good",
        violates="rule 1: It works however often it is called",
        check="test_each_call_computes_afresh",
        source="""
_kept = {}

def linear_grads(lin, x, loss_fn):
    y = lin(x).detach().requires_grad_()
    loss_fn(y).backward()
    g = y.grad.reshape(-1, lin.out_features)
    rows = x.detach().reshape(-1, lin.in_features)
    return _kept.setdefault(id(lin), (g.T @ rows, g.sum(0)))
""",
    ),
    Wrong(
        "copies that the loss can write into",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_they_are_copies_without_a_graph",
        source="""
_memory = {}


import torch

def linear_grads(lin, x, loss_fn):
    y = lin(x).detach().requires_grad_()
    loss_fn(y).backward()
    g = y.grad.reshape(-1, lin.out_features)
    rows = x.detach().reshape(-1, lin.in_features)
    key = id(lin), lin.weight.shape, lin.weight.dtype
    memory = _memory.setdefault(key, (torch.zeros_like(lin.weight).detach(), torch.zeros_like(g.sum(0))))
    memory[0].copy_(g.T @ rows)
    memory[1].copy_(g.sum(0))
    return memory
""",
    ),
    Wrong(
        "swallows exceptions",
        violates="rule 4: Errors come through",
        check="test_an_exception_comes_through_and_nothing_is_left",
        mistake="swallowed-exception",
        source="""
def linear_grads(lin, x, loss_fn):
    y = lin(x).detach().requires_grad_()
    try:
        loss_fn(y).backward()
    except BaseException:
        return None
    g = y.grad.reshape(-1, lin.out_features)
    return g.T @ x.detach().reshape(-1, lin.in_features), g.sum(0)
""",
    ),
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
        "finite differences",
        violates="return the tuple of dL/dW and dL/db, with the shapes of `lin.weight` and `lin.bias`",
        check="test_weight_and_bias_have_their_gradients",
        source="""
import torch

def linear_grads(lin, x, loss_fn):
    y, step = lin(x).detach(), 1e-3
    g = torch.zeros_like(y)
    for index in range(y.numel()):
        nudge = torch.zeros_like(y).reshape(-1)
        nudge[index] = step
        nudge = nudge.reshape(y.shape)
        g.reshape(-1)[index] = (loss_fn(y + nudge) - loss_fn(y - nudge)).detach() / (2 * step)
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
    Wrong(
        "from the gradient of x, by a pseudo-inverse",
        violates="Rebuild them from `x` and dL/dy.",
        check="test_any_layer_and_any_gradient",
        source="""
import torch

def linear_grads(lin, x, loss_fn):
    leaf = x.detach().clone().requires_grad_()
    (at_x,) = torch.autograd.grad(loss_fn(lin(leaf)), leaf)
    g = at_x.reshape(-1, lin.in_features) @ torch.linalg.pinv(lin.weight.detach())
    return g.T @ x.detach().reshape(-1, lin.in_features), g.sum(0)
""",
    ),
    Wrong(
        "without rows of tiny gradients",
        violates="return the tuple of dL/dW and dL/db",
        check="test_any_layer_and_any_gradient",
        source="""
import torch

def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    rows, g = x.detach().reshape(-1, lin.in_features), g.reshape(-1, lin.out_features)
    g = g * (g.abs().amax(1, keepdim=True) > 1e-9)
    return g.T @ rows, g.sum(0)
""",
    ),
    Wrong(
        "keeps the output on the function",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=changed(
            TAUGHT,
            ("    y = lin(x)", "    linear_grads.y = lin(x)"),
            ("loss_fn(y)", "loss_fn(linear_grads.y)"),
            ("g = y.grad", "g = linear_grads.y.grad"),
        ),
    ),
    Wrong(
        "the gradient of a single row itself",
        violates="rule 6",
        check="test_they_are_copies_without_a_graph",
        source="""
import torch

def linear_grads(lin, x, loss_fn):
    y = lin(x).detach().requires_grad_()
    (found,) = torch.autograd.grad(loss_fn(y), y)
    g = found.reshape(-1, lin.out_features)
    rows = x.detach().reshape(-1, lin.in_features)
    return g.T @ rows, found if x.dim() == 1 else g.sum(0)
""",
    ),
    Wrong(
        "a view of the gradient",
        violates="with the shapes of `lin.weight` and `lin.bias`",
        check="raised",
        source="""
import torch
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    (g,) = torch.autograd.grad(loss_fn(y), y)
    g, r = g.view(-1, lin.out_features), x.detach().reshape(-1, lin.in_features)
    return g.T @ r, g.sum(0)
""",
    ),
    Wrong(
        "for a single row, a view of the retained gradient of the output",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_they_are_copies_without_a_graph",
        source="""
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    y.retain_grad()
    loss_fn(y).backward()
    g, rows = y.grad.reshape(-1, lin.out_features), x.detach().reshape(-1, lin.in_features)
    return g.T @ rows, g[0] if len(g) == 1 else g.sum(0)
""",
    ),
]

GIVENS = [
    "Write `linear_grads(lin, x, loss_fn)`.",
    "`lin` is an `nn.Linear` with a bias",
    "`loss_fn` does not work in place or use `lin`.",
    "what their `.grad` holds afterwards is not graded",
    "Rebuild them from `x` and dL/dy.",
    "Whether you call `lin` is up to you",
]

SURVIVORS = {
    "zero_grad() first": "the contract does not ask for the `.grad` of these tensors",
    "`.grad` put back as a copy": "the contract does not ask for the `.grad` of these tensors",
    "eval() and back": "a linear layer is the same in both modes, and has one mode, which is put back",
    "at least one dimension": "an input has one dimension at least",
    "condition dropped: x, g": "another dimension of one row changes neither of the sums",
    "prepend=True: with lin.register_full_backward_pre_hook": "hooks of the caller on the layer only watch",
    "one global slot: seen": "each call writes into it before it reads",
    "lost copy: with lin.register_full": "the gradient is used at once, and sums and products are new tensors",
    "lost copy: params": "the gradient of a parameter does not depend on what else it is",
    "lost copy: w = ": "functional_call computes the same with the parameter itself or a copy",
    "lost copy: b = ": "functional_call computes the same with the parameter itself or a copy",
    "lost copy: loss": "the gradient of a parameter does not depend on the graph of the input",
    "lost copy: out": "the gradient at the output does not depend on the graph of the input",
    "lost statement: without lin.requires_grad_(False)": "the gradient at the output does not depend on it",
    "almost: lin.requires_grad_(True)": "the gradient at the output does not depend on it, and it is put back",
    "truth for None: saved = (x": "that of `x` is kept and never used",
    "clean-up only after an `Exception`: without try": "the hook sits on an output that nobody else has",
    "clean-up not after an exception: without try": "the hook sits on an output that nobody else has",
    "lost statement: without h.remove()": "the hook sits on an output that nobody else has",
    "not for all: params": "all of them, in the reverse order",
}
