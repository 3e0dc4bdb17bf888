"""Answers to 04-pass-and-total-norms."""

from graders.author.answers import Wrong

RIGHT = [
    """
from typing import NamedTuple

class Line(NamedTuple):
    label: str
    size: float

class Log(list):
    def add(self, label, t):
        self.append(Line(label, t.detach().double().norm().item()))

def pass_and_total_norms(p):
    log = Log()
    p.register_hook(lambda grad: log.add("pass", grad))
    p.register_post_accumulate_grad_hook(lambda q: log.add("total", q.grad))
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
]

WRONG = [
    Wrong(
        "flattens by `view`",
        violates="tensors of any shape and layout",
        check="raised",
        source="""
def pass_and_total_norms(p):
    log = []
    p.register_hook(lambda grad: log.append(("pass", grad.view(-1).norm().item())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.view(-1).norm().item())))
    return log
""",
    ),
    Wrong(
        "watches a tensor once, however often it is asked",
        violates="as often as it likes",
        check="test_each_call_has_a_list_of_its_own",
        source="""
watched = []

def pass_and_total_norms(p):
    log = []
    if all(p is not other for other in watched):
        p.register_hook(lambda grad: log.append(("pass", grad.norm().item())))
    watched.append(p)
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().item())))
    return log
""",
    ),
    Wrong(
        "one list for each tensor, however often it is asked",
        violates="Each call returns a list of its own",
        check="test_each_call_has_a_list_of_its_own",
        source="""
logs = {}

def pass_and_total_norms(p):
    if p not in logs:
        log = logs[p] = []
        p.register_hook(lambda grad: log.append(("pass", grad.norm().item())))
        p.register_post_accumulate_grad_hook(lambda p: log.append(("total", p.grad.norm().item())))
    return logs[p]
""",
    ),
]

SURVIVORS = {
    "a hook left on a tensor": "it watches alone, and hooks are asked for that stay",
    "lost copy": "nobody changes what was kept before it is read",
}
