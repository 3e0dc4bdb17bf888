"""Answers to 05-capture-calls."""

RIGHT = [
    """
def capture_calls(model, name, x):
    calls = []
    def hook(module, args, output):
        calls.append(output.detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return calls
""",
    """
class Calls(list):
    def __call__(self, module, args, output):
        self.append(output.detach().clone())

def capture_calls(model, name, x):
    calls = Calls()
    handle = dict(model.named_modules())[name].register_forward_hook(calls)
    try:
        model(x)
    finally:
        handle.remove()
    return list(calls)
""",
    """
import torch

STORE = []

def capture_calls(model, name, x):
    STORE.clear()
    target = dict(model.named_modules(remove_duplicate=False))[name]
    handle = target.register_forward_hook(lambda m, a, o: STORE.append(o.detach().clone()))
    try:
        model(x)
    finally:
        handle.remove()
    return [entry for entry in STORE]
""",
    """
from torch.nn.modules.module import register_module_forward_hook

def capture_calls(model, name, x):
    target, calls = model.get_submodule(name), []
    hook = lambda m, a, o: calls.append(o.detach().clone()) if m is target else None
    with register_module_forward_hook(hook):
        model(x)
    return calls
""",
    """
class Calls(list):
    def __call__(self, m, a, o): self.append(o.detach().clone())
def capture_calls(model, name, x):
    calls = Calls()
    with model.get_submodule(name).register_forward_hook(calls):
        model(x)
    return calls
""",
]

WRONG = {
    "only-last-call": """
def capture_calls(model, name, x):
    kept = {}
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.update({name: o.detach().clone()})):
        model(x)
    return [kept[name]] if name in kept else []
""",
    "global-store": """
CALLS = []

def capture_calls(model, name, x):
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: CALLS.append(o.detach().clone())):
        model(x)
    return CALLS
""",
    "stored-alias": """
def capture_calls(model, name, x):
    calls = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(o.detach())):
        model(x)
    return calls
""",
    "registered-twice": """
def capture_calls(model, name, x):
    calls, target = [], model.get_submodule(name)
    handles = []
    for _, module in model.named_modules(remove_duplicate=False):
        if module is target:
            handles.append(module.register_forward_hook(lambda m, a, o: calls.append(o.detach().clone())))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return calls
""",
    "hook-left-behind": """
def capture_calls(model, name, x):
    calls = []
    model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(o.detach().clone()))
    model(x)
    return calls
""",
    "hook-left-after-exception": """
def capture_calls(model, name, x):
    calls = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(o.detach().clone()))
    model(x)
    handle.remove()
    return calls
""",
    "stored-the-input": """
def capture_calls(model, name, x):
    calls = []
    with model.get_submodule(name).register_forward_hook(
        lambda module, args, output: calls.append(args[0].detach().clone())
    ):
        model(x)
    return calls
""",
}

ALSO_WRONG = [
    "def capture_calls(model, name, x):\n    return []",
    """
def capture_calls(model, name, x):
    calls = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.insert(0, o.detach().clone())):
        model(x)
    return calls
""",
    """
def capture_calls(model, name, x):
    calls = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(a[0].detach().clone())):
        model(x)
    return calls
""",
    """
def capture_calls(model, name, x, calls=[]):
    calls.clear()
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(o.detach().clone())):
        model(x)
    return calls
""",
    """
import torch

def capture_calls(model, name, x):
    calls = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(o.detach().clone())):
        model(x)
    return torch.stack(calls) if calls else []
""",
    """
def capture_calls(model, name, x):
    calls = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(o.clone())):
        model(x)
    return calls
""",
    """
import torch

def capture_calls(model, name, x):
    found = []
    def hook(module, args, output):
        if not any(torch.equal(output, other) for other in found):
            found.append(output.detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return found
""",
    # Keeps the last call, and fails when there is none.
    """
def capture_calls(model, name, x):
    store = {}
    def hook(module, args, output):
        store["output"] = output.detach().clone()
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return [store["output"]]
""",
]
