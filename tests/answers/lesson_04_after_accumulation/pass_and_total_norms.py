"""Answers to 04-pass-and-total-norms."""

from graders.author.answers import Wrong, changed

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
import torch

def pass_and_total_norms(p):
    log = []
    @torch.no_grad()
    def total(q):
        log.append(("total", torch.linalg.vector_norm(q.grad.detach()).item()))
    def single(grad):
        log.append(("pass", torch.linalg.vector_norm(grad.detach()).item()))
    p.register_hook(single), p.register_post_accumulate_grad_hook(total)
    return log
""",
    """
def pass_and_total_norms(p):
    log, before = [], []
    def about_to_come(grad):
        before[:] = [None if p.grad is None else p.grad.detach().clone()]
        log.append(("pass", (grad.detach() ** 2).sum().sqrt().item()))
    def has_come(p):
        log.append(("total", (p.grad.detach() ** 2).sum().sqrt().item()))
    p.register_hook(about_to_come)
    p.register_post_accumulate_grad_hook(has_come)
    return log
""",
]

WRONG = [
    Wrong(
        "reads `.grad` in a tensor hook",
        violates="with the norm of `p.grad` after this pass",
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        mistake="reads-dot-grad-too-early",
        source="""
def pass_and_total_norms(p):
    log = []
    def hook(grad):
        log.append(("pass", grad.norm().item()))
        log.append(("total", 0.0 if p.grad is None else p.grad.norm().item()))
    p.register_hook(hook)
    return log
""",
    ),
    Wrong(
        "the norm of this pass twice",
        violates="with the norm of `p.grad` after this pass",
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        mistake="pass-is-not-total",
        source="""
def pass_and_total_norms(p):
    log = []
    def hook(grad):
        log.append(("pass", grad.norm().item()))
        log.append(("total", grad.norm().item()))
    p.register_hook(hook)
    return log
""",
    ),
    Wrong(
        "the norm of the total twice",
        violates="with the norm of the gradient of this pass alone",
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        mistake="accumulated-grad",
        source="""
def pass_and_total_norms(p):
    log = []
    def hook(p):
        log.append(("pass", p.grad.norm().item()))
        log.append(("total", p.grad.norm().item()))
    p.register_post_accumulate_grad_hook(hook)
    return log
""",
    ),
    Wrong(
        "adds the gradient to `.grad` by itself, before a later hook changes it",
        violates='Then "total" still is the norm of what is in `p.grad`',
        check="test_the_total_is_what_a_later_hook_left",
        mistake="total-before-later-hooks",
        source="""
def pass_and_total_norms(p):
    log = []
    def hook(g):
        total = g if p.grad is None else p.grad + g
        log.extend([("pass", g.norm().item()), ("total", total.norm().item())])
    p.register_hook(hook)
    return log
""",
    ),
    Wrong(
        "returns no list of its own",
        violates="Return a new, empty list at once.",
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        source="""
log = []
def pass_and_total_norms(p):
    p.register_hook(lambda grad: log.append(("pass", grad.norm().item())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().item())))
    return log if len(log) > 100 else list(log)
""",
    ),
    Wrong(
        "one list for all calls",
        violates="Return a new, empty list at once.",
        check="test_each_call_has_a_list_of_its_own",
        mistake="one-slot-for-all",
        source="""
log = []
def pass_and_total_norms(p):
    log.clear()
    p.register_hook(lambda grad: log.append(("pass", grad.norm().item())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().item())))
    return log
""",
    ),
    Wrong(
        "notes the first pass only",
        violates="From then on each `backward()` that reaches `p` appends two tuples to this same list",
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        source="""
def pass_and_total_norms(p):
    log = []
    def single(grad):
        if not log:
            log.append(("pass", grad.norm().item()))
    def total(q):
        if len(log) == 1:
            log.append(("total", q.grad.norm().item()))
    p.register_hook(single)
    p.register_post_accumulate_grad_hook(total)
    return log
""",
    ),
    Wrong(
        "the gradient of this pass as a difference of totals",
        violates="Between two passes the caller may set `p.grad` to `None`, or to another tensor.",
        check="test_the_total_follows_when_the_caller_clears_it",
        source="""
def pass_and_total_norms(p):
    log, state = [], {"last": 0.0 if p.grad is None else p.grad.clone()}
    def hook(q):
        log.append(("pass", (q.grad - state["last"]).norm().item()))
        log.append(("total", q.grad.norm().item()))
        state["last"] = q.grad.detach().clone()
    p.register_post_accumulate_grad_hook(hook)
    return log
""",
    ),
    Wrong(
        "tensors instead of floats",
        violates="as a Python float",
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        source="""
def pass_and_total_norms(p):
    log = []
    p.register_hook(lambda grad: log.append(("pass", grad.norm().detach())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().detach())))
    return log
""",
    ),
    Wrong(
        "the L1 norm",
        violates="Here `norm` is the L2 norm over all elements",
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        source="""
def pass_and_total_norms(p):
    log = []
    p.register_hook(lambda grad: log.append(("pass", grad.abs().sum().item())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.abs().sum().item())))
    return log
""",
    ),
    Wrong(
        "the norm of a float64 gradient in float32",
        violates="exact to the digits of the dtype of `p`",
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        source="""
def pass_and_total_norms(p):
    log = []
    p.register_hook(lambda grad: log.append(("pass", grad.float().norm().item())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.float().norm().item())))
    return log
""",
    ),
    Wrong(
        "flattens by `view`",
        violates="rule 1: in any layout",
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
        "halves the gradient on the way",
        violates="Your hooks stay for good, and change no gradient.",
        check="test_the_flow_is_unchanged",
        source="""
def pass_and_total_norms(p):
    log = []
    def hook(grad):
        log.append(("pass", grad.norm().item()))
        return grad / 2
    p.register_hook(hook)
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().item())))
    return log
""",
    ),
    Wrong(
        "divides by the norm and multiplies again, which rounds, and shrinks tiny gradients",
        violates="Your hooks stay for good, and change no gradient.",
        check="test_the_flow_is_unchanged",
        source="""
def pass_and_total_norms(p):
    log = []
    def hook(grad):
        norm = grad.norm()
        log.append(("pass", norm.item()))
        return grad / (norm + 1e-12) * norm
    p.register_hook(hook)
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().item())))
    return log
""",
    ),
    Wrong(
        "clears `.grad` first",
        violates="rule 2: What you were given stays as it was.",
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        source="""
def pass_and_total_norms(p):
    log = []
    p.grad = None
    p.register_hook(lambda grad: log.append(("pass", grad.norm().item())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().item())))
    return log
""",
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before",
        check="test_the_flow_is_unchanged",
        source="""
def pass_and_total_norms(p):
    log = []
    for hooks in (p._backward_hooks, p._post_accumulate_grad_hooks):
        if hooks:
            hooks.clear()
    p.register_hook(lambda grad: log.append(("pass", grad.norm().item())))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().item())))
    return log
""",
    ),
    Wrong(
        "no entries for a gradient of zeros",
        violates="each `backward()` that reaches `p` appends two tuples to this same list",
        check="test_the_total_follows_when_the_caller_clears_it",
        source="""
def pass_and_total_norms(p):
    log = []
    def single(grad):
        if grad.any():
            log.append(("pass", grad.norm().item()))
    p.register_hook(single)
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", q.grad.norm().item())))
    return log
""",
    ),
    Wrong(
        "the gradient of this pass as what was added to `.grad`",
        violates="exact to the digits of the dtype of `p`",
        check="test_the_pass_is_not_a_difference_of_totals",
        source="""
def pass_and_total_norms(p):
    log, before = [], []
    def about_to_come(grad):
        before[:] = [0.0 if p.grad is None else p.grad.detach().clone()]
    def has_come(q):
        log.append(("pass", (q.grad - before[0]).norm().item()))
        log.append(("total", q.grad.norm().item()))
    p.register_hook(about_to_come)
    p.register_post_accumulate_grad_hook(has_come)
    return log
""",
    ),
    Wrong(
        "watches a tensor once, however often it is asked",
        violates="rule 1: on one object or on several at the same time",
        check="test_the_total_follows_when_the_caller_clears_it",
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
        "takes the graph from `.grad`",
        violates="change no gradient",
        check="test_the_flow_is_unchanged",
        source="""
def pass_and_total_norms(p):
    log = []
    def total(p):
        p.grad = p.grad.detach()
        log.append(("total", p.grad.norm().item()))
    p.register_hook(lambda grad: log.append(("pass", grad.norm().item())))
    p.register_post_accumulate_grad_hook(total)
    return log
""",
    ),
    Wrong(
        "keeps a hundred entries",
        violates="each `backward()` that reaches `p` appends two tuples",
        check="test_every_pass_counts",
        source="""
def pass_and_total_norms(p):
    log = []
    def note(kind, norm):
        log.append((kind, norm.item()))
        del log[:-100]
    p.register_hook(lambda grad: note("pass", grad.norm()))
    p.register_post_accumulate_grad_hook(lambda p: note("total", p.grad.norm()))
    return log
""",
    ),
    Wrong(
        "one list for each tensor, however often it is asked",
        violates="Return a new, empty list at once",
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
    Wrong(
        "NaN has the norm 0",
        violates="the norm of the gradient of this pass alone",
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        source="""
def norm(t):
    return t.detach().nan_to_num(nan=0.0).norm().item()

def pass_and_total_norms(p):
    log = []
    p.register_hook(lambda grad: log.append(("pass", norm(grad))))
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", norm(q.grad))))
    return log
""",
    ),
    Wrong(
        "NaN is taken out of the gradient",
        violates="Your hooks stay for good, and change no\n    gradient.",
        check="test_the_flow_is_unchanged",
        source="""
def pass_and_total_norms(p):
    log = []
    def first(grad):
        log.append(("pass", grad.norm().item()))
        return grad.nan_to_num(nan=0.0)
    p.register_hook(first)
    p.register_post_accumulate_grad_hook(lambda q: log.append(("total", log[-1][1] and q.grad.norm().item())))
    return log
""",
    ),
    Wrong(
        "the whole log is written again",
        violates="appends two tuples to this same list",
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        source="""
def pass_and_total_norms(p):
    log, every = [], []
    p.register_hook(lambda grad: every.append(("pass", grad.norm().item())))
    def total(q):
        every.append(("total", q.grad.norm().item()))
        log[:] = every
    p.register_post_accumulate_grad_hook(total)
    return log
""",
    ),
    Wrong(
        "the total is another tensor",
        violates="rule 2: the same tensor with the same values",
        check="test_the_flow_is_unchanged",
        source="""
def pass_and_total_norms(p):
    log = []
    p.register_hook(lambda grad: log.append(("pass", grad.norm().item())))
    def total(q):
        q.grad = q.grad.clone()
        log.append(("total", q.grad.norm().item()))
    p.register_post_accumulate_grad_hook(total)
    return log
""",
    ),
    Wrong(
        "the total before the pass",
        violates='`("pass", norm)` with the norm of the gradient of this pass alone',
        check="test_each_pass_appends_its_own_norm_and_that_of_the_total",
        source="""
def pass_and_total_norms(p):
    log, last = [], []
    p.register_hook(lambda g: last.append(g.norm().item()))
    def after(p):
        log.extend([("total", p.grad.norm().item()), ("pass", last.pop())])
    p.register_post_accumulate_grad_hook(after)
    return log
""",
    ),
    Wrong(
        "frees .grad after each pass",
        violates='`("total", norm)` with the norm of `p.grad` after this pass',
        check="raised",
        mistake="dot-grad-was-none",
        source="""
def pass_and_total_norms(p):
    log = []
    def after(p):
        log.append(("total", p.grad.norm().item()))
        p.grad = None
    p.register_hook(lambda g: log.append(("pass", g.norm().item())))
    p.register_post_accumulate_grad_hook(after)
    return log
""",
    ),
    Wrong(
        "holds the norm of the pass in one place for all: a pass that a later hook runs inside this one replaces it",
        violates="rule 1: also when one call runs inside another",
        check="test_the_total_is_what_a_later_hook_left",
        mistake="one-slot-for-all",
        source="""
LAST = [0.0]

def pass_and_total_norms(p):
    log = []
    def arriving(grad):
        LAST[0] = grad.norm().item()
    def written(q):
        log.extend([("pass", LAST[0]), ("total", q.grad.norm().item())])
    p.register_hook(arriving)
    p.register_post_accumulate_grad_hook(written)
    return log
""",
    ),
    Wrong(
        "takes the hooks of the caller away first",
        violates="rule 3: Hooks of others stay",
        check="test_the_flow_is_unchanged",
        mistake="removed-the-callers-hooks",
        source=changed(
            RIGHT[1], ("    log = []\n", "    log = []\n    p._backward_hooks and p._backward_hooks.clear()\n")
        ),
    ),
    Wrong(
        "squares the total in place",
        violates="Your hooks stay for good, and change no gradient.",
        check="test_the_flow_is_unchanged",
        mistake="changed-the-gradient",
        source=changed(RIGHT[1], ("q.grad.norm().item()", "q.grad.detach().square_().sum().sqrt().item()")),
    ),
]

GIVENS = [
    "Write `pass_and_total_norms(p)`.",
    "`p` is a leaf that requires grad.",
    "The caller does not call `torch.autograd.grad`, and no exception stops a pass at `p` itself.",
    "A hook that the caller registers on `p` after your call may change the gradient.",
]

SURVIVORS = {
    "a hook left on a tensor": "it watches alone, and hooks are asked for that stay",
    "under no_grad": "hooks may be registered in any mode",
    "lost copy": "nobody changes what was kept before it is read",
    "lost return": "a hook that watches returns nothing",
    "lost statement: without before[:]": "what is kept there is not used",
    "condition dropped: before[:]": "what is kept there is not used",
}
