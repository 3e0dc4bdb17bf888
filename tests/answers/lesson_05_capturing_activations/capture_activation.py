"""Answers to 05-capture-activation."""

RIGHT = [
    """
def capture_activation(model, name, x):
    kept = []
    def hook(module, args, output):
        kept.append(output.detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return kept[0]
""",
    """
from functools import partial
import torch

def keep(found, module, args, output):
    found["value"] = output.clone().detach()

def capture_activation(model, name, x):
    found = {}
    handle = dict(model.named_modules())[name].register_forward_hook(partial(keep, found))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    return found["value"]
""",
    """
import torch

class Keeper:
    def __call__(self, module, args, output):
        with torch.no_grad():
            self.value = torch.empty_like(output).copy_(output)

def capture_activation(model, name, x):
    module, keeper = model, Keeper()
    for part in name.split("."):
        module = getattr(module, part)
    handle = module.register_forward_hook(keeper, always_call=True)
    try:
        model(x)
    finally:
        handle.remove()
    return keeper.value
""",
    """
from torch.nn.modules.module import register_module_forward_hook

def capture_activation(model, name, x):
    target, kept = model.get_submodule(name), {}
    def hook(module, args, output):
        if module is target:
            kept["it"] = output.detach().clone()
    with register_module_forward_hook(hook):
        model(x)
    return kept["it"]
""",
    """
def capture_activation(model, name, x):
    module, kept = model.get_submodule(name), []
    original = module.forward
    def wrapped(*args, **kwargs):
        output = original(*args, **kwargs)
        kept.append(output.detach().clone())
        return output
    module.forward = wrapped
    try:
        model(x)
    finally:
        del module.forward
    return kept[0]
""",
    """
def capture_activation(model, name, x):
    m = model.get_submodule(name)
    original = m.forward
    seen = []
    def wrapped(*a, **k):
        o = original(*a, **k)
        seen.append(o.detach().clone())
        return o
    m.forward = wrapped
    try:
        model(x)
    finally:
        del m.forward
    return seen[0]
""",
    """
import torch

@torch.inference_mode()
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.clone())):
        model(x)
    return kept[0]
""",
]

WRONG = {
    "stored-alias": """
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach())):
        model(x)
    return kept[0]
""",
    "stored-the-input": """
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(a[0].detach().clone())):
        model(x)
    return kept[0]
""",
    "skipped-the-model": """
def capture_activation(model, name, x):
    return model.get_submodule(name)(x).detach().clone()
""",
    "hook-left-behind": """
def capture_activation(model, name, x):
    kept = []
    model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone()))
    model(x)
    return kept[0]
""",
    "hook-left-after-exception": """
def capture_activation(model, name, x):
    kept = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone()))
    model(x)
    handle.remove()
    return kept[0]
""",
    "changed-the-mode": """
def capture_activation(model, name, x):
    kept = []
    model.eval()
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
        model(x)
    return kept[0]
""",
}

ALSO_WRONG = [
    "def capture_activation(model, name, x):\n    return None",
    "def capture_activation(model, name, x):\n    return model(x).detach()",
    """
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.clone())):
        model(x)
    return kept[0]
""",
    """
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
        model(x)
    model(x)
    return kept[0]
""",
    """
def capture_activation(model, name, x):
    kept, module = [], model.get_submodule(name)
    module.register_forward_hook(lambda m, a, o: kept.append(o.detach().clone()))
    try:
        model(x)
    finally:
        module._forward_hooks.clear()
    return kept[0]
""",
    """
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
        try:
            model(x)
        except Exception:
            pass
    return kept[0]
""",
    """
class Stop(Exception):
    pass

def capture_activation(model, name, x):
    kept = []
    def hook(module, args, output):
        kept.append(output.detach().clone())
        raise Stop
    with model.get_submodule(name).register_forward_hook(hook):
        try:
            model(x)
        except Stop:
            pass
    return kept[0]
""",
    """
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
        model(x).sum().backward()
    return kept[0]
""",
    """
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
        model.forward(x)
    return kept[0]
""",
    """
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone().float())):
        model(x)
    return kept
""",
    """
def capture_activation(model, name, x):
    d = []
    def once(m, a, o):
        d.append(o.detach().clone()); h.remove()
    h = model.get_submodule(name).register_forward_hook(once)
    model(x)
    return d[0]
""",
]
