"""Answers to 04-offload-grads."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
import torch

def offload_grads(params):
    sums = {}
    def hook(p):
        gradient = p.grad.to("cpu", torch.float64)
        sums[p] = sums[p] + gradient if p in sums else gradient
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    """
import torch

def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def add(p):
        sums[p] += p.grad
    def free(p):
        p.grad = None
    handles = []
    for p in params:
        handles += [p.register_post_accumulate_grad_hook(add), p.register_post_accumulate_grad_hook(free)]
    return sums, handles
""",
    """
from collections import defaultdict
from functools import partial

def move(sums, p):
    gradient, p.grad = p.grad, None
    sums[p] = sums[p] + gradient.detach().double().cpu()

def offload_grads(params):
    sums = defaultdict(float)
    handles = [p.register_post_accumulate_grad_hook(partial(move, sums)) for p in params]
    return [sums, handles]
""",
    """
import numpy as np
import torch

class Offload:
    def __init__(self, params):
        self.sums = {}
        self.handles = []
        for p in params:
            self.handles.append(p.register_post_accumulate_grad_hook(self))
    def __call__(self, p):
        new = p.grad.detach().numpy().astype(np.float64)
        if p in self.sums:
            new = new + self.sums[p].numpy()
        self.sums[p] = torch.tensor(new)
        p.grad = None

def offload_grads(params):
    offload = Offload(params)
    return offload.sums, offload.handles
""",
    """
import torch

class Off(dict):
    def __call__(self, p):
        new = p.grad.to(torch.float64, copy=True)
        self[p] = self[p].add(new) if p in self else new
        p.grad = None
def offload_grads(params):
    off = Off()
    return off, list(map(lambda p: p.register_post_accumulate_grad_hook(off), params))
""",
    """
import torch

class Sums(dict):
    def add(self, p):
        zeros = torch.zeros_like(p, dtype=torch.double, device="cpu", requires_grad=False)
        self.setdefault(p, zeros).add_(p.grad)
        p.grad = None

def offload_grads(params):
    sums = Sums()
    return sums, [p.register_post_accumulate_grad_hook(sums.add) for p in params]
""",
]

WRONG = [
    Wrong(
        "NaN is not counted",
        violates="`sums[p]` is the sum of the gradients of `p` over all backward passes",
        check="test_the_sums_are_made_in_float64",
        source=changed(RIGHT[0], ("torch.float64)\n", "torch.float64)\n        gradient[gradient.isnan()] = 0\n")),
    ),
    Wrong(
        "rounded to twelve places",
        violates="added up in `float64`",
        check="test_the_sums_are_made_in_float64",
        source=changed(RIGHT[0], ("torch.float64)\n", "torch.float64).round(decimals=12)\n")),
    ),
    Wrong(
        "switches autograd off for the hooks behind it",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_nothing_else_changes",
        mistake="changed-what-was-given",
        source=changed(RIGHT[0], ("    def hook(p):\n", "    def hook(p):\n        torch.set_grad_enabled(False)\n")),
    ),
    Wrong(
        "a second call goes on with the sum of the first",
        violates="over all backward passes since your call",
        check="test_each_parameter_has_a_sum_of_its_own",
        source=changed(
            RIGHT[0],
            ("def offload", "totals = {}\n\ndef offload"),
            (
                "sums[p] + gradient if p in sums else gradient",
                "totals[p] = totals[p] + gradient if p in totals else gradient",
            ),
        ),
    ),
    Wrong(
        "the loop variable in sums that begin with zeros",
        violates="each parameter `p` of the list that it reached has `p.grad` equal to",
        check="test_the_sums_grow_with_every_pass",
        mistake="late-binding",
        source="""
import torch

def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    handles = []
    for p in params:
        def move(_):
            if p.grad is not None:
                sums[p] += p.grad
                p.grad = None
        handles.append(p.register_post_accumulate_grad_hook(move))
    return sums, handles
""",
    ),
    Wrong(
        "one list of handles for all calls",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handles_remove_the_hooks",
        source="""
import torch

handles = []

def offload_grads(params):
    sums = {}
    def hook(p):
        new = p.grad.detach().to("cpu", torch.float64)
        sums[p] = sums[p] + new if p in sums else new.clone()
        p.grad = None
    handles.extend(p.register_post_accumulate_grad_hook(hook) for p in params)
    return sums, handles
""",
    ),
    Wrong(
        "a tensor hook counts",
        violates="`torch.autograd.grad` is not counted.",
        check="test_autograd_grad_is_not_counted",
        mistake="wrong-hook-kind",
        source="""
import torch

def offload_grads(params):
    sums = {p: torch.zeros_like(p, dtype=torch.float64, requires_grad=False) for p in params}
    handles = []
    for p in params:
        def hook(grad, p=p):
            sums[p] += grad
            p.grad = None
        handles.append(p.register_hook(hook))
    return sums, handles
""",
    ),
    Wrong(
        "adds `.grad` again in each pass",
        violates="`sums[p]` is the sum of the gradients of `p` over all backward passes since your call",
        check="test_the_sums_grow_with_every_pass",
        mistake="counted-twice",
        source="""
import torch

def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def hook(p):
        sums[p] += p.grad
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "keeps the last gradient only",
        violates="`sums[p]` is the sum of the gradients of `p` over all backward passes since your call",
        check="test_the_sums_grow_with_every_pass",
        mistake="overwrote-total",
        source="""
def offload_grads(params):
    sums = {}
    def hook(p):
        sums[p] = p.grad.cpu().double()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "adds up in the dtype of the parameter",
        violates="added up in `float64`",
        check="test_the_sums_are_made_in_float64",
        mistake="changed-dtype",
        source="""
def offload_grads(params):
    sums = {}
    def hook(p):
        sums[p] = p.grad.cpu() if p not in sums else sums[p] + p.grad.cpu()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "leaves a `.grad` of zeros",
        violates="has `p.grad` equal to `None`",
        check="test_no_gradient_is_left",
        mistake="zeroed-not-freed",
        source="""
def offload_grads(params):
    sums = {}
    def hook(p):
        gradient = p.grad.cpu().double().clone()
        sums[p] = gradient if p not in sums else sums[p] + gradient
        p.grad.zero_()
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "all hooks read the loop variable",
        violates="each parameter `p` of the list that it reached",
        check="test_the_sums_grow_with_every_pass",
        mistake="late-binding",
        source="""
import torch

def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    handles = []
    for p in params:
        def hook(_):
            sums[p] += p.grad.double()
            p.grad = None
        handles.append(p.register_post_accumulate_grad_hook(hook))
    return sums, handles
""",
    ),
    Wrong(
        "the keys are numbers",
        violates="The key is the parameter itself.",
        check="test_the_sums_grow_with_every_pass",
        mistake="keys-not-parameters",
        source="""
def offload_grads(params):
    sums = {}
    def hook(p):
        sums[id(p)] = p.grad.double() if id(p) not in sums else sums[id(p)] + p.grad.double()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "a lambda whose value is not None",
        violates="From now on, whenever `backward()` returns",
        check="raised",
        mistake="returned-a-value",
        source="""
import torch

def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    handles = [p.register_post_accumulate_grad_hook(lambda p: sums[p].add_(p.grad)) for p in params]
    handles += [p.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None)) for p in params]
    return sums, handles
""",
    ),
    Wrong(
        "keeps `.grad`",
        violates="has `p.grad` equal to `None`",
        check="test_no_gradient_is_left",
        mistake="grad-not-freed",
        source="""
def offload_grads(params):
    sums = {}
    def hook(p):
        sums[p] = p.grad.double()
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "returns an empty dict and no handles",
        violates="`sums[p]` is the sum of the gradients of `p` over all backward passes since your call",
        check="test_the_sums_grow_with_every_pass",
        source="""
def offload_grads(params):
    return {}, []
""",
    ),
    Wrong(
        "returns nothing",
        violates="Return a pair: a dict `sums` and a list of all handles.",
        check="test_the_sums_grow_with_every_pass",
        source="""
def offload_grads(params):
    return None
""",
    ),
    Wrong(
        "adds up in float32 and converts afterwards",
        violates="added up in `float64`",
        check="test_the_sums_are_made_in_float64",
        source="""
import torch
def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def hook(p):
        sums[p] = (sums[p].to(p.dtype) + p.grad).double()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "no handles",
        violates="Return a pair: a dict `sums` and a list of all handles.",
        check="test_the_handles_remove_the_hooks",
        source="""
import torch
def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def hook(p):
        sums[p] += p.grad
        p.grad = None
    for p in params:
        p.register_post_accumulate_grad_hook(hook)
    return sums, None
""",
    ),
    Wrong(
        "only the handles",
        violates="Return a pair: a dict `sums` and a list of all handles.",
        check="test_the_sums_grow_with_every_pass",
        source="""
import torch
def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def hook(p):
        sums[p] += p.grad
        p.grad = None
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "a tensor hook that reads `.grad`",
        violates="`sums[p]` is the sum of the gradients of `p` over all backward passes since your call",
        check="test_the_sums_grow_with_every_pass",
        source="""
import torch
def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def make(p):
        def hook(grad):
            sums[p] += p.grad
            p.grad = None
        return hook
    return sums, [p.register_hook(make(p)) for p in params]
""",
    ),
    Wrong(
        "moves the parameter instead of its gradient",
        violates="`sums[p]` is the sum of the gradients of `p` over all backward passes since your call",
        check="test_the_sums_grow_with_every_pass",
        source="""
import torch
def offload_grads(params):
    sums = {p: torch.zeros(p.shape, dtype=torch.float64) for p in params}
    def hook(p):
        sums[p] += p.detach()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "the mean instead of the sum",
        violates="`sums[p]` is the sum of the gradients of `p` over all backward passes since your call",
        check="test_the_sums_grow_with_every_pass",
        source="""
import torch
def offload_grads(params):
    sums, n = {}, {}
    def hook(p):
        n[p] = n.get(p, 0) + 1
        old = sums.get(p, torch.zeros(p.shape, dtype=torch.float64))
        sums[p] = old + (p.grad - old) / n[p]
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "the first pass only",
        violates="over all backward passes since your call",
        check="test_the_sums_grow_with_every_pass",
        source="""
def offload_grads(params):
    s = {}
    def hook(p):
        s.setdefault(p, p.grad.double())
        p.grad = None
    return s, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "one dict for all calls, emptied by each",
        violates="rule 1: on one object or on several at the same time",
        check="test_a_second_call_has_a_dict_of_its_own",
        source="""
sums = {}

def offload_grads(params):
    sums.clear()
    def hook(p):
        sums[p] = sums.get(p, 0) + p.grad.double()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "a float64 gradient goes through float32",
        violates="and added up in `float64`",
        check="test_the_sums_grow_with_every_pass",
        source="""
def offload_grads(params):
    sums = {}
    def hook(p):
        gradient = p.grad.detach().float().double()
        sums[p] = sums[p] + gradient if p in sums else gradient
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "the last handle only",
        violates="After `remove()` on each handle, `backward()` stores `.grad` again",
        check="test_the_handles_remove_the_hooks",
        source="""
def offload_grads(params):
    sums, handles = {}, []
    def hook(p):
        gradient = p.grad.detach().double()
        sums[p] = sums[p] + gradient if p in sums else gradient
        p.grad = None
    for p in params:
        handles = [p.register_post_accumulate_grad_hook(hook)]
    return sums, handles
""",
    ),
    Wrong(
        "`remove()` empties the sums",
        violates="and the sums stay as they are",
        check="test_the_handles_remove_the_hooks",
        source="""
class Handle:
    def __init__(self, handle, sums):
        self.handle, self.sums = handle, sums
    def remove(self):
        self.handle.remove()
        self.sums.clear()

def offload_grads(params):
    sums = {}
    def hook(p):
        gradient = p.grad.detach().double()
        sums[p] = sums[p] + gradient if p in sums else gradient
        p.grad = None
    return sums, [Handle(p.register_post_accumulate_grad_hook(hook), sums) for p in params]
""",
    ),
    Wrong(
        "empties the caller's list",
        violates="rule 2: Lists and dicts keep their entries.",
        check="test_nothing_else_changes",
        source="""
def offload_grads(params):
    sums, handles = {}, []
    def hook(p):
        gradient = p.grad.detach().double()
        sums[p] = sums[p] + gradient if p in sums else gradient
        p.grad = None
    while params:
        handles.append(params.pop().register_post_accumulate_grad_hook(hook))
    return sums, handles
""",
    ),
    Wrong(
        "ones before the first pass",
        violates="Before its first pass it may be missing, or its sum may be zeros.",
        check="test_the_sums_grow_with_every_pass",
        source="""
import torch

def offload_grads(params):
    sums = {p: torch.ones(p.shape, dtype=torch.float64) for p in params}
    def hook(p):
        sums[p] = sums[p] + p.grad.detach()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before",
        check="test_nothing_else_changes",
        source="""
def offload_grads(params):
    sums = {}
    def hook(p):
        gradient = p.grad.detach().double()
        sums[p] = sums[p] + gradient if p in sums else gradient
        p.grad = None
    for p in params:
        if p._post_accumulate_grad_hooks:
            p._post_accumulate_grad_hooks.clear()
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "notes the mode of autograd and does nothing in a pass with a graph",
        violates="rule 5: `backward(create_graph=True)`",
        check="test_the_sums_grow_with_every_pass",
        source="""
import torch

def offload_grads(params):
    sums = {}
    def hook(p):
        if torch.is_grad_enabled():
            return
        gradient = p.grad.double()
        sums[p] = sums[p] + gradient if p in sums else gradient
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "equal parameters share a sum",
        violates="The key is the parameter itself.",
        check="test_the_sums_are_made_in_float64",
        source="""
class Sums(dict):
    pass

def offload_grads(params):
    sums, by_value = Sums(), {}
    def hook(p):
        key = (tuple(p.shape), p.detach().sum().item())
        by_value[key] = by_value.get(key, 0) + p.grad.detach().double()
        sums[p] = by_value[key]
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "leaves a gradient of zeros",
        violates="has `p.grad` equal to `None`",
        check="test_no_gradient_is_left",
        source="""
def offload_grads(params):
    sums = {}
    def hook(p):
        if p.grad.any():
            gradient = p.grad.detach().double()
            sums[p] = sums[p] + gradient if p in sums else gradient
            p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "a handle that removes everything",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handles_remove_the_hooks",
        source="""
class All:
    def __init__(self, handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def offload_grads(params):
    sums = {}
    def hook(p):
        gradient = p.grad.detach().double()
        sums[p] = sums[p] + gradient if p in sums else gradient
        p.grad = None
    handles = [p.register_post_accumulate_grad_hook(hook) for p in params]
    return sums, [All(handles) for _ in handles]
""",
    ),
    Wrong(
        "replaces what is infinite",
        violates="`sums[p]` is the sum of the gradients of `p`",
        check="test_the_sums_are_made_in_float64",
        mistake="numbers-for-infinities",
        source="""
import torch

def offload_grads(params):
    sums = {}
    def move(p):
        sums[p] = sums.get(p, 0) + torch.nan_to_num(p.grad).double()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(move) for p in params]
""",
    ),
    Wrong(
        "one dict for all calls",
        violates="rule 1: on one object or on several at the same time",
        check="test_a_second_call_has_a_dict_of_its_own",
        mistake="one-slot-for-all",
        source="""
import torch

sums = {}

def offload_grads(params):
    def move(p):
        sums[p] = sums.get(p, 0) + p.grad.double()
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(move) for p in params]
""",
    ),
    Wrong(
        "frees the gradients of all",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handles_remove_the_hooks",
        source="""
import torch

def offload_grads(params):
    sums = {}
    def move(p):
        sums[p] = sums.get(p, 0) + p.grad.detach().cpu().double()
        for other in params:
            other.grad = None
    return sums, [p.register_post_accumulate_grad_hook(move) for p in params]
""",
    ),
    Wrong(
        "the handles are a tuple",
        violates="a list of all handles",
        check="test_the_handles_remove_the_hooks",
        source="""
import torch

def offload_grads(params):
    sums = {}
    def move(p):
        sums[p] = sums.get(p, 0) + p.grad.detach().cpu().double()
        p.grad = None
    return sums, tuple(p.register_post_accumulate_grad_hook(move) for p in params)
""",
    ),
    Wrong(
        "stuck after a stopped pass",
        violates="rule 5: a good pass after one that an exception has stopped",
        check="test_no_gradient_is_left",
        source="""
import torch

def offload_grads(params):
    sums, waiting = {}, []
    def at_the_end():
        while waiting:
            p = waiting.pop()
            sums[p] = sums.get(p, 0) + p.grad.detach().cpu().double()
            p.grad = None
    def note(p):
        waiting.append(p)
        if len(waiting) == 1:
            torch.autograd.Variable._execution_engine.queue_callback(at_the_end)
    return sums, [p.register_post_accumulate_grad_hook(note) for p in params]
""",
    ),
    Wrong(
        "one sum for two equal gradients",
        violates="`sums[p]` is the sum of the gradients of `p` over all backward passes",
        check="test_each_parameter_has_a_sum_of_its_own",
        source="""
import torch

def offload_grads(params):
    sums = {}
    def hook(p):
        gradient, p.grad = p.grad.to("cpu", torch.float64, copy=True), None
        if p in sums:
            sums[p] += gradient
        else:
            equal = (s for s in sums.values() if s.shape == gradient.shape and torch.equal(s, gradient))
            sums[p] = next(equal, gradient)
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "a new call clears the sums of an earlier one",
        violates="and the sums stay as they are",
        check="test_each_parameter_has_a_sum_of_its_own",
        source="""
import torch

SUMS = {}

def offload_grads(params):
    sums = {}
    for p in params:
        sums[p] = SUMS.setdefault(p, torch.zeros(p.shape, dtype=torch.float64)).zero_()
    def hook(p):
        sums[p] += p.grad
        p.grad = None
    return sums, [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "a second remove() clears `.grad`",
        violates="`backward()` stores `.grad` again",
        check="test_the_handles_remove_the_hooks",
        source="""
import torch

class Handle:
    def __init__(self, p, handle):
        self.p, self.handle = p, handle
    def remove(self):
        self.handle.remove()
        self.p.grad = None

def offload_grads(params):
    sums = {}
    def hook(p):
        gradient, p.grad = p.grad.to("cpu", torch.float64), None
        sums[p] = sums[p] + gradient if p in sums else gradient
    return sums, [Handle(p, p.register_post_accumulate_grad_hook(hook)) for p in params]
""",
    ),
]

GIVENS = [
    "Write `offload_grads(params)`.",
    "`params` is a list of different parameters, each of which requires grad and has no `.grad` yet.",
    "No parameter is in two lists at a time.",
    "(After a pass with",
]

SURVIVORS = {
    "a list for a tuple": "either is a pair, or holds the handles",
    "under no_grad": "hooks may be registered in any mode",
    "lost copy: sums[p] = sums[p] + _not_detached(gradient)": "the sums may have a graph",
    "almost: new = p.grad.to(torch.float64, copy=False)": "the gradient is the parameter's own, and nobody else has it",
}
