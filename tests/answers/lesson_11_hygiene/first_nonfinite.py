"""Answers to 11-first-nonfinite."""

from graders.author.answers import Wrong

from .shared import changed

FIRST = """
import torch

def first_nonfinite(model, x):
    found, good, handles = [], {}, []
    def finite(values):
        return all(torch.isfinite(value).all() for value in values if isinstance(value, torch.Tensor))
    try:
        for name, module in model.named_modules():
            if list(module.children()):
                continue
            def before(module, args):
                good[module] = finite(args)
            def after(module, args, output, name=name):
                if good[module] and not finite([output]):
                    found.append(name)
            handles.append(module.register_forward_pre_hook(before))
            handles.append(module.register_forward_hook(after))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None
"""

RIGHT = [
    # ends the pass with an exception of its own
    """
import torch

class Found(BaseException):
    pass

def first_nonfinite(model, x):
    handles, fine = [], []
    def watch(name, module):
        def before(module, args):
            fine[:] = [all(bool(a.isfinite().all()) for a in args if torch.is_tensor(a))]
        def after(module, args, output):
            if fine[0] and not bool(output.isfinite().all()):
                raise Found(name)
        return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    try:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                handles += watch(name, module)
        model(x)
    except Found as found:
        return found.args[0]
    finally:
        for handle in handles:
            handle.remove()
    return None
""",
    """
import torch
from contextlib import ExitStack
from functools import partial

def ok(*values):
    return not any(torch.isnan(v).any() or torch.isinf(v).any() for v in values if isinstance(v, torch.Tensor))

class Watch:
    def __init__(self):
        self.name, self.clean = None, False
    def pre(self, module, args):
        self.clean = ok(*args)
    def post(self, name, module, args, output):
        if self.name is None and self.clean and not ok(output):
            self.name = name

def first_nonfinite(model, x):
    watch = Watch()
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if not any(True for _ in module.children()):
                stack.enter_context(module.register_forward_pre_hook(watch.pre))
                stack.enter_context(module.register_forward_hook(partial(watch.post, name)))
        model(x)
    return watch.name
""",
    """
import torch

def first_nonfinite(model, x):
    names, result, copies, handles = dict(model.named_modules()), [], {}, []
    def save(m, args):
        copies[m] = [a.clone() for a in args if isinstance(a, torch.Tensor)]
    def judge(m, args, output):
        inputs = copies.pop(m)
        if torch.isfinite(output).all():
            return
        if all(torch.isfinite(a).all() for a in inputs):
            result.append([n for n in names if names[n] is m][0])
    for n, m in names.items():
        if len(list(m.children())) == 0:
            handles += [m.register_forward_pre_hook(save), m.register_forward_hook(judge)]
    try:
        model(x)
    finally:
        [h.remove() for h in handles]
    return (result + [None])[0]
""",
    """
import torch
from contextlib import ExitStack

class Found(RuntimeError):
    pass

def first_nonfinite(model, x):
    bad_inputs, names = {}, []
    def pre(module, args, kwargs):
        tensors = [t for t in (*args, *kwargs.values()) if torch.is_tensor(t)]
        bad_inputs[module] = sum(int((~torch.isfinite(t)).sum()) for t in tensors)
    def post(module, args, output):
        if bad_inputs.pop(module) == 0 and not torch.isfinite(output).all():
            names.append(next(name for name, other in model.named_modules() if other is module))
            raise Found
    with ExitStack() as stack, torch.inference_mode():
        for module in model.modules():
            if next(module.children(), None) is None:
                stack.enter_context(module.register_forward_pre_hook(pre, with_kwargs=True, prepend=True))
                stack.enter_context(module.register_forward_hook(post))
        try:
            model(x)
        except Found:
            pass
    return names[0] if names else None
""",
    """
import math
import torch

def bad(value):
    return isinstance(value, torch.Tensor) and not math.isfinite(value.detach().mul(0).sum())

def first_nonfinite(model, x):
    culprit = []
    def attach(name, module):
        flags = {}
        return (
            module.register_forward_pre_hook(lambda m, a: flags.update(ok=not any(map(bad, a)))),
            module.register_forward_hook(lambda m, a, o: culprit.append(name) if flags["ok"] and bad(o) else None),
        )
    handles = [h for n, m in model.named_modules() if not [*m.children()] for h in attach(n, m)]
    try:
        with torch.no_grad():
            model(x)
    finally:
        while handles:
            handles.pop().remove()
    if culprit:
        return culprit[0]
""",
]

WRONG = [
    Wrong(
        "runs twice",
        violates="run the model once on `x`",
        check="test_the_model_runs_once,_as_it_would_without_you",
        source=changed(FIRST, "        model(x)\n", "        model(x)\n        model(x)\n"),
    ),
    Wrong(
        "one list for all calls, emptied at the beginning",
        violates="even while another call runs",
        check="test_each_call_begins_anew",
        source=FIRST.replace("\ndef", "\nfound = []\n\ndef").replace(
            "found, good, handles = [], {}, []", "good, handles = {}, []\n    found.clear()"
        ),
    ),
    Wrong(
        "one list for all calls, which a call that raises leaves as it is",
        violates="the first two rules still hold",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source=FIRST.replace("\ndef", "\nfound = []\n\ndef")
        .replace("found, good, handles = [], {}, []", "good, handles = {}, []")
        .replace("return found[0]", "result = found[0]")
        + "    found.clear()\n    return result\n",
    ),
]

SURVIVORS = {
    "not for all: for name, module in _part([(name, module)": "their order does not matter",
    "not for all: handles = [h for n, m in _part([(n, m)": "their order does not matter",
    "a list for a tuple": "only its entries are used",
    "almost: self.name, self.clean = (None, True)": "it is set before each call",
    "one global slot: flags = ": "leaves are not nested: it is written before each call, and read after it",
    "not for all: handles = [h for n, m in model.named_modules() if … in _part(attach(n, m), step=-1)]": (
        "their order does not matter"
    ),
    "a hook that works at times: @_not_the_first_call def post": (
        "the first call of all has a bad input, so nothing is to be noted"
    ),
    "a hook that works at times: @_not_the_first_call def pre": "the first call of all, of a leaf that is to blame",
    "another method: return isinstance(value, torch.Tensor) and (not math.isfinite(value.detach().mul(0).mean()))": (
        "they differ for a tensor without entries only"
    ),
}
