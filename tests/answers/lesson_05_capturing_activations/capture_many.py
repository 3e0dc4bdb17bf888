"""Answers to 05-capture-many."""

RIGHT = [
    """
def capture_many(model, names, x):
    found, handles = {}, []
    try:
        for name in names:
            def hook(module, args, output, name=name):
                found[name] = output.detach().clone()
            handles.append(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    """
from contextlib import ExitStack
from functools import partial

def capture_many(model, names, x):
    found = {}
    def keep(name, module, args, output):
        found[name] = output.detach().clone()
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if name in names:
                stack.enter_context(module.register_forward_hook(partial(keep, name)))
        model(x)
    return found
""",
    """
import torch

def capture_many(model, names, x):
    name_of = {model.get_submodule(name): name for name in names}
    found = {}
    def hook(module, args, output):
        found.update({name_of[module]: output.clone()})
    handles = [module.register_forward_hook(hook) for module in name_of]
    try:
        with torch.no_grad():
            model(x)
    finally:
        [handle.remove() for handle in handles]
    return found
""",
    """
def capture_many(model, names, x):
    order, found = [], {}
    def make(name):
        return lambda m, a, out: (order.append(name), found.__setitem__(name, out.detach().clone()))[2:] or None
    handles = [model.get_submodule(n).register_forward_hook(make(n)) for n in names]
    try:
        model(x)
    finally:
        for h in handles:
            h.remove()
    return {name: found[name] for name in order}
""",
    """
from torch import nn

def capture_many(model, names, x):
    wanted = {m: n for n, m in model.named_modules() if n in set(names)}
    out = {}
    def spy(m, a, o):
        if m in wanted: out[wanted[m]] = o.detach().clone()
    with nn.modules.module.register_module_forward_hook(spy):
        model(x)
    return out
""",
]

WRONG = {
    "late-binding": """
def capture_many(model, names, x):
    found, handles = {}, []
    for name in names:
        module = model.get_submodule(name)
        handles.append(module.register_forward_hook(lambda m, a, o: found.update({name: o.detach().clone()})))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    "repr-keys": """
def capture_many(model, names, x):
    found, handles = {}, []
    def hook(module, args, output):
        found[repr(module)] = output.detach().clone()
    for name in names:
        handles.append(model.get_submodule(name).register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return {name: found[repr(model.get_submodule(name))] for name in names}
""",
    "hook-left-behind": """
def capture_many(model, names, x):
    found = {}
    for name in names:
        def hook(module, args, output, name=name):
            found[name] = output.detach().clone()
        model.get_submodule(name).register_forward_hook(hook)
    model(x)
    return found
""",
    "hook-left-after-exception": """
def capture_many(model, names, x):
    found, handles = {}, []
    for name in names:
        def hook(module, args, output, name=name):
            found[name] = output.detach().clone()
        handles.append(model.get_submodule(name).register_forward_hook(hook))
    model(x)
    for handle in handles:
        handle.remove()
    return found
""",
    "stored-alias": """
from contextlib import ExitStack

def capture_many(model, names, x):
    found = {}
    with ExitStack() as stack:
        for name in names:
            def hook(module, args, output, name=name):
                found[name] = output.detach()
            stack.enter_context(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    return found
""",
    "one-run-per-name": """
def capture_many(model, names, x):
    found = {}
    for name in names:
        def hook(module, args, output, name=name):
            found[name] = output.detach().clone()
        with model.get_submodule(name).register_forward_hook(hook):
            model(x)
    return found
""",
    "given-order": """
from contextlib import ExitStack

def capture_many(model, names, x):
    found = {name: None for name in names}
    with ExitStack() as stack:
        for name in names:
            def hook(module, args, output, name=name):
                found[name] = output.detach().clone()
            stack.enter_context(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    return found
""",
    "definition-order": """
from contextlib import ExitStack

def capture_many(model, names, x):
    found = {}
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if name in names:
                found[name] = []
                stack.enter_context(module.register_forward_hook(
                    lambda m, a, o, name=name: found[name].append(o.detach().clone())))
        model(x)
    return {name: entries[0] for name, entries in found.items()}
""",
}

ALSO_WRONG = [
    "def capture_many(model, names, x):\n    return {}",
    """
def capture_many(model, names, x):
    found, handles = {}, []
    for name, module in model.named_modules():
        def hook(module, args, output, name=name):
            found[name] = output.detach().clone()
        handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    """
def capture_many(model, names, x):
    found, handles = {}, []
    for name in names:
        def hook(module, args, output, name=name):
            found[name] = output.clone()
        handles.append(model.get_submodule(name).register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    """
def capture_many(model, names, x):
    found = {}
    handles = [m.register_forward_hook(lambda m, a, o: found.update({type(m).__name__: o.detach().clone()}))
               for m in model.modules()]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
]
