"""Answers to 11-first-nonfinite."""

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
    FIRST,
    # no hook at all, and the pass goes on to its end
    """
import contextlib
import torch

def finite(value):
    return bool(torch.isfinite(value).all()) if torch.is_tensor(value) else True

def first_nonfinite(model, x):
    guilty = []
    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                def forward(*args, inner=module.forward, name=name):
                    healthy = all(map(finite, args))
                    output = inner(*args)
                    if healthy and not finite(output):
                        guilty.append(name)
                    return output
                module.forward = forward
                stack.callback(module.__dict__.pop, "forward")
        model(x)
    return guilty[0] if guilty else None
""",
    """
import torch

class Found(Exception):
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
import math
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

def bad(value):
    return isinstance(value, torch.Tensor) and not math.isfinite(value.detach().double().abs().max())

def first_nonfinite(model, x):
    names = {m: n for n, m in model.named_modules() if not len(list(m.children()))}
    first, stack = [], []
    def before(module, args):
        stack.append(any(map(bad, args)))
    def after(module, args, output):
        blameless = stack.pop()
        if module in names and not blameless and bad(output):
            first.append(names[module])
    with register_module_forward_pre_hook(before), register_module_forward_hook(after):
        with torch.no_grad():
            model(x)
    return first[0] if first else None
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
    events = []
    originals = {}
    for name, module in model.named_modules():
        if list(module.children()):
            continue
        def forward(*args, name=name, original=module.forward):
            before = [torch.isfinite(a).all().item() for a in args if isinstance(a, torch.Tensor)]
            output = original(*args)
            events.append((name, all(before), torch.isfinite(output).all().item()))
            return output
        originals[module] = module.forward
        module.forward = forward
    try:
        model(x)
    finally:
        for module in originals:
            del module.forward
    return next((name for name, good_in, good_out in events if good_in and not good_out), None)
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
        if len(m._modules) == 0:
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
    bad_inputs = {}
    def pre(module, args, kwargs):
        tensors = [t for t in (*args, *kwargs.values()) if torch.is_tensor(t)]
        bad_inputs[module] = sum(int((~torch.isfinite(t)).sum()) for t in tensors)
    def post(module, args, output):
        if bad_inputs.pop(module) == 0 and not torch.isfinite(output).all():
            raise Found(next(name for name, other in model.named_modules() if other is module))
    with ExitStack() as stack, torch.inference_mode():
        for module in model.modules():
            if next(module.children(), None) is None:
                stack.enter_context(module.register_forward_pre_hook(pre, with_kwargs=True, prepend=True))
                stack.enter_context(module.register_forward_hook(post))
        try:
            model(x)
        except Found as found:
            return str(found)
""",
]

WRONG = {
    "reported-last": changed(FIRST, "found[0]", "found[-1]"),
    "nan-only": changed(FIRST, "torch.isfinite(value).all()", "not torch.isnan(value).any()"),
    "late-binding": changed(
        FIRST,
        "            def after(module, args, output, name=name):",
        "            def after(module, args, output):",
    ),
    "blamed-the-victim": changed(FIRST, "if good[module] and not", "if not"),
    "first-input-only": changed(FIRST, "finite(args)", "finite(args[:1])"),
    "input-overwritten": changed(FIRST, "if good[module] and not", "if finite(args) and not"),
    "definition-order": changed(
        FIRST,
        "    return found[0] if found else None",
        "    return next((name for name, _ in model.named_modules() if name in found), None)",
    ),
    "only-last-call": changed(FIRST, "found, good, handles = [], {}, []", "verdict, good, handles = {}, {}, []")
    .replace(
        """                if good[module] and not finite([output]):
                    found.append(name)
""",
        "                verdict.setdefault(name, False)\n"
        "                verdict[name] = good[module] and not finite([output])\n",
    )
    .replace(
        "    return found[0] if found else None",
        "    return next((name for name, guilty in verdict.items() if guilty), None)",
    ),
    "only-first-call": changed(
        FIRST, "found, good, handles = [], {}, []", "seen, found, good, handles = [], [], {}, []"
    ).replace(
        """                if good[module] and not finite([output]):
""",
        "                seen.append(name)\n"
        "                if seen.count(name) == 1 and good[module] and not finite([output]):\n",
    ),
    "large-is-not-infinite": changed(FIRST, "torch.isfinite(value).all()", "value.sum().isfinite()"),
    "children-only": changed(FIRST, "model.named_modules()", "model.named_children()"),
    "named-a-container": changed(FIRST, "            if list(module.children()):\n                continue\n", ""),
    "hook-left-behind": changed(FIRST, "handle.remove()", "pass"),
    "hook-left-after-exception": FIRST.replace("    try:\n", "    if True:\n").replace(
        "    finally:\n", "    if True:\n"
    ),
}

ALSO_WRONG = [
    "def first_nonfinite(model, x):\n    return None",
    # stops the pass with an exception that the model may raise, too
    changed(FIRST, "found.append(name)", "found.append(name)\n                    raise StopIteration").replace(
        "    finally:\n", "    except StopIteration:\n        pass\n    finally:\n"
    ),
    changed(
        FIRST,
        "            if list(module.children()):\n",
        "            if not list(module.parameters(recurse=False)):\n",
    ),
    "def first_nonfinite(model, x):\n    return [n for n, m in model.named_modules() if not list(m.children())][0]",
    changed(FIRST, "found[0] if found else None", "found"),
    changed(FIRST, "found[0] if found else None", "found[0] if found else ''"),
    changed(FIRST, "found.append(name)", "found.append(type(module).__name__)"),
    changed(FIRST, "found.append(name)", "found.append(name.split('.')[-1])"),
    changed(FIRST, "        model(x)\n", "        model(x)\n        model(x)\n"),
    changed(FIRST, "        model(x)\n", "        model(x).sum().backward()\n"),
    changed(FIRST, "        model(x)\n", "        model(torch.nan_to_num(x))\n"),
    changed(FIRST, "        model(x)\n", "        x.nan_to_num_()\n        model(x)\n"),
    FIRST.replace("    finally:\n", "    except Exception:\n        pass\n    finally:\n"),
    changed(FIRST, "        model(x)\n", "        model(x)\n        model.zero_grad()\n"),
    changed(FIRST, "        model(x)\n", "        model.forward(x)\n"),
    changed(FIRST, "torch.isfinite(value).all()", "not torch.isinf(value).any()"),
    changed(FIRST, "finite([output])", "finite([output[0]])"),
    changed(FIRST, "torch.isfinite(value).all()", "torch.isfinite(value[0]).all()"),
    # stops the pass with a RuntimeError, and takes those of the model for its own
    changed(FIRST, "found.append(name)", "raise RuntimeError(name)").replace(
        "    finally:\n", "    except RuntimeError as error:\n        return str(error)\n    finally:\n"
    ),
]
