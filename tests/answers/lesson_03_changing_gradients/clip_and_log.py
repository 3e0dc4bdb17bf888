"""Answers to 03-clip-and-log."""

from graders.author.answers import Wrong

CLIP_AND_LOG = """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        clipped = grad.clamp(lo, hi)
        log["raw"] = grad.detach().clone()
        log["clipped"] = clipped.detach().clone()
        return clipped
    t.register_hook(hook)
    return log
"""


def clip_and_log(right: str, wrong: str) -> str:
    """The right answer with one part replaced."""
    assert CLIP_AND_LOG.count(right) == 1, right
    return CLIP_AND_LOG.replace(right, wrong)


RIGHT = [
    CLIP_AND_LOG,
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
    """
import torch

def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        low, high = torch.full_like(grad, lo), torch.full_like(grad, hi)
        clipped = torch.where(grad < low, low, torch.where(grad > high, high, grad))
        log.clear()
        log.update({key: value.detach().clone() for key, value in (("clipped", clipped), ("raw", grad))})
        return clipped
    t.register_hook(hook)
    return log
""",
    """
import torch

class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, grad, lo, hi):
        ctx.save_for_backward((lo <= grad) & (grad <= hi))
        return grad.clamp(lo, hi)
    @staticmethod
    def backward(ctx, above):
        return above * ctx.saved_tensors[0], None, None

def clip_and_log(t, lo, hi):
    log = {}
    @t.register_hook
    def _(grad):
        clipped = Clip.apply(grad, lo, hi)
        log["raw"], log["clipped"] = (torch.tensor(one.tolist(), dtype=t.dtype).view_as(t) for one in (grad, clipped))
        return clipped
    return log
""",
]

WRONG = [
    Wrong(
        "a gradient without entries is not logged",
        violates="After each pass this same dict holds two gradients of the latest pass",
        check="test_the_log_holds_both_gradients",
        source="""
def clip_and_log(t, lo, hi):
    d = {}
    def hook(grad):
        if grad.numel():
            out = grad.clamp(lo, hi)
            d.update(raw=grad.detach().clone(), clipped=out.detach().clone())
            return out
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "logs after the clipping hook",
        violates='`"raw"`: the gradient before it was clamped',
        check="test_the_log_holds_both_gradients",
        mistake="logged-after-clip",
        source="""
def clip_and_log(t, lo, hi):
    log = {}
    t.register_hook(lambda grad: grad.clamp(lo, hi))
    t.register_hook(lambda grad: log.update(raw=grad.detach().clone()))
    t.register_hook(lambda grad: log.update(clipped=grad.detach().clone()))
    return log
""",
    ),
    Wrong(
        "logs, and returns nothing",
        violates="and the clamped gradient goes on",
        check="test_the_clipped_gradient_goes_on",
        mistake="forgot-return",
        source=clip_and_log("return clipped", "pass"),
    ),
    Wrong(
        "clamps in place",
        violates="rule 3: not on the gradient of a neighbour",
        check="raised",
        mistake="in-place-leak",
        source="""
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"] = grad.detach().clone()
        grad.clamp_(lo, hi)
        log["clipped"] = grad.detach().clone()
    t.register_hook(hook)
    return log
""",
    ),
    Wrong(
        "clamps in place, where torch lets it",
        violates="rule 3: not on a tensor that the caller hands to `backward(gradient=...)`",
        check="test_nothing_else_changes",
        mistake="in-place-leak",
        source="""
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"] = grad.detach().clone()
        clipped = grad.clamp(lo, hi)
        log["clipped"] = clipped.detach().clone()
        if 0 in grad.stride() or grad.requires_grad:
            return clipped
        grad.copy_(clipped)
    t.register_hook(hook)
    return log
""",
    ),
    Wrong(
        "stores the gradients themselves",
        violates="Both are copies, each with memory of its own",
        check="test_the_entries_are_copies_without_a_graph",
        mistake="stored-alias",
        source=clip_and_log("grad.detach().clone()", "grad.detach()").replace("clipped.detach().clone()", "clipped"),
    ),
    Wrong(
        "the clipped entry is the tensor that goes on",
        violates="Both are copies, each with memory of its own",
        check="test_the_entries_are_copies_without_a_graph",
        mistake="stored-alias",
        source=clip_and_log("clipped.detach().clone()", "clipped.detach()"),
    ),
    Wrong(
        "one entry stands for both where nothing is clamped",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_the_entries_are_copies_without_a_graph",
        mistake="stored-alias",
        source=clip_and_log(
            "clipped.detach().clone()", 'log["raw"] if grad.equal(clipped) else clipped.detach().clone()'
        ),
    ),
    Wrong(
        "the next pass writes into the entries of the first",
        violates="Both are copies, each with memory of its own",
        check="test_the_entries_are_copies_without_a_graph",
        mistake="stored-alias",
        source="""
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        clipped = grad.clamp(lo, hi)
        for key, value in (("raw", grad), ("clipped", clipped)):
            if key in log:
                log[key].copy_(value.detach())
            else:
                log[key] = value.detach().clone()
        return clipped
    t.register_hook(hook)
    return log
""",
    ),
    Wrong(
        "a new dict in every pass",
        violates="After each pass this same dict holds two gradients",
        check="test_the_log_holds_both_gradients",
        mistake="rebound-dict",
        source="""
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log = {"raw": grad.detach().clone(), "clipped": grad.detach().clamp(lo, hi)}
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
    ),
    Wrong(
        "returns nothing",
        violates="Return a new, empty dict at once.",
        check="test_the_dict_is_new_and_empty",
        source="def clip_and_log(t, lo, hi):\n    pass",
    ),
    Wrong(
        "starts with None in it",
        violates="Return a new, empty dict at once.",
        check="test_the_dict_is_new_and_empty",
        source=clip_and_log("log = {}", 'log = {"raw": None, "clipped": None}'),
    ),
    Wrong(
        "one dict for the whole notebook, emptied by each call",
        violates="Return a new, empty dict at once.",
        check="test_each_call_has_a_log_of_its_own",
        source="log = {}\n" + clip_and_log("log = {}", "log.clear()"),
    ),
    Wrong(
        "one dict for each tensor, however often it is given",
        violates="Return a new, empty dict at once.",
        check="test_the_dict_is_new_and_empty",
        source="logs = {}\n" + clip_and_log("log = {}", "log = logs.setdefault(id(t), {})"),
    ),
    Wrong(
        "keeps the first pass",
        violates="two gradients of the latest pass",
        check="test_the_log_holds_both_gradients",
        source=clip_and_log('log["raw"] = grad.detach().clone()', 'log.setdefault("raw", grad.detach().clone())'),
    ),
    Wrong(
        "removes itself after the first pass",
        violates="each backward pass that reaches `t` clamps",
        check="test_the_clipped_gradient_goes_on",
        source=clip_and_log("return clipped", "handle.remove()\n        return clipped").replace(
            "t.register_hook(hook)", "handle = t.register_hook(hook)"
        ),
    ),
    Wrong(
        "adds up over passes",
        violates="two gradients of the latest pass",
        check="test_the_log_holds_both_gradients",
        source=clip_and_log("grad.detach().clone()", 'log.get("raw", 0) + grad.detach()'),
    ),
    Wrong(
        "the two entries are exchanged",
        violates='`"clipped"`: the clamped gradient',
        check="test_the_log_holds_both_gradients",
        source=CLIP_AND_LOG.replace('"raw"', '"r"').replace('"clipped"', '"raw"').replace('"r"', '"clipped"'),
    ),
    Wrong(
        "the upper bound only",
        violates="to the range from `lo` to `hi`",
        check="test_the_clipped_gradient_goes_on",
        mistake="one-bound-only",
        source=clip_and_log("grad.clamp(lo, hi)", "grad.clamp(max=hi)"),
    ),
    Wrong(
        "a bound of 0 counts as none",
        violates="`lo` and `hi` are numbers with `lo < hi`.",
        check="test_the_clipped_gradient_goes_on",
        mistake="one-bound-only",
        source=clip_and_log("grad.clamp(lo, hi)", "grad.clamp(lo or -1e9, hi or 1e9)"),
    ),
    Wrong(
        "a graph comes along with the raw gradient",
        violates="have no graph, not even in a pass with `create_graph=True`",
        check="test_the_entries_are_copies_without_a_graph",
        source=clip_and_log("grad.detach().clone()", "grad.clone()"),
    ),
    Wrong(
        "what goes on has no graph",
        violates="The gradient that goes on keeps its graph in such a pass.",
        check="test_the_gradient_that_goes_on_keeps_its_graph",
        source=clip_and_log("return clipped", 'return log["clipped"].clone()'),
    ),
    Wrong(
        "does not clamp under `create_graph=True`",
        violates="rule 5: `backward(create_graph=True)`",
        check="test_the_gradient_that_goes_on_keeps_its_graph",
        source=clip_and_log("return clipped", "return None if grad.requires_grad else clipped"),
    ),
    Wrong(
        "does nothing where grad mode is on, as in every pass with a graph",
        violates="rule 5: `backward(create_graph=True)`",
        check="test_the_clipped_gradient_goes_on",
        source="import torch\n" + clip_and_log("return clipped", "return None if torch.is_grad_enabled() else clipped"),
    ),
    Wrong(
        "clamps float64 in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_the_clipped_gradient_goes_on",
        source=clip_and_log("grad.clamp(lo, hi)", "grad.float().clamp(lo, hi).to(grad.dtype)"),
    ),
    Wrong(
        "copies in float64",
        violates="Both are copies",
        check="test_the_log_holds_both_gradients",
        source=clip_and_log("grad.detach().clone()", "grad.detach().double().clone()"),
    ),
    Wrong(
        "flattens by `view`",
        violates="rule 1: in any layout",
        check="raised",
        source=clip_and_log("grad.clamp(lo, hi)", "grad.view(-1).clamp(lo, hi).view(grad.shape)"),
    ),
    Wrong(
        "asks for `.grad` of a tensor of the caller",
        violates="rule 3: they act on what you were given and on nothing else",
        check="test_nothing_else_changes",
        source=clip_and_log("t.register_hook(hook)", "t.register_hook(hook)\n    t.retain_grad()"),
    ),
    Wrong(
        "empties `.grad` first",
        violates="rule 2: What you were given stays as it was.",
        check="test_nothing_else_changes",
        source=clip_and_log("log = {}", "log, t.grad = {}, None"),
    ),
    Wrong(
        "removes the hooks of others",
        violates="as the hooks that were on `t` before have left it",
        check="test_nothing_else_changes",
        source=clip_and_log("log = {}", "log, t._backward_hooks = {}, None"),
    ),
    Wrong(
        "a new pass after an aborted one is taken for the same",
        violates="rule 5: a good pass after one that an exception has stopped",
        check="test_the_log_holds_both_gradients",
        source="""
import torch

def clip_and_log(t, lo, hi):
    log, busy = {}, []
    def hook(grad):
        clipped = grad.clamp(lo, hi)
        if not busy:
            busy.append(True)
            log["raw"], log["clipped"] = grad.detach().clone(), clipped.detach().clone()
            torch.autograd.Variable._execution_engine.queue_callback(busy.clear)
        return clipped
    t.register_hook(hook)
    return log
""",
    ),
    Wrong(
        "switches autograd on and leaves it so",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_nothing_else_changes",
        source="import torch\n" + clip_and_log("log = {}", "log = {}\n    torch.set_grad_enabled(True)"),
    ),
    Wrong(
        "logs nothing of a gradient of zeros",
        violates="After each pass this same dict holds two gradients of the latest",
        check="test_the_log_holds_both_gradients",
        source=clip_and_log("clipped = grad", "if not grad.any():\n            return None\n        clipped = grad"),
    ),
    Wrong(
        "clips as long as the dict lives",
        violates="Your hooks stay for good, also when the caller has thrown the dict away.",
        check="test_any_tensor_is_clipped_before_the_hooks_that_came_later",
        source="""
import weakref

class Log(dict):
    pass

def clip_and_log(t, lo, hi):
    log = Log()
    seen = weakref.ref(log)
    def hook(grad):
        if seen() is None:
            return None
        clipped = grad.clamp(lo, hi)
        seen().update(raw=grad.detach().clone(), clipped=clipped.detach().clone())
        return clipped
    t.register_hook(hook)
    return log
""",
    ),
    Wrong(
        "clips behind all hooks of the tensor",
        violates="as the hooks that were on `t` before have left it",
        check="test_any_tensor_is_clipped_before_the_hooks_that_came_later",
        source="""
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        clipped = grad.clamp(lo, hi)
        log.update(raw=grad.detach().clone(), clipped=clipped.detach().clone())
        return clipped
    def at_the_operation(grads):
        return tuple(hook(grad) if index == t.output_nr else grad for index, grad in enumerate(grads))
    if t.is_leaf:
        t.register_hook(hook)
    else:
        t.grad_fn.register_prehook(at_the_operation)
    return log
""",
    ),
    Wrong(
        "one copy for both entries where nothing had to be clamped",
        violates="Both are copies, each with memory of its own",
        check="test_the_entries_are_copies_without_a_graph",
        source="""
import torch

def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"] = log["clipped"] = grad.detach().clone()
        clipped = grad.clamp(lo, hi)
        if not torch.equal(clipped, grad):
            log["clipped"] = clipped.detach().clone()
        return clipped
    t.register_hook(hook)
    return log
""",
    ),
]

GIVENS = [
    "Write `clip_and_log(t, lo, hi)`.",
    "`t` is a tensor that requires grad, leaf or not.",
]

SURVIVORS = {
    "a hook left on a tensor": "hooks stay for good, and this one does nothing",
    "under no_grad": "to register a hook makes no graph",
    "lost statement: without super().__init__()": "a dict needs no such call",
    "lost statement: without log.clear()": "a new dict is empty",
    "almost: clipped = torch.where(": "at a bound both are the bound",
    "almost: ctx.save_for_backward((lo < grad) & (grad <= hi))": "no entry lies at a bound",
    "not for all: log.update(": "the order of the keys is free",
}
