"""Answers to 06-ablate-channels."""

RIGHT = [
    """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    """
import torch

def ablate_channels(model, name, channels, x):
    layer = dict(model.named_modules())[name]
    def hook(module, args, output):
        mask = torch.ones(output.shape[1])
        for channel in channels:
            mask[channel] = 0
        return output * mask.reshape(1, -1, *[1] * (output.dim() - 2))
    handle = layer.register_forward_hook(hook)
    try:
        with torch.no_grad():
            return model(x)
    finally:
        handle.remove()
""",
    """
import torch
from torch.nn.modules.module import register_module_forward_hook

class Ablation:
    def __init__(self, layer, channels):
        self.layer, self.channels = layer, channels
    def __enter__(self):
        self.handle = register_module_forward_hook(self)
        return self
    def __exit__(self, *error):
        self.handle.remove()
    def __call__(self, module, args, output):
        if module is not self.layer:
            return None
        parts = list(output.unbind(1))
        for channel in self.channels:
            parts[channel] = 0 * parts[channel]
        return torch.stack(parts, 1)

def ablate_channels(model, name, channels, x):
    with Ablation(model.get_submodule(name), channels):
        y = model(x)
    return y.detach().clone()
""",
    """
def ablate_channels(model, name, channels, x):
    layer = model.get_submodule(name)
    plain = layer.forward
    def forward(*args, **kwargs):
        output = plain(*args, **kwargs).clone()
        for channel in channels:
            output[:, channel] = 0
        return output
    layer.forward = forward
    try:
        return model(x).detach()
    finally:
        del layer.forward
""",
    """
import torch

class Wrapped(torch.nn.Module):
    def __init__(self, inner, channels):
        super().__init__()
        self.inner, self.channels = inner, channels
    def forward(self, *args, **kwargs):
        output = self.inner(*args, **kwargs).clone()
        output[:, self.channels] = 0
        return output

def ablate_channels(model, name, channels, x):
    *path, last = name.split(".")
    parent = model.get_submodule(".".join(path))
    inner = getattr(parent, last)
    setattr(parent, last, Wrapped(inner, channels))
    try:
        with torch.inference_mode():
            return model(x)
    finally:
        setattr(parent, last, inner)
""",
    """
def ablate_channels(model, name, channels, x):
    m = model.get_submodule(name)
    plain = m.forward
    def forward(*a, **k):
        out = plain(*a, **k).clone()
        for c in channels: out.select(1, c).zero_()
        return out
    m.forward = forward
    try:
        return model(x).data
    finally:
        del m.forward
""",
    """
import copy

def ablate_channels(model, name, channels, x):
    model = copy.deepcopy(model)

    def hook(m, a, o):
        o = o.clone()
        for c in channels:
            o.select(1, c).zero_()
        return o

    model.get_submodule(name).register_forward_hook(hook)
    return model(x).detach()
""",
    """
import torch
from torch import nn

class Off(nn.Module):
    def __init__(self, m, c):
        super().__init__()
        self.m, self.c = m, c

    def forward(self, *a):
        o = self.m(*a).clone()
        o[:, self.c] = 0
        return o

def ablate_channels(model, name, channels, x):
    parent, _, last = name.rpartition(".")
    parent = model.get_submodule(parent)
    old = getattr(parent, last)
    setattr(parent, last, Off(old, channels))
    try:
        with torch.no_grad():
            return model(x)
    finally:
        setattr(parent, last, old)
""",
]

WRONG = {
    "forgot-return": """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    "edited-weights": """
import torch

def ablate_channels(model, name, channels, x):
    layer = model.get_submodule(name)
    with torch.no_grad():
        layer.weight[channels] = 0
        layer.bias[channels] = 0
        return model(x)
""",
    "changed-the-input": """
def ablate_channels(model, name, channels, x):
    def hook(module, args):
        first = args[0].clone()
        first[:, channels] = 0
        return (first, *args[1:])
    with model.get_submodule(name).register_forward_pre_hook(hook):
        return model(x).detach()
""",
    "wrong-axis": """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[channels] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    "four-dimensions-only": """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels, :, :] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    "changed-callers-tensor": """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output[:, channels] = 0
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    "hook-left-behind": """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    model.get_submodule(name).register_forward_hook(hook)
    return model(x).detach()
""",
    "hook-left-after-exception": """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    handle = model.get_submodule(name).register_forward_hook(hook)
    y = model(x).detach()
    handle.remove()
    return y
""",
}

ALSO_WRONG = [
    "def ablate_channels(model, name, channels, x):\n    return model(x).detach()",
    # removes every hook of the layer, the caller's too
    """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    layer = model.get_submodule(name)
    layer.register_forward_hook(hook)
    try:
        return model(x).detach()
    finally:
        layer._forward_hooks.clear()
""",
    # keeps only the listed channels
    """
import torch
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        kept = torch.zeros_like(output)
        kept[:, channels] = output[:, channels]
        return kept
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    # not detached
    """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x)
""",
    # leaves the model in eval mode
    """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    was_training = model.training
    model.eval()
    with model.get_submodule(name).register_forward_hook(hook):
        y = model(x).detach()
    model.train()
    return y
""",
    # the output of the submodule
    """
def ablate_channels(model, name, channels, x):
    seen = []
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        seen.append(output.detach())
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return seen[0]
""",
    # swallows the exception
    """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    handle = model.get_submodule(name).register_forward_hook(hook)
    y = None
    try:
        y = model(x).detach()
    except Exception:
        pass
    handle.remove()
    return y
""",
    # the last dimension
    """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[..., channels] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    # an empty list becomes "all"
    """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels or slice(None)] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    # the patched forward stays
    """
def ablate_channels(model, name, channels, x):
    layer = model.get_submodule(name)
    plain = layer.forward
    def forward(*args):
        output = plain(*args).clone()
        output[:, channels] = 0
        return output
    layer.forward = forward
    return model(x).detach()
""",
    # only the first channel of the list
    """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels[:1]] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    # Sets rows of the weights to 0.
    """
import torch

def ablate_channels(model, name, channels, x):
    module = model.get_submodule(name)
    with torch.no_grad():
        for p in module.parameters():
            p[channels] = 0
        return model(x)
""",
    # Switches off channels of the model's input.
    """
def ablate_channels(model, name, channels, x):
    x = x.clone()
    x[:, [c for c in channels if c < x.shape[1]]] = 0
    return model(x).detach()
""",
    # The parameters no longer require grad.
    """
def ablate_channels(model, name, channels, x):
    def hook(m, a, o):
        z = o.clone()
        z[:, channels] = 0
        return z
    model.requires_grad_(False)
    with model.get_submodule(name).register_forward_hook(hook): return model(x).detach()
""",
    # Leaves gradient tracking switched off.
    """
import torch

def ablate_channels(model, name, channels, x):
    def hook(m, a, o):
        z = o.clone()
        z[:, channels] = 0
        return z
    torch.set_grad_enabled(False)
    with model.get_submodule(name).register_forward_hook(hook): return model(x)
""",
    """
import torch

def ablate_channels(model, name, channels, x):
    def hook(m, a, o):
        o = o.clone()
        o[:, channels] = 0
        return o

    with model.get_submodule(name).register_forward_hook(hook):
        torch.set_grad_enabled(False)
        out = model(x)
        torch.set_grad_enabled(True)
        return out
""",
    """
import torch

def ablate_channels(model, name, channels, x):
    model.zero_grad()

    def hook(m, a, o):
        o = o.clone()
        o[:, channels] = 0
        return o

    with model.get_submodule(name).register_forward_hook(hook), torch.no_grad():
        return model(x)
""",
    """
import torch

def ablate_channels(model, name, channels, x):
    def hook(m, a, o):
        o = o.clone()
        while channels:
            o[:, channels.pop()] = 0
        return o

    with model.get_submodule(name).register_forward_hook(hook), torch.no_grad():
        return model(x)
""",
    """
import torch

def ablate_channels(model, name, channels, x):
    x.requires_grad_(False)

    def hook(m, a, o):
        o = o.clone()
        o[:, channels] = 0
        return o

    with model.get_submodule(name).register_forward_hook(hook), torch.no_grad():
        return model(x)
""",
    """
import torch
from torch import nn

class Off(nn.Module):
    def __init__(self, m, c):
        super().__init__()
        self.m, self.c = m, c

    def forward(self, *a):
        o = self.m(*a).clone()
        o[:, self.c] = 0
        return o

def ablate_channels(model, name, channels, x):
    parent, _, last = name.rpartition(".")
    parent = model.get_submodule(parent)
    old = getattr(parent, last)
    setattr(parent, last, Off(old, channels))
    with torch.no_grad():
        out = model(x)
    setattr(parent, last, old)
    return out
""",
]
