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
            self.value = torch.tensor(output.tolist(), dtype=output.dtype)

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
    """
import io
from pathlib import Path
import torch

def save_activation(model, name, x, path):
    first = {}
    def hook(module, args, output):
        first.setdefault("output", output.detach().clone().to("cpu"))
    with torch.no_grad(), model.get_submodule(name).register_forward_hook(hook):
        model(x)
    buffer = io.BytesIO()
    torch.save(first["output"], buffer)
    Path(path).write_bytes(buffer.getvalue())
    return first["output"].size()
""",
]

WRONG = {
    "saved-with-grad": """
import torch

def save_activation(model, name, x, path):
    outs = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.clone())):
        model(x)
    torch.save(outs[0], path)
    return tuple(outs[0].shape)
""",
    "stored-alias": """
import torch

def save_activation(model, name, x, path):
    outs = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.detach())):
        model(x)
    torch.save(outs[0], path)
    return tuple(outs[0].shape)
""",
    "only-last-call": """
import torch

def save_activation(model, name, x, path):
    shape = []
    def hook(module, args, output):
        shape[:] = output.shape
        torch.save(output.detach().clone(), path)
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return tuple(shape)
""",
    "saved-the-whole-storage": """
import torch

def save_activation(model, name, x, path):
    shape = []
    def hook(module, args, output):
        if not shape:
            shape.extend(output.shape)
            torch.save(output.detach(), path)
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return tuple(shape)
""",
    "kept-the-old-file": """
import torch
from pathlib import Path

def save_activation(model, name, x, path):
    shape = []
    def hook(module, args, output):
        shape[:] = output.shape
        if not Path(path).exists():
            torch.save(output.detach().clone(), path)
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return tuple(shape)
""",
    "hook-left-behind": """
import torch

def save_activation(model, name, x, path):
    outs = []
    model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.detach().clone()))
    model(x)
    torch.save(outs[0], path)
    return tuple(outs[0].shape)
""",
    "hook-left-after-exception": """
import torch

def save_activation(model, name, x, path):
    outs = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.detach().clone()))
    model(x)
    handle.remove()
    torch.save(outs[0], path)
    return tuple(outs[0].shape)
""",
}

ALSO_WRONG = [
    "def save_activation(model, name, x, path):\n    return (2, 3)",
    """
import torch

def save_activation(model, name, x, path):
    shape = []
    def hook(module, args, output):
        shape[:] = output.shape
        torch.save(output, path)
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return tuple(shape)
""",
    """
import torch

def save_activation(model, name, x, path):
    outs = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.detach().clone())):
        model(x)
    torch.save(outs, path)
    return tuple(outs[0].shape)
""",
    """
import torch

def save_activation(model, name, x, path):
    outs = []
    def hook(m, a, o):
        if not outs:
            outs.append(o.shape)
            torch.save(o.detach().contiguous(), path)
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return tuple(outs[0])
""",
    """
import numpy as np

def save_activation(model, name, x, path):
    outs = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.detach().clone())):
        model(x)
    with open(path, "wb") as file:
        np.save(file, outs[0].numpy())
    return tuple(outs[0].shape)
""",
    """
import torch

def save_activation(model, name, x, path):
    outs = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.detach().clone())):
        model(x)
    torch.save(outs[0], path)
    return list(outs[0].shape)
""",
    """
import torch
from torch import nn

def save_activation(model, name, x, path):
    s = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: s.append(o.detach().clone())): model(x)
    torch.save(nn.Parameter(s[0], requires_grad=False), path)
    return tuple(s[0].shape)
""",
    # Another file than the one asked for.
    """
from pathlib import Path
import torch

def save_activation(model, name, x, path):
    outputs = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, output: outputs.append(output.detach().clone())):
        model(x)
    torch.save(outputs[0], Path(path).with_suffix(".pt"))
    return tuple(outputs[0].shape)
""",
    # Always saves float32.
    """
import torch

def save_activation(model, name, x, path):
    outputs = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, output: outputs.append(output.detach().clone())):
        model(x)
    torch.save(outputs[0].float(), path)
    return tuple(outputs[0].shape)
""",
]
