"""Answers to 02-count-and-sum."""

RIGHT = [
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
]

WRONG = {
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
}

ALSO_WRONG = [
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
]
