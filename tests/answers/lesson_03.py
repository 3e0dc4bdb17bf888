"""Answers to the exercises of lesson 3."""

RIGHT = {
    "03-scale-grad": [
        """
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad * s)
""",
        """
import functools
import torch

def scale_grad(t, s):
    return t.register_hook(functools.partial(torch.mul, s))
""",
        """
class Scaler:
    def __init__(self, factor):
        self.factor = factor
    def __call__(self, grad):
        new = grad.clone()
        new.mul_(self.factor)
        return new

def scale_grad(t, s):
    handle = t.register_hook(Scaler(s))
    return handle
""",
        """
import torch

def scale_grad(t, s):
    def hook(grad):
        return torch.full_like(grad, s).mul_(grad)
    return t.register_hook(hook)
""",
        """
def scale_grad(t, s):
    # A pre-hook of the node: for a leaf, that is the node which accumulates.
    node = t.grad_fn if t.grad_fn is not None else t.view_as(t).grad_fn.next_functions[0][0]
    handle = node.register_prehook(lambda grads: tuple(g * s for g in grads))
    handle.node = node
    return handle
""",
        """
import torch

class Handle:
    def __init__(self, handle):
        self.handle = handle
    def remove(self):
        self.handle.remove()

def scale_grad(t, s):
    return Handle(t.register_hook(torch.tensor(s, dtype=t.dtype).mul))
""",
    ],
    "03-clamp-grad": [
        """
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo, hi))
""",
        """
import torch

def clamp_grad(t, lo, hi):
    def limit(grad):
        grad = torch.where(grad < lo, torch.full_like(grad, lo), grad)
        return torch.where(grad > hi, torch.full_like(grad, hi), grad)
    return t.register_hook(limit)
""",
        """
from functools import partial
import torch

def clamp_grad(t, lo, hi):
    return t.register_hook(partial(torch.clamp, min=lo, max=hi))
""",
        """
class Limiter:
    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi
    def __call__(self, grad):
        return grad.clone().clamp_(self.lo, self.hi)

def clamp_grad(t, lo, hi):
    return t.register_hook(Limiter(lo, hi))
""",
        """
class Both:
    def __init__(self, *handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def clamp_grad(t, lo, hi):
    return Both(t.register_hook(lambda g: g.clamp(min=lo)), t.register_hook(lambda g: g.clamp(max=hi)))
""",
        """
class Both:
    def __init__(self, *handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def clamp_grad(t, lo, hi):
    return Both(
        t.register_hook(lambda grad: grad.clamp(min=lo)),
        t.register_hook(lambda grad: grad.clamp(max=hi)),
    )
""",
    ],
    "03-freeze-rows": [
        """
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows] = 0
        return grad
    return p.register_hook(hook)
""",
        """
import torch

def freeze_rows(p, rows):
    mask = torch.ones_like(p, requires_grad=False)
    for row in rows:
        mask[row] = 0
    return p.register_hook(lambda grad: grad * mask)
""",
        """
import torch

def freeze_rows(p, rows):
    index = torch.tensor(rows, dtype=torch.long)
    return p.register_hook(lambda grad: grad.index_fill(0, index, 0))
""",
        """
import torch

class Freeze:
    def __init__(self, rows):
        self.rows = set(rows)
    def __call__(self, grad):
        return torch.stack([torch.zeros_like(g) if i in self.rows else g for i, g in enumerate(grad)])

def freeze_rows(p, rows):
    return p.register_hook(Freeze(rows))
""",
        """
import torch

def freeze_rows(p, rows):
    def hook(grad):
        frozen = torch.tensor([i in rows for i in range(grad.shape[0])])
        frozen = frozen.view(-1, *[1] * (grad.dim() - 1))
        return grad.masked_fill(frozen, 0.0)
    return p.register_hook(hook)
""",
        """
import functools

class Handles(list):
    def remove(self):
        for handle in self:
            handle.remove()

def without_row(grad, row):
    new = grad.clone()
    new[row].zero_()
    return new

def freeze_rows(p, rows):
    return Handles(p.register_hook(functools.partial(without_row, row=row)) for row in rows)
""",
    ],
    "03-clip-and-log": [
        """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        clipped = grad.clamp(lo, hi)
        log["raw"] = grad.detach().clone()
        log["clipped"] = clipped.detach().clone()
        return clipped
    t.register_hook(hook)
    return log
""",
        """
from collections import OrderedDict
from functools import partial

def note(log, key, grad):
    log[key] = grad.detach().clone()

def clip_and_log(t, lo, hi):
    log = OrderedDict()
    t.register_hook(partial(note, log, "raw"))
    t.register_hook(lambda grad: grad.clamp(lo, hi))
    t.register_hook(partial(note, log, "clipped"))
    return log
""",
        """
import torch

class ClipAndLog:
    def __init__(self, lo, hi):
        self.lo, self.hi, self.log = lo, hi, {}
    def __call__(self, grad):
        with torch.no_grad():
            self.log.update(raw=grad.clone(), clipped=torch.clamp(grad, self.lo, self.hi))
        return torch.clamp(grad, self.lo, self.hi)

def clip_and_log(t, lo, hi):
    hook = ClipAndLog(lo, hi)
    t.register_hook(hook)
    return hook.log
""",
        """
class Log(dict):
    def __call__(self, grad):
        self["raw"] = grad.detach().clone()
        self["clipped"] = self["raw"].clamp(*self.bounds)
        return self["clipped"].clone()

def clip_and_log(t, lo, hi):
    log = Log()
    log.bounds = lo, hi
    t.register_hook(log)
    return log
""",
        """
import torch

class Log(dict):
    def __init__(self, lo, hi):
        super().__init__()
        self.lo, self.hi = lo, hi
    def hook(self, grad):
        self["clipped"] = torch.clip(grad.detach(), self.lo, self.hi)
        self["raw"] = torch.empty_like(grad).copy_(grad.detach())
        return grad.clamp(self.lo, self.hi)

def clip_and_log(t, lo, hi):
    log = Log(lo, hi)
    t.register_hook(log.hook)
    return log
""",
    ],
    "03-register-composed": [
        """
def register_composed(t, fs):
    return [t.register_hook(f) for f in reversed(fs)]
""",
        """
def register_composed(t, fs):
    def hook(grad):
        for f in fs[::-1]:
            grad = f(grad)
        return grad
    return [t.register_hook(hook)]
""",
        """
import functools

def register_composed(t, fs):
    composed = functools.reduce(lambda outer, inner: lambda g: outer(inner(g)), fs)
    return [t.register_hook(composed)]
""",
        """
def register_composed(t, fs):
    handles = []
    for i in range(len(fs) - 1, -1, -1):
        handles.append(t.register_hook(lambda grad, f=fs[i]: f(grad)))
    return handles
""",
        """
def register_composed(t, fs):
    def walk(grad, rest):
        return rest[0](walk(grad, rest[1:])) if rest else grad
    return (t.register_hook(lambda grad: walk(grad, list(fs))),)
""",
        """
def register_composed(t, fs):
    if not fs:
        return []
    inner = register_composed(t, fs[1:])
    return inner + [t.register_hook(fs[0])]
""",
    ],
    "03-reverse-gradient": [
        """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
        """
import torch

class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return -ctx.lam * grad, None

def reverse_gradient(x, lam):
    return Reverse.apply(x, lam)
""",
        """
from functools import partial

def turn(factor, grad):
    return grad.mul(factor)

def reverse_gradient(x, lam):
    y = x.clone()
    if not y.requires_grad:
        return y
    y.register_hook(partial(turn, -lam))
    return y
""",
        """
import torch

def reverse_gradient(x, lam):
    if not (x.requires_grad and torch.is_grad_enabled()):
        return x
    y = x.view_as(x)
    y.register_hook(lambda grad: grad.neg() * lam)
    return y
""",
        """
def reverse_gradient(x, lam):
    away = -lam * x
    return away + (x - away).detach()
""",
        """
import torch

class Turn:
    def __init__(self, lam):
        self.lam = lam
    def __call__(self, grad):
        return torch.neg(grad).mul_(self.lam)

def reverse_gradient(x, lam):
    y = x + torch.zeros_like(x)
    try:
        y.register_hook(Turn(lam))
    except RuntimeError:
        pass
    return y
""",
        """
from torch import nn

def reverse_gradient(x, lam):
    identity = nn.Identity()
    identity.register_full_backward_hook(lambda module, grad_input, grad_output: (-lam * grad_input[0],))
    return identity(x)
""",
        """
import torch

def reverse_gradient(x, lam):
    if not (torch.is_grad_enabled() and x.requires_grad):
        return x
    y = x + 0
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: tuple(g if g is None else -lam * g for g in grad_inputs))
    return y
""",
    ],
    "03-guarded-net": [
        # The hook on the bias is registered in the first pass.
        """
import torch
from torch import nn

class GuardedNet(nn.Module):
    ready = False

    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi

    def forward(self, x):
        if not self.ready:
            self.ready = self.fc.bias.register_hook(torch.zeros_like)
        h = self.body(x)
        if h.grad_fn is not None:
            h.grad_fn.register_prehook(lambda grads: (grads[0].clamp(self.lo, self.hi),))
        return self.fc(h.flatten(1))
""",
        """
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi
        fc.bias.register_hook(torch.zeros_like)

    def forward(self, x):
        h = self.body(x)
        if h.requires_grad:
            h.register_hook(lambda grad: grad.clamp(self.lo, self.hi))
        return self.fc(h.flatten(1))
""",
        """
import torch

class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, lo, hi):
        ctx.bounds = lo, hi
        return h.view_as(h)
    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(*ctx.bounds), None, None

class GuardedNet(torch.nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.add_module("body", body)
        self.add_module("fc", fc)
        self.bounds = (lo, hi)
        self.handle = self.fc.bias.register_hook(lambda grad: grad * 0)

    def forward(self, x):
        h = Clamp.apply(self.body(x), *self.bounds)
        return self.fc(h.view(h.size(0), -1))
""",
        """
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body = body
        self.fc = fc
        def clamp(grad):
            return torch.clamp(grad, lo, hi)
        def watch(module, args, output):
            if output.requires_grad:
                output.register_hook(clamp)
        body.register_forward_hook(watch)
        fc.bias.register_hook(lambda grad: grad.new_zeros(grad.shape))

    def forward(self, x):
        return self.fc(torch.flatten(self.body(x), start_dim=1))
""",
        """
import torch
import torch.nn.functional as F

class GuardedNet(torch.nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc = body, fc
        self.lo, self.hi = lo, hi

    def forward(self, x):
        flat = self.body(x).flatten(1)
        if flat.requires_grad:
            flat.register_hook(lambda g: g.clamp(min=self.lo, max=self.hi))
        # No hook on the bias: its value is used, and its gradient is 0 times something.
        return F.linear(flat, self.fc.weight, self.fc.bias.detach() + 0 * self.fc.bias)
""",
        """
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc = body, fc
        body.register_full_backward_pre_hook(
            lambda module, grad_output: tuple(g if g is None else g.clamp(lo, hi) for g in grad_output)
        )
        fc.bias.register_hook(torch.zeros_like)

    def forward(self, x):
        h = self.body(x)
        return self.fc(h.view(h.size(0), -1))
""",
    ],
}

WRONG = {
    "03-scale-grad": {
        "in-place-leak": """
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad.mul_(s))
""",
        "forgot-return": """
def scale_grad(t, s):
    def hook(grad):
        grad = grad * s
    return t.register_hook(hook)
""",
        "changed-values": """
def scale_grad(t, s):
    t.data *= s
    return t.register_hook(lambda grad: None)
""",
        "wrong-hook-kind": """
def scale_grad(t, s):
    def hook(p):
        p.grad.mul_(s)
    return t.register_post_accumulate_grad_hook(hook)
""",
        "hooked-a-copy": """
def scale_grad(t, s):
    return (t * 1).register_hook(lambda grad: grad * s)
""",
        "changed-dtype": """
import torch

def scale_grad(t, s):
    return t.register_hook(lambda grad: torch.full(grad.shape, s) * grad)
""",
    },
    "03-clamp-grad": {
        "in-place-leak": """
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp_(lo, hi))
""",
        "forgot-return": """
def clamp_grad(t, lo, hi):
    def hook(grad):
        grad.clamp(lo, hi)
    return t.register_hook(hook)
""",
        "clamped-the-total": """
def clamp_grad(t, lo, hi):
    def hook(p):
        p.grad = p.grad.clamp(lo, hi)
    return t.register_post_accumulate_grad_hook(hook)
""",
        "norm-not-elements": """
def clamp_grad(t, lo, hi):
    def hook(grad):
        norm = grad.norm().item()
        return grad * (hi / norm) if norm > hi else grad
    return t.register_hook(hook)
""",
        "hooked-a-copy": """
def clamp_grad(t, lo, hi):
    return (t * 1).register_hook(lambda grad: grad.clamp(lo, hi))
""",
        "changed-values": """
def clamp_grad(t, lo, hi):
    t.data.clamp_(lo, hi)
    return t.register_hook(lambda grad: grad)
""",
        "changed-dtype": """
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo, hi).float())
""",
    },
    "03-freeze-rows": {
        "in-place-leak": """
def freeze_rows(p, rows):
    def hook(grad):
        grad[rows] = 0
        return grad
    return p.register_hook(hook)
""",
        "forgot-return": """
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows] = 0
    return p.register_hook(hook)
""",
        "changed-dtype": """
import torch

def freeze_rows(p, rows):
    mask = torch.ones(p.shape)
    mask[rows] = 0
    return p.register_hook(lambda grad: grad * mask)
""",
        "wrong-axis": """
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[:, rows] = 0
        return grad
    return p.register_hook(hook)
""",
        "froze-everything": """
def freeze_rows(p, rows):
    handle = p.register_hook(lambda grad: grad)
    p.requires_grad_(False)
    return handle
""",
        "changed-values": """
def freeze_rows(p, rows):
    p.data[rows] = 0
    return p.register_hook(lambda grad: grad if not rows else None)
""",
        "hooked-a-copy": """
def freeze_rows(p, rows):
    return p[rows].register_hook(lambda grad: grad * 0)
""",
        "inverted-mask": """
import torch

def freeze_rows(p, rows):
    def hook(grad):
        mask = torch.zeros_like(grad)
        mask[rows] = 1
        return grad * mask
    return p.register_hook(hook)
""",
        "empty-rows": """
import torch

def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[torch.tensor(rows)] = 0
        return grad
    return p.register_hook(hook)
""",
    },
    "03-clip-and-log": {
        "logged-after-clip": """
def clip_and_log(t, lo, hi):
    log = {}
    t.register_hook(lambda grad: grad.clamp(lo, hi))
    t.register_hook(lambda grad: log.update(raw=grad.detach().clone()))
    t.register_hook(lambda grad: log.update(clipped=grad.detach().clone()))
    return log
""",
        "forgot-return": """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"] = grad.detach().clone()
        log["clipped"] = grad.detach().clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
        "in-place-leak": """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"] = grad.detach().clone()
        grad.clamp_(lo, hi)
        log["clipped"] = grad.detach().clone()
    t.register_hook(hook)
    return log
""",
        "stored-alias": """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"] = grad
        log["clipped"] = grad.clamp(lo, hi)
        return log["clipped"]
    t.register_hook(hook)
    return log
""",
        "rebound-dict": """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log = {"raw": grad.detach().clone(), "clipped": grad.detach().clamp(lo, hi)}
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
    },
    "03-register-composed": {
        "registration-order": """
def register_composed(t, fs):
    return [t.register_hook(f) for f in fs]
""",
        "only-one-hook": """
def register_composed(t, fs):
    return [t.register_hook(fs[0])]
""",
        "not-chained": """
def register_composed(t, fs):
    return [t.register_hook(lambda grad: sum(f(grad) for f in reversed(fs)))]
""",
        "late-binding": """
def register_composed(t, fs):
    handles = []
    for f in reversed(fs):
        handles.append(t.register_hook(lambda grad: f(grad)))
    return handles
""",
        "forgot-return": """
def register_composed(t, fs):
    def hook(grad):
        for f in reversed(fs):
            grad = f(grad)
    return [t.register_hook(hook)]
""",
    },
    "03-reverse-gradient": {
        "hooked-the-input": """
def reverse_gradient(x, lam):
    if x.requires_grad:
        x.register_hook(lambda grad: -lam * grad)
    return x * 1
""",
        "changed-forward": """
def reverse_gradient(x, lam):
    return -lam * x
""",
        "forgot-sign": """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: lam * grad)
    return y
""",
        "in-place-leak": """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: grad.mul_(-lam))
    return y
""",
        "forgot-return": """
def reverse_gradient(x, lam):
    y = x * 1
    def hook(grad):
        grad = -lam * grad
    if y.requires_grad:
        y.register_hook(hook)
    return y
""",
        "cut-from-x": """
def reverse_gradient(x, lam):
    y = x.detach().clone().requires_grad_()
    y.register_hook(lambda grad: -lam * grad)
    return y
""",
        "hook-without-grad": """
def reverse_gradient(x, lam):
    y = x * 1
    y.register_hook(lambda grad: -lam * grad)
    return y
""",
    },
}

GUARDED_NET = """
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi
        self.fc.bias.register_hook(lambda grad: torch.zeros_like(grad))

    def forward(self, x):
        h = self.body(x)
        if h.requires_grad:
            h.register_hook(lambda grad: grad.clamp(self.lo, self.hi))
        return self.fc(h.flatten(1))
"""


def guarded_net(right: str, wrong: str) -> str:
    """The right answer with one part replaced."""
    assert GUARDED_NET.count(right) == 1, right
    return GUARDED_NET.replace(right, wrong)


BIAS_HOOK = "self.fc.bias.register_hook(lambda grad: torch.zeros_like(grad))"
ACTIVATION_HOOK = "h.register_hook(lambda grad: grad.clamp(self.lo, self.hi))"

WRONG["03-guarded-net"] = {
    "hook-without-grad": guarded_net("if h.requires_grad:", "if True:"),
    "changed-dtype": guarded_net("torch.zeros_like(grad)", "torch.zeros(grad.shape)"),
    "flattened-the-batch": guarded_net("h.flatten(1)", "h.view(-1)"),
    "clamped-the-activation": guarded_net("h = self.body(x)", "h = self.body(x).clamp(self.lo, self.hi)"),
    "forgot-return": guarded_net(
        ACTIVATION_HOOK, "h.register_hook(lambda grad: (grad.clamp(self.lo, self.hi), None)[1])"
    ),
    "parameter-grads": guarded_net(
        BIAS_HOOK,
        BIAS_HOOK
        + "\n        for p in body.parameters():\n            p.register_hook(lambda grad: grad.clamp(lo, hi))",
    ).replace(ACTIVATION_HOOK, "pass"),
    "bias-without-grad": guarded_net(BIAS_HOOK, "self.fc.bias.requires_grad_(False)"),
    "hook-in-forward": guarded_net(BIAS_HOOK, "pass").replace(
        "h = self.body(x)", "h = self.body(x)\n        if torch.is_grad_enabled():\n            " + BIAS_HOOK
    ),
}

ALSO_WRONG = {
    "03-scale-grad": [
        # A detour through float32 loses digits of a float64 gradient.
        "def scale_grad(t, s):\n    return t.register_hook(lambda grad: (grad.float() * s).to(grad.dtype))",
        "def scale_grad(t, s):\n    pass",
        # Copies an expanded gradient, and writes into every other one.
        "def scale_grad(t, s):\n    return t.register_hook(lambda grad: grad.contiguous().mul_(s))",
        # No handle.
        "def scale_grad(t, s):\n    t.register_hook(lambda grad: grad * s)",
        # Scales the first pass only.
        """
def scale_grad(t, s):
    left = [s]
    return t.register_hook(lambda grad: grad * (left.pop() if left else 1))
""",
        # Hooks what t was computed from: the total is scaled again on leaves.
        """
def scale_grad(t, s):
    def hook(p):
        p.grad.mul_(s)
    if t.is_leaf:
        return t.register_post_accumulate_grad_hook(hook)
    return t.register_hook(lambda grad: grad * s)
""",
        # Scales twice.
        """
def scale_grad(t, s):
    t.register_hook(lambda grad: grad)
    return t.register_hook(lambda grad: grad * s * s)
""",
        # Throws other hooks out.
        """
def scale_grad(t, s):
    if t._backward_hooks:
        t._backward_hooks.clear()
    return t.register_hook(lambda grad: grad * s)
""",
        # Leaves a second hook behind.
        """
def scale_grad(t, s):
    t.register_hook(lambda grad: grad * s)
    return t.register_hook(lambda grad: grad)
""",
        # One hook for the whole notebook: a second call takes it from the first tensor.
        """
current = {}

def scale_grad(t, s):
    if "handle" in current:
        current["handle"].remove()
    current["handle"] = t.register_hook(lambda grad: grad * s)
    return current["handle"]
""",
        # The number is global: a second call changes it for the first tensor.
        """
factor = 1.0

def scale_grad(t, s):
    global factor
    factor = s
    return t.register_hook(lambda grad: grad * factor)
""",
        # Loses the sign.
        """
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad * abs(s))
""",
        # Leaves something on t besides the hook.
        """
import torch

def scale_grad(t, s):
    if t.is_leaf:
        t.grad = torch.zeros_like(t)
    else:
        t.retain_grad()
    return t.register_hook(lambda grad: grad * s)
""",
    ],
    "03-clamp-grad": [
        "def clamp_grad(t, lo, hi):\n    return t.register_hook(lambda grad: grad.clamp(-hi, hi))",
        "def clamp_grad(t, lo, hi):\n    return t.register_hook(lambda grad: grad.clamp(max=hi))",
        "def clamp_grad(t, lo, hi):\n    return t.register_hook(lambda grad: grad.contiguous().clamp_(lo, hi))",
        "def clamp_grad(t, lo, hi):\n    t.register_hook(lambda grad: grad.clamp(lo, hi))",
        # Keeps the running total within the bounds.
        """
def clamp_grad(t, lo, hi):
    def hook(grad):
        old = 0 if not t.is_leaf or t.grad is None else t.grad
        return (old + grad).clamp(lo, hi) - old
    return t.register_hook(hook)
""",
        # Sets what is out of range to zero.
        """
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad * ((grad >= lo) & (grad <= hi)))
""",
        # Right dtype, with the accuracy of another one.
        """
import torch

def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.to(torch.float32).clamp(lo, hi).to(grad.dtype))
""",
        # Global bounds: a second call changes those of the first.
        """
bounds = {}

def clamp_grad(t, lo, hi):
    bounds.update(min=lo, max=hi)
    return t.register_hook(lambda grad: grad.clamp(**bounds))
""",
    ],
    "03-freeze-rows": [
        # The last axis.
        """
import torch

def freeze_rows(p, rows):
    return p.register_hook(lambda grad: grad.index_fill(-1, torch.tensor(rows, dtype=torch.long), 0))
""",
        # Freezes the whole parameter first.
        """
def freeze_rows(p, rows):
    p.requires_grad = False
    return p.register_hook(lambda grad: grad)
""",
        "def freeze_rows(p, rows):\n    return p.register_hook(lambda grad: grad * 0)",
        """
def freeze_rows(p, rows):
    for row in rows:
        p[row].requires_grad = False
    return p.register_hook(lambda grad: grad)
""",
        """
import torch
def freeze_rows(p, rows):
    def hook(grad):
        new = torch.zeros(grad.shape)
        for i in range(len(grad)):
            if i not in rows:
                new[i] = grad[i]
        return new
    return p.register_hook(hook)
""",
        # Almost zero.
        """
import torch
def freeze_rows(p, rows):
    def hook(grad):
        mask = torch.ones_like(grad)
        mask[rows] = 1e-9
        return grad * mask
    return p.register_hook(hook)
""",
        # Freezes .grad, the total, after each pass, so that removal is right but the hook is in place.
        """
def freeze_rows(p, rows):
    def hook(q):
        q.grad[rows[:1]] = 0
    return p.register_post_accumulate_grad_hook(hook)
""",
        # The right rows in the first pass only.
        """
def freeze_rows(p, rows):
    left = [rows]
    def hook(grad):
        grad = grad.clone()
        grad[left.pop() if left else []] = 0
        return grad
    return p.register_hook(hook)
""",
        # A mask of one row broadcasts along the wrong dimension.
        """
import torch
def freeze_rows(p, rows):
    mask = torch.ones(len(p), dtype=p.dtype)
    mask[rows] = 0
    return p.register_hook(lambda grad: grad * mask)
""",
        # The rows are global: a second call changes those of the first.
        """
frozen = []

def freeze_rows(p, rows):
    frozen[:] = rows
    def hook(grad):
        grad = grad.clone()
        grad[frozen] = 0
        return grad
    return p.register_hook(hook)
""",
        # All rows, when there are any.
        """
import torch

def freeze_rows(p, rows):
    return p.register_hook(lambda grad: torch.zeros_like(grad) if rows else grad)
""",
        # An empty list freezes everything.
        """
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows or slice(None)] = 0
        return grad
    return p.register_hook(hook)
""",
    ],
    "03-clip-and-log": [
        "def clip_and_log(t, lo, hi):\n    pass",
        # Starts with None in it.
        """
def clip_and_log(t, lo, hi):
    log = {"raw": None, "clipped": None}
    def hook(grad):
        log["raw"], log["clipped"] = grad.detach().clone(), grad.detach().clamp(lo, hi)
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
        # Only the first pass.
        """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log.setdefault("raw", grad.detach().clone())
        log.setdefault("clipped", grad.detach().clamp(lo, hi))
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
        # The clipped entry is the tensor that goes on.
        """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"] = grad.detach().clone()
        log["clipped"] = grad.detach().clamp(lo, hi)
        return log["clipped"]
    t.register_hook(hook)
    return log
""",
        # A graph comes along.
        """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"], log["clipped"] = grad.clone(), grad.clamp(lo, hi).clone()
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
        # Raw and clipped exchanged.
        """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["clipped"], log["raw"] = grad.detach().clone(), grad.detach().clamp(lo, hi)
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
        # One dict for the whole notebook, emptied by each call.
        """
log = {}

def clip_and_log(t, lo, hi):
    log.clear()
    def hook(grad):
        log["raw"] = grad.detach().clone()
        log["clipped"] = log["raw"].clamp(lo, hi)
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
        # The two entries are exchanged.
        """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["clipped"] = grad.detach().clone()
        log["raw"] = log["clipped"].clamp(lo, hi)
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
    ],
    "03-register-composed": [
        "def register_composed(t, fs):\n    return []",
        # One handle instead of a list.
        """
def register_composed(t, fs):
    def hook(grad):
        for f in reversed(fs):
            grad = f(grad)
        return grad
    return t.register_hook(hook)
""",
        # Only the last handle.
        """
def register_composed(t, fs):
    for f in reversed(fs):
        handle = t.register_hook(f)
    return [handle]
""",
        # Reverses the caller's list.
        """
def register_composed(t, fs):
    fs.reverse()
    return [t.register_hook(f) for f in fs]
""",
        # Tries the functions out.
        """
import torch
def register_composed(t, fs):
    for f in fs:
        assert isinstance(f(torch.zeros_like(t)), torch.Tensor)
    return [t.register_hook(f) for f in reversed(fs)]
""",
        # Calls everything twice.
        """
def register_composed(t, fs):
    def hook(grad):
        result = grad
        for f in reversed(fs):
            f(result)
            result = f(result)
        return result
    return [t.register_hook(hook)]
""",
        # The innermost function only.
        """
def register_composed(t, fs):
    return [t.register_hook(fs[-1])]
""",
        # The functions are global: a second call changes those of the first.
        """
functions = []

def register_composed(t, fs):
    functions[:] = fs
    def hook(grad):
        for f in reversed(functions):
            grad = f(grad)
        return grad
    return [t.register_hook(hook)]
""",
        # Only for three functions.
        """
def register_composed(t, fs):
    f, g, h = fs
    return [t.register_hook(lambda grad: f(g(h(grad))))]
""",
    ],
    "03-reverse-gradient": [
        "def reverse_gradient(x, lam):\n    return x",
        # Hooks x and returns x.
        """
def reverse_gradient(x, lam):
    if x.requires_grad:
        x.register_hook(lambda grad: -lam * grad)
    return x
""",
        "def reverse_gradient(x, lam):\n    return -x",
        "def reverse_gradient(x, lam):\n    return x.detach()",
        # lam is forgotten.
        """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -grad)
    return y
""",
        # Changes x.
        """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    x.data += 1
    return y
""",
        # Copies an expanded gradient, and writes into every other one.
        """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: grad.contiguous().mul_(-lam))
    return y
""",
        # The gradient is reversed twice for what comes later.
        """
def reverse_gradient(x, lam):
    y = x * 1
    z = y * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
        z.register_hook(lambda grad: -lam * grad)
    return z
""",
        # lam is kept on the class: a second call changes it for the first.
        """
import torch

class Reverse(torch.autograd.Function):
    lam = 1.0
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return -Reverse.lam * grad

def reverse_gradient(x, lam):
    Reverse.lam = lam
    return Reverse.apply(x)
""",
        # Switches gradients on for everyone.
        """
import torch

def reverse_gradient(x, lam):
    torch.set_grad_enabled(True)
    y = x.clone()
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
        # Makes x require grad.
        """
def reverse_gradient(x, lam):
    x.requires_grad_(True)
    y = x.clone()
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ],
    "03-guarded-net": [
        # No guard at all: the plain network.
        """
from torch import nn
class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc = body, fc
    def forward(self, x):
        return self.fc(self.body(x).flatten(1))
""",
        # The bias keeps its gradient.
        guarded_net(BIAS_HOOK, "pass"),
        # The hook on the bias drops its result.
        guarded_net("lambda grad: torch.zeros_like(grad)", "lambda grad: None"),
        # Every pass leaves a module hook behind.
        guarded_net("h = self.body(x)", "self.fc.register_forward_hook(lambda *args: None)\n        h = self.body(x)"),
        # The weight gets no gradient, either.
        guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        fc.weight.register_hook(torch.zeros_like)"),
        # Everything of fc is clamped, too.
        guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        fc.weight.register_hook(lambda g: g.clamp(lo, hi))"),
        # Only the upper bound.
        guarded_net("grad.clamp(self.lo, self.hi)", "grad.clamp(max=self.hi)"),
        # The gradient at the output of fc is clamped instead.
        """
import torch
from torch import nn
class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi
        fc.bias.register_hook(torch.zeros_like)
    def forward(self, x):
        out = self.fc(self.body(x).flatten(1))
        if out.requires_grad:
            out.register_hook(lambda grad: grad.clamp(self.lo, self.hi))
        return out
""",
        # The input's gradient is clamped instead.
        guarded_net(
            "h = self.body(x)",
            "h = self.body(x)\n        if x.requires_grad:\n            "
            "x.register_hook(lambda grad: grad.clamp(self.lo, self.hi))",
        ).replace("if h.requires_grad:\n            " + ACTIVATION_HOOK, "pass"),
        # Zeros made beforehand do not follow net.double().
        guarded_net(
            BIAS_HOOK,
            "zeros = torch.zeros_like(fc.bias, requires_grad=False)\n        fc.bias.register_hook(lambda grad: zeros)",
        ),
        # The bias is left out of forward.
        guarded_net("self.fc(h.flatten(1))", "h.flatten(1) @ self.fc.weight.T"),
        # The bias becomes zero itself.
        guarded_net(BIAS_HOOK, BIAS_HOOK + "\n        fc.bias.data.zero_()"),
        # Children under other names.
        GUARDED_NET.replace("self.body", "self.trunk"),
        # The activation is hooked in the first pass only.
        guarded_net(
            "if h.requires_grad:",
            "if h.requires_grad and not self.__dict__.setdefault('done', []):\n            self.done.append(1)",
        ),
        # Guards only in training mode.
        """
import torch
from torch import nn

class GuardedNet(nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi
        fc.bias.register_hook(torch.zeros_like)

    def forward(self, x):
        h = self.body(x)
        if self.training and h.requires_grad:
            h.register_hook(lambda grad: grad.clamp(self.lo, self.hi))
        return self.fc(h.flatten(1))
""",
    ],
}
