"""Answers to 05-capture-calls."""

RIGHT = [
    """
class Calls(list):
    def __call__(self, module, args, output):
        self.append(output.detach().clone())

def capture_calls(model, name, x):
    calls = Calls()
    with model.get_submodule(name).register_forward_hook(calls):
        model(x)
    return calls
""",
    """
class Calls(list):
    def __call__(self, module, args, output):
        self.append(output.detach().clone())

def capture_calls(model, name, x):
    calls = Calls()
    handle = model.get_submodule(name).register_forward_hook(calls)
    try:
        model(x)
    finally:
        handle.remove()
    return list(calls)
""",
    """
import torch

def capture_calls(model, name, x):
    store = []
    target = dict(model.named_modules(remove_duplicate=False))[name]
    handle = target.register_forward_hook(lambda m, a, o: store.append(torch.clone(o).detach_()))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    return [entry for entry in store]
""",
]


SURVIVORS = {
    "lost copy: return _not_copied(calls)": "the list is new in each call of the function",
}
