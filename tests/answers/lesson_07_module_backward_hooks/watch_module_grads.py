"""Answers to 07-watch-module-grads."""

RIGHT = [
    """
def watch_module_grads(module):
    d = {}
    def copies(grads):
        return tuple(None if g is None else g.detach().clone() for g in grads)
    def hook(module, grad_input, grad_output):
        d["gi"] = copies(grad_input)
        d["go"] = copies(grad_output)
    return d, module.register_full_backward_hook(hook)
""",
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
    """
def watch_module_grads(module):
    d = {}
    late = module.register_full_backward_hook(
        lambda m, gi, go: d.__setitem__("gi", tuple(g if g is None else g.detach().clone() for g in gi)))
    early = module.register_full_backward_pre_hook(
        lambda m, go: d.__setitem__("go", tuple(g if g is None else g.detach().clone() for g in go)))
    class Both:
        def remove(self):
            late.remove()
            early.remove()
    return d, Both()
""",
    """
import torch
from torch.nn.modules.module import register_module_full_backward_hook

def watch_module_grads(module):
    store = {}

    def hook(m, gi, go):
        if m is module:
            store["gi"] = tuple(torch.empty_like(g).copy_(g.detach()) if g is not None else None for g in gi)
            store["go"] = tuple(torch.empty_like(g).copy_(g.detach()) if g is not None else None for g in go)

    return store, register_module_full_backward_hook(hook)
""",
]

WRONG = {
    "deprecated-hook": """
def watch_module_grads(module):
    d = {}
    def hook(module, grad_input, grad_output):
        d["gi"] = tuple(None if g is None else g.detach().clone() for g in grad_input)
        d["go"] = tuple(None if g is None else g.detach().clone() for g in grad_output)
    return d, module.register_backward_hook(hook)
""",
    "swapped-arguments": """
def watch_module_grads(module):
    d = {}
    def hook(module, grad_output, grad_input):
        d["gi"] = tuple(None if g is None else g.detach().clone() for g in grad_input)
        d["go"] = tuple(None if g is None else g.detach().clone() for g in grad_output)
    return d, module.register_full_backward_hook(hook)
""",
    "wrong-hook-kind": """
def watch_module_grads(module):
    d = {}
    def hook(module, grads):
        d["gi"] = tuple(None if g is None else g.detach().clone() for g in grads)
        d["go"] = d["gi"]
    return d, module.register_full_backward_pre_hook(hook)
""",
    "returned-something": """
def watch_module_grads(module):
    d = {}
    def hook(module, grad_input, grad_output):
        d["gi"] = tuple(None if g is None else g.detach().clone() for g in grad_input)
        d["go"] = tuple(None if g is None else g.detach().clone() for g in grad_output)
        return d["gi"], d["go"]
    return d, module.register_full_backward_hook(hook)
""",
    "values-not-gradients": """
def watch_module_grads(module):
    d = {}
    def hook(module, args, output):
        outputs = output if isinstance(output, tuple) else (output,)
        d["gi"] = tuple(a.detach().clone() for a in args)
        d["go"] = tuple(o.detach().clone() for o in outputs)
    return d, module.register_forward_hook(hook)
""",
    "stored-alias": """
def watch_module_grads(module):
    d = {}
    def hook(module, grad_input, grad_output):
        d["gi"] = grad_input
        d["go"] = grad_output
    return d, module.register_full_backward_hook(hook)
""",
    "rebound-dict": """
def watch_module_grads(module):
    d = {}
    def hook(module, grad_input, grad_output):
        d = {"gi": tuple(g if g is None else g.clone() for g in grad_input),
             "go": tuple(g if g is None else g.clone() for g in grad_output)}
    return d, module.register_full_backward_hook(hook)
""",
}

ALSO_WRONG = [
    "def watch_module_grads(module):\n    return None",
    """
def watch_module_grads(module):
    class Nothing:
        def remove(self):
            pass
    return {}, Nothing()
""",
    """
def watch_module_grads(module):
    d = {}
    def hook(module, gi, go):
        d.setdefault("gi", tuple(g if g is None else g.detach().clone() for g in gi))
        d.setdefault("go", tuple(g if g is None else g.detach().clone() for g in go))
    return d, module.register_full_backward_hook(hook)
""",
    """
import torch
def watch_module_grads(module):
    d = {}
    def hook(module, gi, go):
        d["gi"] = tuple(torch.zeros(1) if g is None else g.detach().clone() for g in gi)
        d["go"] = tuple(torch.zeros(1) if g is None else g.detach().clone() for g in go)
    return d, module.register_full_backward_hook(hook)
""",
    """
def watch_module_grads(module):
    d = {}
    def hook(module, gi, go):
        d["gi"] = tuple(g for g in gi if g is not None)
        d["go"] = tuple(g for g in go if g is not None)
    return d, module.register_full_backward_hook(hook)
""",
    """
def watch_module_grads(module):
    d = {}
    def hook(module, gi, go):
        d["gi"] = tuple(g if g is None else g.clone() for g in gi)
        d["go"] = tuple(g if g is None else g.clone() for g in go)
    return d, module.register_full_backward_hook(hook)
""",
    """
def watch_module_grads(module):
    d = {}
    def hook(module, gi, go):
        d["gi"] = tuple(g if g is None else g.detach().clone() for g in gi)
        d["go"] = tuple(g if g is None else g.detach().clone() for g in go)
        for g in gi:
            if g is not None:
                g.mul_(2)
    return d, module.register_full_backward_hook(hook)
""",
    """
def watch_module_grads(module):
    d = {}
    def hook(module, gi, go):
        d["gi"] = gi[0] if gi[0] is None else gi[0].detach().clone()
        d["go"] = go[0] if go[0] is None else go[0].detach().clone()
    return d, module.register_full_backward_hook(hook)
""",
    """
def watch_module_grads(module):
    d = {}

    def hook(m, gi, go):
        d["gi"] = tuple(None if g is None else g.detach().clone().float() for g in gi)
        d["go"] = tuple(None if g is None else g.detach().clone().float() for g in go)

    return d, module.register_full_backward_hook(hook)
""",
    """
_d = {}

def watch_module_grads(module):
    def hook(m, gi, go):
        _d["gi"] = tuple(None if g is None else g.detach().clone() for g in gi)
        _d["go"] = tuple(None if g is None else g.detach().clone() for g in go)

    return _d, module.register_full_backward_hook(hook)
""",
    """
def watch_module_grads(module, d={}):
    d.clear()

    def hook(m, gi, go):
        d["gi"] = tuple(None if g is None else g.detach().clone() for g in gi)
        d["go"] = tuple(None if g is None else g.detach().clone() for g in go)

    return d, module.register_full_backward_hook(hook)
""",
    """
def watch_module_grads(module):
    d = {}

    def hook(m, gi, go):
        d["gi"] = tuple(None if g is None else g.detach().clone().flatten(1) for g in gi)
        d["go"] = tuple(None if g is None else g.detach().clone().flatten(1) for g in go)

    return d, module.register_full_backward_hook(hook)
""",
]
