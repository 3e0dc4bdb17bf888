"""Answers to 05-save-activation."""

RIGHT = [
    """
import torch

def save_activation(model, name, x, path):
    calls = []
    def hook(module, args, output):
        if not calls:
            calls.append(output.detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    torch.save(calls[0], path)
    return tuple(calls[0].shape)
""",
    """
import torch

def save_activation(model, name, x, path):
    shape = []
    def hook(module, args, output):
        handle.remove()
        torch.save(output.detach().clone().cpu(), path)
        shape.extend(output.shape)
    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        model(x)
    finally:
        handle.remove()
    return tuple(shape)
""",
    """
import torch
from pathlib import Path

class First:
    value = None
    def __call__(self, module, args, output):
        if self.value is None:
            self.value = torch.tensor(output.tolist(), dtype=output.dtype).reshape(output.shape)

def save_activation(model, name, x, path):
    first = First()
    handle = model.get_submodule(name).register_forward_hook(first)
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    with Path(path).open("wb") as file:
        torch.save(first.value, file)
    return first.value.shape
""",
    """
import torch

def save_activation(model, name, x, path):
    outs = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.detach().cpu().clone()))
    try:
        model(x)
    finally:
        handle.remove()
    torch.save(outs[0], str(path))
    return tuple(outs[0].size())
""",
    """
import torch

def save_activation(model, name, x, path):
    got = []
    m = model.get_submodule(name)
    def hook(m, a, o):
        handle.remove()
        got.append(torch.tensor(o.detach().numpy().copy()))
    handle = m.register_forward_hook(hook)
    try: model(x)
    finally: handle.remove()
    torch.save(got[0], path, _use_new_zipfile_serialization=True)
    return tuple(got[0].size())
""",
]

SURVIVORS = {
    "condition dropped: calls.append(": "only the first entry is read",
    "lost copy: got.append(torch.tensor(_not_copied(": "`torch.tensor` copies",
    "lost statement: without handle.remove()": "the other `remove()` takes the hook away",
    "almost: torch.save(got[0], path, _use_new_zipfile_serialization=": "`torch.load` reads both formats",
    "a hook that works at times: … _only_the_first_call": "only the first call counts",
}
