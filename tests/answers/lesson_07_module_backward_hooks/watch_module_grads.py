"""Answers to 07-watch-module-grads."""

from graders.author.answers import RAISED, Wrong, changed

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
    TAUGHT,
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

def watch_module_grads(module):
    store = {}

    def hook(m, gi, go):
        store["gi"] = tuple(torch.empty_like(g).copy_(g.detach()) if g is not None else None for g in gi)
        store["go"] = tuple(torch.empty_like(g).copy_(g.detach()) if g is not None else None for g in go)

    return store, module.register_full_backward_hook(hook)
""",
    """
from collections import namedtuple

Watch = namedtuple("Watch", "grads handle")

def watch_module_grads(module):
    class Grads(dict):
        pass
    d = Grads()
    def copies(grads):
        return tuple(None if g is None else g.detach() + 0 for g in grads)
    def hook(module, gi, go):
        d.update(gi=copies(gi), go=copies(go))
    return Watch(d, module.register_full_backward_hook(hook))
""",
]

WRONG = [
    Wrong(
        "the deprecated hook",
        violates="with the entries that PyTorch gives to a full backward hook",
        check="raised",
        mistake="deprecated-hook",
        source="""
def watch_module_grads(module):
    d = {}
    def hook(module, grad_input, grad_output):
        d["gi"] = tuple(None if g is None else g.detach().clone() for g in grad_input)
        d["go"] = tuple(None if g is None else g.detach().clone() for g in grad_output)
    return d, module.register_backward_hook(hook)
""",
    ),
    Wrong(
        "the arguments in the wrong order",
        violates="the gradients of the loss with respect to the inputs of the module",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        mistake="swapped-arguments",
        source="""
def watch_module_grads(module):
    d = {}
    def hook(module, grad_output, grad_input):
        d["gi"] = tuple(None if g is None else g.detach().clone() for g in grad_input)
        d["go"] = tuple(None if g is None else g.detach().clone() for g in grad_output)
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "a pre-hook",
        violates="the gradients of the loss with respect to the inputs of the module",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        mistake="wrong-hook-kind",
        source="""
def watch_module_grads(module):
    d = {}
    def hook(module, grads):
        d["gi"] = tuple(None if g is None else g.detach().clone() for g in grads)
        d["go"] = d["gi"]
    return d, module.register_full_backward_pre_hook(hook)
""",
    ),
    Wrong(
        "returns both",
        violates="No gradient changes",
        check="raised",
        mistake="returned-something",
        source="""
def watch_module_grads(module):
    d = {}
    def hook(module, grad_input, grad_output):
        d["gi"] = tuple(None if g is None else g.detach().clone() for g in grad_input)
        d["go"] = tuple(None if g is None else g.detach().clone() for g in grad_output)
        return d["gi"], d["go"]
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "values as a forward hook sees them",
        violates="the gradients of the loss with respect to its outputs",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        mistake="values-not-gradients",
        source="""
import torch

def watch_module_grads(module):
    d = {}
    def hook(module, args, output):
        outputs = output if isinstance(output, tuple) else (output,)
        d["gi"] = tuple(a.detach().clone() for a in args if isinstance(a, torch.Tensor))
        d["go"] = tuple(o.detach().clone() for o in outputs if isinstance(o, torch.Tensor))
    return d, module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "stores the tensors themselves",
        violates="nothing that happens later changes it",
        check="test_the_entries_are_copies_without_a_graph",
        mistake="stored-alias",
        source="""
def watch_module_grads(module):
    d = {}
    def hook(module, grad_input, grad_output):
        d["gi"] = grad_input
        d["go"] = grad_output
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "a new dict in the hook",
        violates="Whenever PyTorch calls full backward hooks of `module`, the dict holds",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        mistake="rebound-dict",
        source="""
def watch_module_grads(module):
    d = {}
    def hook(module, grad_input, grad_output):
        d = {"gi": tuple(g if g is None else g.clone() for g in grad_input),
             "go": tuple(g if g is None else g.clone() for g in grad_output)}
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "returns nothing",
        violates="Return a tuple of a dict and a handle",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        source="""
def watch_module_grads(module):
    return None
""",
    ),
    Wrong(
        "a list of both",
        violates="rule 6: A tuple is a tuple: a namedtuple or a `torch.Size` is one, a list is not",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        source="""
def watch_module_grads(module):
    d = {}
    def copies(grads):
        return tuple(None if g is None else g.detach().clone() for g in grads)
    def hook(module, gi, go):
        d.update(gi=copies(gi), go=copies(go))
    return [d, module.register_full_backward_hook(hook)]
""",
    ),
    Wrong(
        "no hook at all",
        violates="Whenever PyTorch calls full backward hooks of `module`, the dict holds",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        source="""
def watch_module_grads(module):
    class Nothing:
        def remove(self):
            pass
    return {}, Nothing()
""",
    ),
    Wrong(
        "keeps the first pass",
        violates="the dict holds afterwards two entries of that pass",
        check="test_the_latest_pass_is_kept",
        mistake="only-the-first-pass",
        source="""
def watch_module_grads(module):
    d = {}
    def hook(module, gi, go):
        d.setdefault("gi", tuple(g if g is None else g.detach().clone() for g in gi))
        d.setdefault("go", tuple(g if g is None else g.detach().clone() for g in go))
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "nothing for gradients that are zero",
        violates="Whenever PyTorch calls full backward hooks of `module`, the dict holds",
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
        "zeros for None",
        violates="`None` where it gives `None`",
        check="test_a_missing_gradient_is_none",
        source="""
import torch
def watch_module_grads(module):
    d = {}
    def hook(module, gi, go):
        d["gi"] = tuple(torch.zeros(1) if g is None else g.detach().clone() for g in gi)
        d["go"] = tuple(torch.zeros(1) if g is None else g.detach().clone() for g in go)
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "leaves out None",
        violates="in the same order, `None` where it gives `None`",
        check="test_a_missing_gradient_is_none",
        source="""
def watch_module_grads(module):
    d = {}
    def hook(module, gi, go):
        d["gi"] = tuple(g for g in gi if g is not None)
        d["go"] = tuple(g for g in go if g is not None)
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "clones with their graph",
        violates="Each tensor in them is a copy without a graph",
        check="test_the_entries_are_copies_without_a_graph",
        source="""
def watch_module_grads(module):
    d = {}
    def hook(module, gi, go):
        d["gi"] = tuple(g if g is None else g.clone() for g in gi)
        d["go"] = tuple(g if g is None else g.clone() for g in go)
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "writes into the gradient",
        violates="No gradient changes",
        check="test_the_gradients_stay_as_they_are",
        mistake="changed-the-gradient",
        source="""
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
    ),
    Wrong(
        "the first entry alone",
        violates="Both are tuples",
        check="raised",
        source="""
def watch_module_grads(module):
    d = {}
    def hook(module, gi, go):
        d["gi"] = gi[0] if gi[0] is None else gi[0].detach().clone()
        d["go"] = go[0] if go[0] is None else go[0].detach().clone()
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        source="""
def watch_module_grads(module):
    d = {}

    def hook(m, gi, go):
        d["gi"] = tuple(None if g is None else g.detach().clone().float() for g in gi)
        d["go"] = tuple(None if g is None else g.detach().clone().float() for g in go)

    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "one dict for all calls",
        violates="The dict is new, and empty at first.",
        check="test_each_call_has_a_dict_of_its_own",
        mistake="one-dict-for-all",
        source="""
_d = {}

def watch_module_grads(module):
    def hook(m, gi, go):
        _d["gi"] = tuple(None if g is None else g.detach().clone() for g in gi)
        _d["go"] = tuple(None if g is None else g.detach().clone() for g in go)

    return _d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "one dict that each call empties",
        violates="rule 1: on one object or on several at the same time",
        check="test_each_call_has_a_dict_of_its_own",
        mistake="one-dict-for-all",
        source="""
def watch_module_grads(module, d={}):
    d.clear()

    def hook(m, gi, go):
        d["gi"] = tuple(None if g is None else g.detach().clone() for g in gi)
        d["go"] = tuple(None if g is None else g.detach().clone() for g in go)

    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "two dimensions",
        violates="rule 1: tensors of any shape",
        check="raised",
        source="""
def watch_module_grads(module):
    d = {}

    def hook(m, gi, go):
        d["gi"] = tuple(None if g is None else g.detach().clone().flatten(1) for g in gi)
        d["go"] = tuple(None if g is None else g.detach().clone().flatten(1) for g in go)

    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "returns its copies",
        violates="rule 5: then gradients can be differentiated again",
        check="test_the_gradients_stay_as_they_are",
        mistake="returned-something",
        source=changed(
            TAUGHT,
            ("grad_input, grad_output", "gi, go"),
            ('d["gi"] = copies(grad_input', "d.update(gi=copies(gi), go=copies(go)"),
            ('d["go"] = copies(grad_output)', 'return d["gi"]'),
        ),
    ),
    Wrong(
        "the next pass writes into the tensors of this one",
        violates="nothing that happens later changes it",
        check="test_the_entries_are_copies_without_a_graph",
        mistake="stored-alias",
        source="""
def watch_module_grads(module):
    d = {}
    def kept(old, grads):
        fits = old is not None and all(
            (a is None) == (b is None) and (a is None or a.shape == b.shape) for a, b in zip(old, grads))
        if not fits:
            return tuple(None if g is None else g.detach().clone() for g in grads)
        return tuple(a if a is None else a.copy_(g.detach()) for a, g in zip(old, grads))
    def hook(module, gi, go):
        d.update(gi=kept(d.get("gi"), gi), go=kept(d.get("go"), go))
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "removes the caller's hooks",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_the_gradients_stay_as_they_are",
        source="""
def watch_module_grads(module):
    d = {}
    def copies(grads):
        return tuple(None if g is None else g.detach().clone() for g in grads)
    def hook(module, gi, go):
        d.update(gi=copies(gi), go=copies(go))
    module._backward_hooks.clear()
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "a handle that removes all hooks of the module",
        violates="`handle.remove()` ends the watching",
        check="test_the_handle_ends_the_watching_and_nothing_else",
        source="""
class All:
    def __init__(self, module):
        self.module = module
    def remove(self):
        self.module._backward_hooks.clear()

def watch_module_grads(module):
    d = {}
    def copies(grads):
        return tuple(None if g is None else g.detach().clone() for g in grads)
    def hook(module, gi, go):
        d.update(gi=copies(gi), go=copies(go))
    module.register_full_backward_hook(hook)
    return d, All(module)
""",
    ),
    Wrong(
        "remove() empties the dict",
        violates="later calls of the module change nothing in the dict",
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
        "only in training",
        violates="rule 1: It works however often it is called",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        source="""
def watch_module_grads(module):
    d = {}
    def copies(grads):
        return tuple(None if g is None else g.detach().clone() for g in grads)
    def hook(module, gi, go):
        if module.training:
            d.update(gi=copies(gi), go=copies(go))
    return d, module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "an exception when the pass ends before the input",
        violates="No gradient changes",
        check="raised",
        source="""
import torch

def watch_module_grads(module):
    d = {}
    def copies(grads):
        return tuple(None if g is None else g.detach().clone() for g in grads)
    waiting = []
    def early(module, go):
        waiting.append(copies(go))
        def at_the_end():
            if waiting:
                raise RuntimeError("no grad_input came")
        torch.autograd.Variable._execution_engine.queue_callback(at_the_end)
    def late(module, gi, go):
        d.update(gi=copies(gi), go=waiting.pop())
    one = module.register_full_backward_pre_hook(early)
    two = module.register_full_backward_hook(late)
    class Both:
        def remove(self):
            one.remove()
            two.remove()
    return d, Both()
""",
    ),
    Wrong(
        "one copy for gradients that are the same",
        violates="Each tensor in them is a copy",
        check="test_the_entries_are_copies_without_a_graph",
        source=changed(
            TAUGHT,
            (
                "    def copies(grads):\n"
                "        return tuple(None if g is None else g.detach().clone() for g in grads)\n",
                "    def copies(grads, made):\n"
                "        for g in grads:\n"
                "            if g is not None and g.data_ptr() not in made:\n"
                "                made[g.data_ptr()] = g.detach().clone()\n"
                "        return tuple(None if g is None else made[g.data_ptr()].view(g.shape) for g in grads)\n",
            ),
            ('d["gi"] = copies(grad_input)', 'made = {}\n        d["gi"] = copies(grad_input, made)'),
            ("copies(grad_output)", "copies(grad_output, made)"),
        ),
    ),
    Wrong(
        "finite numbers only",
        violates="the gradients of the loss with respect to the inputs of the module",
        check="test_the_latest_pass_is_kept",
        source=changed(TAUGHT, ("g.detach().clone()", "g.detach().nan_to_num()")),
    ),
    Wrong(
        "busy since a pass that was stopped",
        violates="rule 5: a good pass after one that an exception has stopped",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        source="""
class Both:
    def __init__(self, *handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def watch_module_grads(module):
    noted, under_way = {}, []
    def hook(module, grad_input, grad_output):
        if len(under_way) == 1:
            noted["gi"], noted["go"] = (
                tuple(None if g is None else g.detach().clone() for g in grads) for grads in (grad_input, grad_output)
            )
            under_way.clear()
    return noted, Both(
        module.register_full_backward_pre_hook(lambda module, grad_output: under_way.append(1)),
        module.register_full_backward_hook(hook),
    )
""",
    ),
    Wrong(
        "notes nothing when no input needs a gradient",
        violates="the dict holds afterwards two entries of that pass",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        source=changed(
            TAUGHT, ('        d["gi"] =', '        if grad_input == (None,):\n            return\n        d["gi"] =')
        ),
    ),
    Wrong(
        "a tuple of one `None` becomes empty",
        violates="`None` where it gives `None`",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        source=changed(TAUGHT, ("= copies(grad_input)", "= () if grad_input == (None,) else copies(grad_input)")),
    ),
    Wrong(
        "an empty gradient is kept as None",
        violates="rule 1: any shape",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        source=changed(TAUGHT, ("None if g is None else", "None if g is None or not g.numel() else")),
    ),
    Wrong(
        "copies through a list",
        violates="rule 1: any shape",
        check="test_the_gradients_of_inputs_and_outputs_are_recorded",
        source="import torch\n" + changed(TAUGHT, ("g.detach().clone()", "torch.tensor(g.tolist(), dtype=g.dtype)")),
    ),
    Wrong(
        "no copy of what has a graph",
        violates="nothing that happens later changes it",
        check="test_the_entries_are_copies_without_a_graph",
        source=changed(TAUGHT, ("g.detach().clone()", "(g.detach() if g.requires_grad else g.clone())")),
    ),
    Wrong(
        "a hook on all modules that notes this one alone",
        violates="rule 3: they act on what you were given and on nothing else",
        check="test_the_gradients_stay_as_they_are",
        mistake="hooked-all-modules",
        source="from torch.nn.modules.module import register_module_full_backward_hook\n"
        + changed(
            TAUGHT,
            (
                "def hook(module, grad_input, grad_output):\n",
                "def hook(m, grad_input, grad_output):\n        if m is not module:\n            return\n",
            ),
            ("module.register_full_backward_hook", "register_module_full_backward_hook"),
        ),
    ),
    Wrong(
        "a hook on all modules that notes each of the same class",
        violates="rule 3: they act on what you were given and on nothing else",
        check="test_each_call_has_a_dict_of_its_own",
        mistake="hooked-all-modules",
        source="""
from torch.nn.modules.module import register_module_full_backward_hook

def watch_module_grads(target):
    d = {}
    def copies(grads):
        return tuple(None if g is None else g.detach().clone() for g in grads)
    def hook(module, gi, go):
        if type(module) is type(target):
            d.update(gi=copies(gi), go=copies(go))
    return d, register_module_full_backward_hook(hook)
""",
    ),
    Wrong(
        "notes no pass with a graph",
        violates="the dict holds afterwards two entries of that pass",
        check="test_the_entries_are_copies_without_a_graph",
        source=changed(
            TAUGHT,
            (
                "grad_output):",
                "grad_output):\n        if any(g is not None and g.requires_grad for g in grad_output): return",
            ),
        ),
    ),
    Wrong(
        "notes one pass for each call of the module",
        violates="Whenever PyTorch calls full backward hooks of `module`, the dict holds",
        check="test_the_latest_pass_is_kept",
        source="""
class Both(list):
    def remove(self):
        while self:
            self.pop().remove()

def watch_module_grads(module):
    d, calls = {}, []
    def hook(module, gi, go):
        if calls:
            calls.clear()
            d["gi"] = tuple(None if g is None else g.detach().clone() for g in gi)
            d["go"] = tuple(None if g is None else g.detach().clone() for g in go)
    forward = module.register_forward_hook(lambda *args: calls.append(1))
    return d, Both([forward, module.register_full_backward_hook(hook)])
""",
    ),
    Wrong(
        "copies None, too",
        violates="`None` where it gives `None`",
        check=RAISED,
        mistake="copied-none",
        source=changed(TAUGHT, ("None if g is None else ", "")),
    ),
]

GIVENS = [
    "Write `watch_module_grads(module)`.",
    "In one pass the module is called once.",
    "(Where a hook of others replaces entries, those before and those after are both right.)",
]

SURVIVORS = {
    "prepend=True": "hooks of the caller in the backward pass only watch here: before and after them it sees the same",
    "almost: return (d, module.register_full_backward_hook(partial(both, d), prepend=False))": "as with `prepend=True`",
    "under no_grad": "to register a hook makes no graph",
    "lost return: gi": "`None` means the same: the gradients stay",
    "almost: return tuple((None if g is None else g.detach() - 0": "adding 0 and taking it away are the same",
}
