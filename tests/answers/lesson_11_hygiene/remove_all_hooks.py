"""Answers to 11-remove-all-hooks."""

from .shared import REMOVE, changed

RIGHT = [
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
]

WRONG = {
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
}

ALSO_WRONG = [
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
]
