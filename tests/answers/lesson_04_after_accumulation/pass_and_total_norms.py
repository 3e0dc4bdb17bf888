"""Answers to 04-pass-and-total-norms."""

RIGHT = [
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
]

WRONG = {
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
}

ALSO_WRONG = [
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
]
