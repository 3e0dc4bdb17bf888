"""Answers to the exercises of lesson 11."""

MEAN = """
def mean_activation(model, name, x):
    means = []
    def hook(module, args, output):
        means.append(output.detach().mean())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return means[0]
"""

REMOVE = """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for hooks in (module._forward_pre_hooks, module._forward_hooks,
                      module._backward_pre_hooks, module._backward_hooks):
            count += len(hooks)
            hooks.clear()
    return count
"""

COPY = (
    """
import copy
"""
    + REMOVE
    + """
def clean_copy(model):
    copied = copy.deepcopy(model)
    remove_all_hooks(copied)
    return copied
"""
)

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


def changed(source: str, old: str, new: str) -> str:
    """An answer with one place changed."""
    assert old in source, old
    return source.replace(old, new)


RIGHT = {
    "11-mean-activation": [
        MEAN,
        """
import torch

def mean_activation(model, name, x):
    found = {}
    handle = dict(model.named_modules())[name].register_forward_hook(
        lambda module, args, output: found.update(mean=output.mean()))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    return found["mean"]
""",
        """
import torch
from torch.nn.modules.module import register_module_forward_hook

class Mean:
    def __init__(self, target):
        self.target = target
    def __call__(self, module, args, output):
        if module is self.target:
            self.value = torch.tensor(output.double().mean().item(), dtype=output.dtype)

def mean_activation(model, name, x):
    mean = Mean(model.get_submodule(name))
    with register_module_forward_hook(mean):
        model(x)
    return mean.value
""",
        """
def mean_activation(model, name, x):
    module, kept = model.get_submodule(name), []
    forward = module.forward
    def wrapped(*args, **kwargs):
        output = forward(*args, **kwargs)
        kept.append(output.detach().clone())
        return output
    module.forward = wrapped
    try:
        model(x)
    finally:
        del module.forward
    return kept[0].sum() / kept[0].numel()
""",
        """
class Probe:
    def __init__(self, model, name):
        self.model, self.handle = model, model.get_submodule(name).register_forward_hook(self.save, prepend=False)
    def save(self, module, args, output):
        self.mean = output.data.mean()
    def __enter__(self):
        return self
    def __exit__(self, *error):
        self.handle.remove()

def mean_activation(model, name, x):
    with Probe(model, name) as probe:
        model(x)
    return probe.mean
""",
        """
import torch

@torch.inference_mode()
def mean_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.mean())):
        model(x)
    return kept[0]
""",
        """
import numpy as np
import torch

def mean_activation(model, name, x):
    kept = []
    def hook(m, a, o):
        kept.append(np.mean(o.detach().numpy()))
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return torch.as_tensor(kept[0])
""",
        """
LOG = []

def mean_activation(model, name, x):
    def hook(m, a, o):
        model.last = o.detach()
        LOG.append(o.detach().mean())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return LOG[-1]
""",
    ],
    "11-remove-all-hooks": [
        REMOVE,
        """
NAMES = ["_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"]

def remove_all_hooks(model):
    dicts = [getattr(module, name) for module in model.modules() for name in NAMES]
    count = sum(map(len, dicts))
    for one in dicts:
        while one:
            one.popitem()
    return count
""",
        """
from collections import OrderedDict

def remove_all_hooks(model):
    count = 0
    for _, module in model.named_modules():
        for name in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            count += len(vars(module)[name])
            setattr(module, name, OrderedDict())
        for name in ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"):
            setattr(module, name, OrderedDict())
        module._is_full_backward_hook = None
    return count
""",
        """
def strip(module, done):
    if module in done:
        return 0
    done.add(module)
    count = 0
    for name, value in vars(module).items():
        if name in {"_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"}:
            for key in list(value):
                del value[key]
                count += 1
    return count + sum(strip(child, done) for child in module.children())

def remove_all_hooks(model):
    return strip(model, set())
""",
        """
def remove_all_hooks(model):
    total = 0
    def strip(m):
        nonlocal total
        for d in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks):
            total += len(d)
            d.clear()
    model.apply(strip)
    return total
""",
        """
from torch.utils.hooks import RemovableHandle

def remove_all_hooks(model):
    count = 0
    for m in model.modules():
        for hooks in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks):
            for number in list(hooks):
                handle = RemovableHandle(hooks)
                handle.id = number
                handle.remove()
                count += 1
    return count
""",
    ],
    "11-clean-copy": [
        COPY,
        """
from collections import OrderedDict
from copy import deepcopy

def clean_copy(model):
    memo = {}
    for module in model.modules():
        for hooks in (module._forward_pre_hooks, module._forward_hooks,
                      module._backward_pre_hooks, module._backward_hooks):
            memo[id(hooks)] = OrderedDict()
    return deepcopy(model, memo)
""",
        """
import copy

KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")

def clean_copy(model):
    saved = []
    for module in model.modules():
        for kind in KINDS:
            hooks = getattr(module, kind)
            saved.append((hooks, dict(hooks)))
            hooks.clear()
    try:
        return copy.deepcopy(model)
    finally:
        for hooks, entries in saved:
            hooks.update(entries)
""",
        """
import copy
from collections import OrderedDict

def clean_copy(model):
    copied = copy.deepcopy(model)
    for module in copied.modules():
        module._forward_pre_hooks = OrderedDict()
        module._forward_hooks = OrderedDict()
        module._backward_pre_hooks = OrderedDict()
        module._backward_hooks = OrderedDict()
    return copied
""",
        """
import copy, io, torch

def clean_copy(model):
    held = {}
    for m in model.modules():
        for key in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            held[m, key] = m.__dict__[key]
            m.__dict__[key] = type(held[m, key])()
    try:
        other = copy.deepcopy(model)
    finally:
        for (m, key), value in held.items():
            m.__dict__[key] = value
    return other
""",
    ],
    "11-first-nonfinite": [
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
    ],
}

WRONG = {
    "11-mean-activation": {
        "graph-kept-alive": changed(MEAN, "output.detach().mean()", "output.cpu().mean()"),
        "clone-keeps-graph": changed(MEAN, "output.detach().mean()", "output.clone().mean()"),
        "stored-the-output": "STORE = {}\n"
        + changed(
            MEAN,
            "        means.append(output.detach().mean())",
            "        STORE[name] = output\n        means.append(output.detach().mean())",
        ),
        "stored-alias": """
def mean_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach())):
        model(x)
    return kept[0].mean()
""",
        "stored-the-input": changed(MEAN, "output.detach()", "args[0].detach()"),
        "number-not-tensor": changed(MEAN, "output.detach().mean()", "output.mean().item()"),
        "hook-left-behind": """
def mean_activation(model, name, x):
    means = []
    model.get_submodule(name).register_forward_hook(lambda m, a, o: means.append(o.detach().mean()))
    model(x)
    return means[0]
""",
        "hook-left-after-exception": """
def mean_activation(model, name, x):
    means = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: means.append(o.detach().mean()))
    model(x)
    handle.remove()
    return means[0]
""",
    },
    "11-remove-all-hooks": {
        "one-kind-only": """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        count += len(module._forward_hooks)
        module._forward_hooks.clear()
    return count
""",
        "children-only": changed(REMOVE, "model.modules()", "model.children()"),
        "counted-twice": """
KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")

def remove_all_hooks(model):
    modules = [module for _, module in model.named_modules(remove_duplicate=False)]
    count = sum(len(getattr(module, kind)) for module in modules for kind in KINDS)
    for module in modules:
        for kind in KINDS:
            getattr(module, kind).clear()
    return count
""",
        "counted-options": """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for name, value in vars(module).items():
            if name.startswith(("_forward", "_backward")) and isinstance(value, dict):
                count += len(value)
                value.clear()
    return count
""",
        "other-hooks-removed": REMOVE.replace("    return count\n", "")
        + """
    for p in model.parameters():
        for hooks in (p._backward_hooks, p._post_accumulate_grad_hooks):
            if hooks:
                hooks.clear()
    return count
""",
        "replaced-the-dict": """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            count += len(getattr(module, kind))
            setattr(module, kind, {})
    return count
""",
        "no-count": changed(REMOVE, "    return count\n", ""),
    },
    "11-clean-copy": {
        "hooks-copied": "import copy\n\ndef clean_copy(model):\n    return copy.deepcopy(model)\n",
        "cleared-original": changed(
            COPY,
            "    copied = copy.deepcopy(model)\n    remove_all_hooks(copied)\n    return copied",
            "    remove_all_hooks(model)\n    return copy.deepcopy(model)",
        ),
        "shared-parameters": changed(COPY, "copy.deepcopy(model)", "copy.copy(model)"),
        "one-kind-only": """
import copy

def clean_copy(model):
    copied = copy.deepcopy(model)
    for module in copied.modules():
        module._forward_hooks.clear()
        module._forward_pre_hooks.clear()
    return copied
""",
        "children-only": changed(COPY, "model.modules()", "model.children()"),
        "broken-ties": changed(
            COPY,
            "    return copied\n",
            """    for module in copied.modules():
        for name, p in module.named_parameters(recurse=False):
            setattr(module, name, torch.nn.Parameter(p.detach().clone(), requires_grad=p.requires_grad))
    return copied
""",
        )
        + "import torch\n",
        "changed-the-mode": changed(COPY, "    return copied", "    return copied.eval()"),
    },
    "11-first-nonfinite": {
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
    },
}

# Wrong in ways that no listed mistake describes: they must fail all the same.
ALSO_WRONG = {
    "11-mean-activation": [
        "def mean_activation(model, name, x):\n    return None",
        "def mean_activation(model, name, x):\n    return model(x).detach().mean()",
        changed(MEAN, "output.detach().mean()", "output.detach().mean(0)"),
        changed(MEAN, "output.detach().mean()", "output.detach().mean().reshape(1)"),
        changed(MEAN, "output.detach().mean()", "output.detach().mean().float()"),
        changed(MEAN, "        model(x)", "        model(x)\n        model(x)"),
        changed(MEAN, "        model(x)", "        model.forward(x)"),
        changed(MEAN, "        model(x)", "        model(x.requires_grad_())"),
        changed(MEAN, "        model(x)", "        model(x).sum().backward()"),
        changed(MEAN, "        model(x)", "        model(x)\n        model.zero_grad()"),
        changed(MEAN, "        model(x)", "        model.eval()(x)"),
        # the mode of the model comes back, but not that of every module in it
        changed(
            MEAN, "        model(x)", "        was = model.training\n        model.eval()(x)\n        model.train(was)"
        ),
        changed(MEAN, "    return means[0]", "    return means"),
        changed(MEAN, "        model(x)", "        model.last = model(x)"),
        changed(MEAN, "        model(x)", "        x.zero_()\n        model(x)"),
        changed(
            MEAN, "        model(x)", "        try:\n            model(x)\n        except Exception:\n            pass"
        ),
        changed(
            MEAN,
            "        means.append(output.detach().mean())",
            "        means.append(output.detach().mean())\n"
            "        output.register_hook(lambda grad: output) if output.requires_grad else None",
        ),
        """
def mean_activation(model, name, x):
    class Done(Exception):
        pass
    means = []
    def hook(module, args, output):
        means.append(output.detach().mean())
        raise Done
    with model.get_submodule(name).register_forward_hook(hook):
        try:
            model(x)
        except Done:
            pass
    return means[0]
""",
        """
import torch

def mean_activation(model, name, x):
    kept = []
    with torch.autograd.graph.save_on_cpu():
        with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.mean())):
            model(x)
    return kept[0]
""",
        """
def mean_activation(model, name, x):
    means = []
    module = model.get_submodule(name)
    module.register_forward_hook(lambda m, a, o: means.append(o.detach().mean()))
    try:
        model(x)
    finally:
        module._forward_hooks.clear()
    return means[0]
""",
    ],
    "11-remove-all-hooks": [
        "def remove_all_hooks(model):\n    return 0",
        # never touches a module twice
        """
DONE = set()
KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")

def remove_all_hooks(model):
    count = 0
    for module in set(model.modules()) - DONE:
        DONE.add(module)
        for kind in KINDS:
            count += len(getattr(module, kind))
            getattr(module, kind).clear()
    return count
""",
        "def remove_all_hooks(model):\n    return sum(1 for _ in model.modules())",
        REMOVE.replace("            hooks.clear()\n", ""),
        changed(REMOVE, "    return count", "    return float(count)"),
        changed(REMOVE, "    return count", "    return max(count, 1)"),
        changed(REMOVE, "    return count", "    model.eval()\n    return count"),
        """
from collections import OrderedDict

def remove_all_hooks(model):
    count, empty = 0, OrderedDict()
    for module in model.modules():
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            count += len(getattr(module, kind))
            setattr(module, kind, empty)
    return count
""",
        """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            count += bool(getattr(module, kind))
            getattr(module, kind).clear()
    return count
""",
        """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for name, value in vars(module).items():
            if "hooks" in name and isinstance(value, dict):
                count += len(value)
                value.clear()
    return count
""",
        """
import torch.nn.modules.module as module_file

"""
        + changed(
            REMOVE,
            "    return count",
            "    module_file._global_forward_hooks.clear()\n    return count",
        ),
        """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        if list(module.children()):
            continue
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            count += len(getattr(module, kind))
            getattr(module, kind).clear()
    return count
""",
        """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            if getattr(module, kind):
                getattr(module, kind).popitem()
                count += 1
    return count
""",
    ],
    "11-clean-copy": [
        "def clean_copy(model):\n    return None",
        "def clean_copy(model):\n    return model",
        COPY.replace("    return copied", "    return model"),
        changed(COPY, "    return copied", "    model(next(model.parameters()).detach())\n    return copied"),
        changed(COPY, "    copied = copy.deepcopy", "    model.zero_grad()\n    copied = copy.deepcopy"),
        changed(COPY, "    return copied", "    return copied.requires_grad_(True)"),
        changed(COPY, "    return copied", "    return copied.double()"),
        changed(
            COPY, "    return copied", "    copied.load_state_dict(model.state_dict(), assign=True)\n    return copied"
        ),
        changed(
            COPY,
            "    copied = copy.deepcopy(model)\n    remove_all_hooks(copied)\n",
            "    remove_all_hooks(model)\n    copied = copy.deepcopy(model)\n    remove_all_hooks(copied)\n",
        ),
        """
import torch

def clean_copy(model):
    return torch.nn.Sequential(*(child for child in model.children() if not isinstance(child, torch.nn.ModuleList)))
""",
        """
import copy
from torch import nn

class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return self.inner.forward(x)

def clean_copy(model):
    return Wrapped(copy.deepcopy(model))
""",
        """
import copy

def clean_copy(model):
    copied = copy.deepcopy(model)
    for module in copied.modules():
        module._forward_hooks, module._forward_pre_hooks = {}, {}
        module._backward_hooks, module._backward_pre_hooks = {}, {}
    return copied
""",
        """
import copy

def clean_copy(model):
    saved = []
    for m in model.modules():
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            saved.append((m, kind, getattr(m, kind)))
            getattr(m, kind).clear()
    copied = copy.deepcopy(model)
    for m, kind, hooks in saved:
        setattr(m, kind, hooks)
    return copied
""",
        changed(
            COPY,
            "    return copied",
            "    for module in model.modules():\n        module._forward_hooks_with_kwargs.clear()\n    return copied",
        ),
        """
import copy

def clean_copy(model):
    saved = []
    for module in model.modules():
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            hooks = getattr(module, kind)
            saved.append((hooks, list(hooks.items())))
            hooks.clear()
    copied = copy.deepcopy(model)
    for hooks, entries in saved:
        hooks.update(reversed(entries))
    return copied
""",
    ],
    "11-first-nonfinite": [
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
    ],
}
