"""Answers to 09-conv-maps."""

CONV_MAPS = """
import torch
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    try:
        for name, module in MODULES:
            if CHOSEN:
                def hook(module, args, output, name=name):
                    maps[name] = STORED
                handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return RESULT
"""


def conv_maps(
    modules: str = "model.named_modules()",
    chosen: str = "isinstance(module, nn.Conv2d)",
    stored: str = "output.detach().clone()",
    result: str = "maps",
) -> str:
    """An answer that differs from a right one in one place."""
    source = CONV_MAPS.replace("MODULES", modules).replace("CHOSEN", chosen)
    return source.replace("STORED", stored).replace("RESULT", result)


RIGHT = [
    """
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):
                def hook(module, args, output, name=name):
                    maps[name] = output.detach().clone()
                handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return maps
""",
    """
from contextlib import ExitStack
from functools import partial
import torch

def keep(maps, name, module, args, output):
    maps.update({name: output.clone().detach()})

def conv_maps(model, x):
    maps = {}
    with ExitStack() as stack, torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Conv2d):
                stack.enter_context(module.register_forward_hook(partial(keep, maps, name)))
        model(x)
    return maps
""",
    """
import torch

class Store:
    def __init__(self, model):
        self.names = {m: n for n, m in model.named_modules() if isinstance(m, torch.nn.Conv2d)}
        self.maps = {}
    def __call__(self, module, args, output):
        if module in self.names:
            self.maps[self.names[module]] = torch.empty_like(output.data).copy_(output.data)

def conv_maps(model, x):
    store = Store(model)
    handle = torch.nn.modules.module.register_module_forward_hook(store)
    try:
        with torch.inference_mode():
            model(x)
    finally:
        handle.remove()
    return store.maps
""",
    """
from torch import nn

def conv_maps(model, x):
    maps, wrapped = {}, []

    def wrap(name, module):
        original = module.forward
        def forward(*args, **kwargs):
            output = original(*args, **kwargs)
            maps[name] = output.detach().clone()
            return output
        module.forward = forward
        wrapped.append(module)

    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):
                wrap(name, module)
        model(x)
    finally:
        for module in wrapped:
            del module.forward
    return maps
""",
]

WRONG = {
    "only-sequential-recursed": """
from torch import nn

def walk(module, prefix=""):
    found = []
    for name, child in module.named_children():
        if isinstance(child, nn.Conv2d):
            found.append((prefix + name, child))
        elif type(child) is nn.Sequential:
            found += walk(child, prefix + name + ".")
    return found
"""
    + conv_maps(modules="walk(model)"),
    "late-binding": """
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    convolutions = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Conv2d)]
    try:
        for name, module in convolutions:
            handles.append(module.register_forward_hook(lambda m, a, o: maps.update({name: o.detach().clone()})))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return maps
""",
    "stored-alias": conv_maps(stored="output.detach()"),
    "definition-order": conv_maps(result="{n: maps[n] for n, m in model.named_modules() if n in maps}"),
    "subclass-missed": conv_maps(chosen="type(module) is nn.Conv2d"),
    "other-convolutions": conv_maps(chosen="'Conv' in type(module).__name__"),
    "hook-left-behind": """
from torch import nn

def conv_maps(model, x):
    maps = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda m, a, o, name=name: maps.update({name: o.detach().clone()}))
    model(x)
    return maps
""",
    "hook-left-after-exception": """
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            def hook(module, args, output, name=name):
                maps[name] = output.detach().clone()
            handles.append(module.register_forward_hook(hook))
    model(x)
    for handle in handles:
        handle.remove()
    return maps
""",
}

ALSO_WRONG = [
    conv_maps(stored="args[0].detach().clone()"),
    conv_maps(stored="output.clone()"),
    conv_maps(stored="output.detach().clone()[0]"),
    conv_maps(stored="output.detach().clone().numpy()"),
    conv_maps(result="{n: m for n, m in sorted(maps.items())}"),
    conv_maps().replace("    try:", "    model.eval()\n    try:"),
    conv_maps().replace("        model(x)", "        model(x)\n        model(x)"),
    conv_maps()
    .replace("        for handle in handles:\n            handle.remove()", "        pass")
    .replace("return maps", "[m._forward_hooks.clear() for m in model.modules()]\n    return maps"),
    "def conv_maps(model, x):\n    model(x)\n    return {}",
    "def conv_maps(model, x):\n    model(x)",
    # Each hook removes itself, when it comes to that. Freezes the model. Clears gradients. Computes what a plain
    # convolution would give.
    *(
        f"""
import torch.nn.functional as F
from torch import nn

def conv_maps(model, x):
    maps, handles = {{}}, {{}}
    {before}
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            def hook(module, args, output, name=name):
                maps[name] = {kept}.detach().clone()
                {inside}
            handles[name] = module.register_forward_hook(hook)
    try:
        model(x)
    finally:
        {after}
    return maps
"""
        for before, kept, inside, after in (
            ("pass", "output", "handles[name].remove()", "pass"),
            ("model.requires_grad_(False)", "output", "pass", "[one.remove() for one in handles.values()]"),
            ("model.zero_grad()", "output", "pass", "[one.remove() for one in handles.values()]"),
            (
                "pass",
                "F.conv2d(args[0], module.weight, module.bias, module.stride, module.padding)",
                "pass",
                "[one.remove() for one in handles.values()]",
            ),
        )
    ),
]
