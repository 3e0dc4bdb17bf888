"""Answers to 07-watch-module-grads."""

from graders.author.answers import Wrong, changed

TAUGHT = """
def watch_module_grads(module):
    d = {}
    def copies(grads):
        return tuple(None if g is None else g.detach().clone() for g in grads)
    def hook(module, grad_input, grad_output):
        d["gi"] = copies(grad_input)
        d["go"] = copies(grad_output)
    return d, module.register_full_backward_hook(hook)
"""

RIGHT = [
    """
import torch

class Watcher:
    def __init__(self):
        self.seen = {}
    def __call__(self, module, gi, go):
        with torch.no_grad():
            self.seen.update(
                gi=tuple(g if g is None else torch.empty_like(g).copy_(g) for g in gi),
                go=tuple(g if g is None else torch.empty_like(g).copy_(g) for g in go),
            )
        return gi

def watch_module_grads(module):
    watcher = Watcher()
    handle = module.register_full_backward_hook(watcher)
    return watcher.seen, handle
""",
    """
from functools import partial

def keep(d, key, entries):
    out = []
    for entry in entries:
        out.append(entry.clone().detach() if entry is not None else None)
    d[key] = tuple(out)

def both(d, module, gi, go):
    keep(d, "gi", gi)
    keep(d, "go", go)

def watch_module_grads(module):
    d = dict()
    return (d, module.register_full_backward_hook(partial(both, d), prepend=True))
""",
]

WRONG = [
    Wrong(
        "nothing for gradients that are zero",
        violates="After each backward pass it holds two tuples",
        check="test_the_latest_pass_is_kept",
        source="""
def watch_module_grads(module):
    d = {}
    def copies(grads):
        return tuple(None if g is None else g.detach().clone() for g in grads)
    def hook(module, gi, go):
        if any(g is not None and g.any() for g in go):
            d.update(gi=copies(gi), go=copies(go))
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "remove() empties the dict",
        violates="`handle.remove()` ends the watching",
        check="test_the_handle_ends_the_watching_and_nothing_else",
        source="""
class Clearing:
    def __init__(self, d, handle):
        self.d, self.handle = d, handle
    def remove(self):
        self.handle.remove()
        self.d.clear()

def watch_module_grads(module):
    d = {}
    def copies(grads):
        return tuple(None if g is None else g.detach().clone() for g in grads)
    def hook(module, gi, go):
        d.update(gi=copies(gi), go=copies(go))
    return d, Clearing(d, module.register_full_backward_hook(hook))
""",
    ),
    Wrong(
        "notes nothing when no input needs a gradient",
        violates="An entry is `None`",
        check="test_a_missing_gradient_is_None,_and_any_layout_will_do",
        source=changed(
            TAUGHT, ('        d["gi"] =', '        if grad_input == (None,):\n            return\n        d["gi"] =')
        ),
    ),
]

SURVIVORS = {
    "prepend=True": "the contract leaves open which of two hooks comes first",
}
