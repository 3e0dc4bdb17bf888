"""Answers to the exercises of lesson 6."""

RIGHT = {
    "06-scale-output": [
        """
def scale_output(module, s):
    return module.register_forward_hook(lambda module, args, output: output * s)
""",
        """
from functools import partial

def times(s, module, args, output):
    return output.clone().mul_(s)

def scale_output(module, s):
    return module.register_forward_hook(partial(times, s))
""",
        """
import torch

class Scale:
    def __init__(self, s):
        self.s = s
    def __call__(self, module, args, kwargs, output):
        return torch.mul(output, torch.full_like(output, self.s))

def scale_output(module, s):
    handle = module.register_forward_hook(Scale(s), with_kwargs=True, prepend=True)
    return handle
""",
        """
from torch.nn.modules.module import register_module_forward_hook

def scale_output(target, s):
    def hook(module, args, output):
        if module is target:
            return s * output
    return register_module_forward_hook(hook)
""",
        """
import torch

class Mul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * s
    @staticmethod
    def backward(ctx, g): return g * ctx.s, None
def scale_output(module, s): return module.register_forward_hook(lambda m, a, o: Mul.apply(o, s))
""",
        """
import torch

class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, o, s):
        ctx.s = s
        return o * s

    @staticmethod
    def backward(ctx, g):
        return g * ctx.s, None

def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: Times.apply(o, s))
""",
    ],
    "06-normalize-input": [
        """
def normalize_input(module, mean, std):
    def hook(module, args):
        return ((args[0] - mean) / std, *args[1:])
    return module.register_forward_pre_hook(hook)
""",
        """
def normalize_input(module, mean, std):
    def hook(module, args, kwargs):
        first, *rest = args
        return (first.sub(mean).div(std),) + tuple(rest), kwargs
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
        """
class Normalise:
    def __init__(self, mean, std):
        self.mean = mean
        self.std = std
    def __call__(self, module, args):
        new = list(args)
        new[0] = args[0].clone().sub_(self.mean).div_(self.std)
        return tuple(new)

def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(Normalise(mean, std), prepend=True)
""",
        """
def normalize_input(module, mean, std):
    def pre(_m, args):
        if len(args) == 1:
            return (args[0] - mean) / std
        return tuple((v - mean) / std if i == 0 else v for i, v in enumerate(args))

    return module.register_forward_pre_hook(pre)
""",
    ],
    "06-force-kwargs": [
        """
def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        return args, {**kwargs, **kw}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
        """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: kwargs.update(kw), with_kwargs=True)
""",
        """
class Force:
    def __init__(self, kw):
        self.kw = kw
    def __call__(self, module, args, kwargs):
        merged = dict(kwargs)
        for name, value in self.kw.items():
            merged[name] = value
        return (args, merged)

def force_kwargs(module, **kw):
    handle = module.register_forward_pre_hook(Force(dict(kw)), with_kwargs=True)
    return handle
""",
        """
from functools import partial

def merge(kw, module, args, kwargs):
    return args, kwargs | kw

def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(partial(merge, kw), prepend=True, with_kwargs=True)
""",
        """
def force_kwargs(module, **kw):
    def hook(m, args, kwargs): kwargs.update(kw)
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
        """
from typing import NamedTuple
class Call(NamedTuple):
    args: tuple
    kwargs: dict
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, a, k: Call(a, dict(k, **kw)), with_kwargs=True)
""",
        """
def force_kwargs(module, **kw):
    def pre(m, args, kwargs):
        kwargs.update(kw)

    return module.register_forward_pre_hook(pre, with_kwargs=True)
""",
        """
import collections

def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(
        lambda m, a, k: (a, collections.ChainMap(kw, k)), with_kwargs=True
    )
""",
    ],
    "06-run-first": [
        """
def run_first(module, hook):
    return module.register_forward_hook(hook, prepend=True)
""",
        """
def run_first(module, hook):
    def first(module, args, kwargs, output):
        return hook(module, args, output)
    return module.register_forward_hook(first, prepend=True, with_kwargs=True)
""",
        """
def run_first(module, hook):
    handle = module.register_forward_hook(lambda *given: hook(*given))
    module._forward_hooks.move_to_end(handle.id, last=False)
    return handle
""",
        """
def run_first(module, hook):
    handle = module.register_forward_hook(hook)
    module._forward_hooks.move_to_end(handle.id, last=False)
    return handle
""",
        """
def run_first(module, hook):
    handle = module.register_forward_hook(hook)
    module._forward_hooks.move_to_end(handle.id, last=False)
    return handle
""",
    ],
    "06-ablate-channels": [
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
    ],
    "06-patch-activation": [
        """
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    kept = {}
    def keep(module, args, output):
        kept["clean"] = output.detach().clone()
    def patch(module, args, output):
        if channels is None:
            return kept["clean"]
        output = output.clone()
        output[:, channels] = kept["clean"][:, channels]
        return output
    with layer.register_forward_hook(keep):
        model(clean)
    with layer.register_forward_hook(patch):
        return model(corrupt).detach()
""",
        """
import torch

def patch_activation(model, name, clean, corrupt, channels=None):
    layer, state = model.get_submodule(name), []
    def hook(module, args, output):
        if not state:
            state.append(output.clone())
            return None
        mask = torch.zeros(output.shape[1], dtype=torch.bool)
        mask[list(range(output.shape[1])) if channels is None else channels] = True
        return torch.where(mask.reshape(-1, *[1] * (output.dim() - 2)), state[0], output)
    handle = layer.register_forward_hook(hook)
    try:
        with torch.no_grad():
            model(clean)
            return model(corrupt)
    finally:
        handle.remove()
""",
        """
from contextlib import contextmanager
from functools import partial
import torch

@contextmanager
def hooked(layer, hook):
    handle = layer.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()

def keep(store, module, args, output):
    store.append(output.detach().clone())

def patch(source, channels, module, args, output):
    mixed = output.clone()
    mixed.index_copy_(1, channels, source.index_select(1, channels))
    return mixed

def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    store = []
    with hooked(layer, partial(keep, store)), torch.no_grad():
        model(clean)
    count = store[0].shape[1]
    chosen = torch.tensor(list(range(count)) if channels is None else channels, dtype=torch.long)
    with hooked(layer, partial(patch, store[0], chosen)), torch.no_grad():
        result = model(corrupt)
    return result.clone()
""",
        """
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    plain = layer.forward
    store = []
    def keeping(*args):
        output = plain(*args)
        store.append(output.detach().clone())
        return output
    def patching(*args):
        output = plain(*args)
        if channels is None:
            return store[0].clone()
        output = output.clone()
        for channel in channels:
            output[:, channel] = store[0][:, channel]
        return output
    try:
        layer.forward = keeping
        model(clean)
        layer.forward = patching
        return model(corrupt).detach()
    finally:
        del layer.forward
""",
        """
import contextlib

class Stop(Exception):
    pass
def patch_activation(model, name, clean, corrupt, channels=None):
    module = model.get_submodule(name)
    saved = None
    def grab(m, a, o):
        nonlocal saved
        saved = o.detach().clone()
        raise Stop
    with module.register_forward_hook(grab), contextlib.suppress(Stop):
        model(clean)
    def put(m, a, o):
        new = o.detach().clone()
        new[:, slice(None) if channels is None else channels] = saved[:, slice(None) if channels is None else channels]
        return new
    with module.register_forward_hook(put):
        return model(corrupt).detach()
""",
        """
import torch

def patch_activation(model, name, clean, corrupt, channels=None):
    n = len(clean)
    def hook(m, a, o):
        o = o.clone()
        ch = list(range(o.shape[1])) if channels is None else channels
        o[n:, ch] = o[:n, ch]
        return o
    with model.get_submodule(name).register_forward_hook(hook):
        return model(torch.cat([clean, corrupt])).detach()[n:]
""",
        """
import torch

class Stop(Exception):
    pass

def patch_activation(model, name, clean, corrupt, channels=None):

    module = model.get_submodule(name)
    box = {}

    def grab(m, a, o):
        box["v"] = o.detach().clone()
        raise Stop

    with module.register_forward_hook(grab):
        try:
            model(clean)
        except Stop:
            pass

    def put(m, a, o):
        v = box["v"]
        if channels is not None:
            mask = torch.zeros(o.shape[1], dtype=torch.bool)
            mask[channels] = True
            v = torch.where(mask.reshape(1, -1, *[1] * (o.dim() - 2)), v, o)
        return v

    with module.register_forward_hook(put):
        return model(corrupt).detach()
""",
        """
import torch

def patch_activation(model, name, clean, corrupt, channels=None):

    module = model.get_submodule(name)
    old = module.forward
    kept = []

    def first(*a, **k):
        kept.append(old(*a, **k).clone())
        return kept[0].clone()

    def second(*a, **k):
        out = old(*a, **k).clone()
        c = slice(None) if channels is None else channels
        out[:, c] = kept[0][:, c]
        return out

    try:
        with torch.no_grad():
            module.forward = first
            model(clean)
            module.forward = second
            return model(corrupt)
    finally:
        module.__dict__.pop("forward", None)
""",
    ],
}

WRONG = {
    "06-scale-output": {
        "forgot-return": """
def scale_output(module, s):
    def hook(module, args, output):
        output = output * s
    return module.register_forward_hook(hook)
""",
        "in-place-output": """
def scale_output(module, s):
    def hook(module, args, output):
        output *= s
    return module.register_forward_hook(hook)
""",
        "data-edit": """
def scale_output(module, s):
    def hook(module, args, output):
        output.data.mul_(s)
    return module.register_forward_hook(hook)
""",
        "cut-the-graph": """
def scale_output(module, s):
    return module.register_forward_hook(lambda module, args, output: output.detach() * s)
""",
        "changed-the-input": """
def scale_output(module, s):
    return module.register_forward_pre_hook(lambda module, args: args[0] * s)
""",
        "no-handle": """
def scale_output(module, s):
    module.register_forward_hook(lambda module, args, output: output * s)
""",
    },
    "06-normalize-input": {
        "dropped-arguments": """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda module, args: (args[0] - mean) / std)
""",
        "changed-callers-tensor": """
def normalize_input(module, mean, std):
    def hook(module, args):
        args[0].sub_(mean).div_(std)
    return module.register_forward_pre_hook(hook)
""",
        "returned-a-list": """
def normalize_input(module, mean, std):
    def hook(module, args):
        args = list(args)
        args[0] = (args[0] - mean) / std
        return args
    return module.register_forward_pre_hook(hook)
""",
        "tuple-not-tensor": """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda module, x: (x - mean) / std)
""",
        "changed-the-output": """
def normalize_input(module, mean, std):
    return module.register_forward_hook(lambda module, args, output: (output - mean) / std)
""",
        "forgot-return": """
def normalize_input(module, mean, std):
    def hook(module, args):
        args = ((args[0] - mean) / std, *args[1:])
    return module.register_forward_pre_hook(hook)
""",
        "cut-the-graph": """
def normalize_input(module, mean, std):
    def hook(module, args):
        return ((args[0].detach() - mean) / std, *args[1:])
    return module.register_forward_pre_hook(hook)
""",
        "no-handle": """
def normalize_input(module, mean, std):
    def hook(module, args):
        return ((args[0] - mean) / std, *args[1:])
    module.register_forward_pre_hook(hook)
""",
    },
    "06-force-kwargs": {
        "wrong-return-shape": """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: {**kwargs, **kw}, with_kwargs=True)
""",
        "dropped-arguments": """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: (args, kw), with_kwargs=True)
""",
        "caller-wins": """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kw, **kwargs}), with_kwargs=True)
""",
        "no-with-kwargs": """
def force_kwargs(module, **kw):
    def hook(module, args, kwargs={}):
        kwargs = {**kwargs, **kw}
        return args
    return module.register_forward_pre_hook(hook)
""",
        "wrong-hook-kind": """
def force_kwargs(module, **kw):
    def hook(module, args, kwargs, output):
        return module.forward(*args, **{**kwargs, **kw})
    return module.register_forward_hook(hook, with_kwargs=True)
""",
        "hook-without-kwargs": """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args: (args, kw), with_kwargs=True)
""",
        "forgot-return": """
def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        kwargs = {**kwargs, **kw}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
        "remembered-keywords": """
def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        for name, value in kwargs.items():
            kw.setdefault(name, value)
        return args, kw
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
        "no-handle": """
def force_kwargs(module, **kw):
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, **kw}), with_kwargs=True)
""",
    },
    "06-run-first": {
        "registration-order": """
def run_first(module, hook):
    return module.register_forward_hook(hook)
""",
        "removed-others": """
def run_first(module, hook):
    module._forward_hooks.clear()
    return module.register_forward_hook(hook)
""",
        "wrong-hook-kind": """
def run_first(module, hook):
    return module.register_forward_pre_hook(hook, prepend=True)
""",
        "forgot-return": """
def run_first(module, hook):
    def first(module, args, output):
        hook(module, args, output)
    return module.register_forward_hook(first, prepend=True)
""",
        "no-handle": """
def run_first(module, hook):
    module.register_forward_hook(hook, prepend=True)
""",
    },
    "06-ablate-channels": {
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
    },
}

_PATCH = """
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    kept = {{}}
    def keep(module, args, output):
        kept["clean"] = {kept}
    def patch(module, args, output):
        if {all}:
            return kept["clean"]
        {copy}
        output[{index}] = kept["clean"][{index}]
        {end}
    with layer.register_forward_hook(keep):
        model({first})
    with layer.register_forward_hook(patch):
        return model({second}).detach()
"""


def _patch(**changed: str) -> str:
    """The usual answer with some of its parts changed."""
    parts = {
        "kept": "output.detach().clone()",
        "all": "channels is None",
        "copy": "output = output.clone()",
        "index": ":, channels",
        "end": "return output",
        "first": "clean",
        "second": "corrupt",
    }
    return _PATCH.format(**{**parts, **changed})


WRONG["06-patch-activation"] = {
    "forgot-return": _patch(all="False", end="pass", index=":, channels or []"),
    "swapped-runs": _patch(first="corrupt", second="clean"),
    "ignored-channels": _patch(all="True"),
    "empty-means-all": _patch(all="not channels"),
    "changed-the-input": """
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    kept = {}
    def keep(module, args):
        kept["clean"] = args[0].detach().clone()
    def patch(module, args):
        if channels is None:
            return (kept["clean"],)
        first = args[0].clone()
        first[:, channels] = kept["clean"][:, channels]
        return (first,)
    with layer.register_forward_pre_hook(keep):
        model(clean)
    with layer.register_forward_pre_hook(patch):
        return model(corrupt).detach()
""",
    "stored-the-input": _patch(kept="args[0].detach().clone()"),
    "stored-alias": _patch(kept="output.detach()"),
    "four-dimensions-only": _patch(index=":, channels, :, :"),
    "wrong-axis": _patch(index="channels"),
    "changed-callers-tensor": _patch(copy="pass"),
    "hook-left-behind": """
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    kept = []
    def keep(module, args, output):
        kept.append(output.detach().clone())
    def patch(module, args, output):
        if channels is None:
            return kept[0]
        output = output.clone()
        output[:, channels] = kept[0][:, channels]
        return output
    handle = layer.register_forward_hook(keep)
    model(clean)
    handle.remove()
    layer.register_forward_hook(patch)
    return model(corrupt).detach()
""",
    "hook-left-after-exception": """
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    kept = []
    def keep(module, args, output):
        kept.append(output.detach().clone())
    def patch(module, args, output):
        if channels is None:
            return kept[0]
        output = output.clone()
        output[:, channels] = kept[0][:, channels]
        return output
    handle = layer.register_forward_hook(keep)
    model(clean)
    handle.remove()
    handle = layer.register_forward_hook(patch)
    result = model(corrupt).detach()
    handle.remove()
    return result
""",
}

ALSO_WRONG = {
    "06-scale-output": [
        "def scale_output(module, s):\n    pass",
        # scales the gradient as well as the output: twice
        """
def scale_output(module, s):
    def hook(module, args, output):
        output = output * s
        output.register_hook(lambda grad: grad * s)
        return output
    return module.register_forward_hook(hook)
""",
        # the graph is cut by no_grad
        """
import torch
def scale_output(module, s):
    def hook(module, args, output):
        with torch.no_grad():
            return output * s
    return module.register_forward_hook(hook)
""",
        # the numbers are swapped under the tensor
        """
def scale_output(module, s):
    def hook(module, args, output):
        output.data = output.data * s
    return module.register_forward_hook(hook)
""",
        # only the first call
        """
def scale_output(module, s):
    done = []
    def hook(module, args, output):
        if not done:
            done.append(1)
            return output * s
    return module.register_forward_hook(hook)
""",
        # one factor for each module: the second call of scale_output replaces the first
        """
FACTORS = {}
def scale_output(module, s):
    first = module not in FACTORS
    FACTORS[module] = s
    if first:
        return module.register_forward_hook(lambda m, args, output: output * FACTORS[m])
    return module.register_forward_hook(lambda m, args, output: None)
""",
        # the weights
        """
import torch
def scale_output(module, s):
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(s)
    return module.register_forward_hook(lambda *_: None)
""",
        # a tuple, as a pre-hook would return
        """
def scale_output(module, s):
    return module.register_forward_hook(lambda module, args, output: (output * s,))
""",
        # Only in train mode.
        """
def scale_output(module, s): return module.register_forward_hook(lambda m, a, o: o * s if m.training else None)
""",
        # Switches the module to eval mode.
        """
def scale_output(module, s):
    module.eval()
    return module.register_forward_hook(lambda m, a, o: o * s)
""",
        """
import torch

def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: o * s if torch.is_grad_enabled() else o)
""",
        """
import torch

def scale_output(module, s):
    def hook(m, a, o):
        if torch.is_grad_enabled():
            return o * s
        return o.mul_(s)

    return module.register_forward_hook(hook)
""",
        """
def scale_output(module, s):
    hs = [m.register_forward_hook(lambda m, a, o: o * s) for m in module.modules()]
    return hs[0]
""",
        """
def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: (o * s).float())
""",
        """
import torch

def scale_output(module, s):
    k = {}

    def hook(m, a, o):
        k.setdefault("s", torch.full_like(o, s))
        return o * k["s"]

    return module.register_forward_hook(hook)
""",
    ],
    "06-normalize-input": [
        "def normalize_input(module, mean, std):\n    pass",
        # cannot assign into the tuple
        """
def normalize_input(module, mean, std):
    def hook(module, args):
        args[0] = (args[0] - mean) / std
        return args
    return module.register_forward_pre_hook(hook)
""",
        # normalises every argument
        """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: tuple((a - mean) / std for a in args))
""",
        # another formula
        """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: (args[0] - mean / std, *args[1:]))
""",
        # keywords dropped
        """
def normalize_input(module, mean, std):
    def hook(m, args, kwargs):
        return ((args[0] - mean) / std, *args[1:]), {}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
        # the graph misses the division
        """
import torch
def normalize_input(module, mean, std):
    def hook(module, args):
        a = args[0].clone()
        with torch.no_grad():
            a.sub_(mean).div_(std)
        return (a, *args[1:])
    return module.register_forward_pre_hook(hook)
""",
        # behind autograd's back, in the caller's tensor
        """
def normalize_input(module, mean, std):
    def hook(module, args):
        args[0].data.sub_(mean).div_(std)
    return module.register_forward_pre_hook(hook)
""",
        # statistics of the data instead of the given numbers
        """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: ((args[0] - args[0].mean()) / args[0].std(), *args[1:]))
""",
        # Cuts the graph of the other arguments.
        """
import torch

def normalize_input(module, mean, std):
    def hook(module, args):
        rest = [one.detach() if torch.is_tensor(one) else one for one in args[1:]]
        return ((args[0] - mean) / std, *rest)
    return module.register_forward_pre_hook(hook)
""",
        # Takes the tuple for a tensor.
        """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, x: x.sub(mean).div(std))
""",
        """
def normalize_input(module, mean, std):
    def pre(_m, args):
        if len(args) == 1:
            return ((args[0] - mean) / std,)
        return ((args[0] - mean) / std, args[1])

    return module.register_forward_pre_hook(pre)
""",
        """
import torch

def normalize_input(module, mean, std):
    def pre(m, args):
        if torch.is_grad_enabled():
            return ((args[0] - mean) / std, *args[1:])

    return module.register_forward_pre_hook(pre)
""",
        """
import torch

def normalize_input(module, mean, std):
    def pre(m, args):
        return ((args[0] - mean) / std, *[a for a in args[1:] if torch.is_tensor(a)])

    return module.register_forward_pre_hook(pre)
""",
    ],
    "06-force-kwargs": [
        "def force_kwargs(module, **kw):\n    pass",
        # without the flag, the hook is called with two arguments
        """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, **kw}))
""",
        # without the flag, a dict becomes a positional argument
        """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args: (*args, kw))
""",
        # the caller's keywords leak into later calls, and win
        """
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        kw.update(kwargs)
        return args, kw
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
        # only the first call
        """
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        handle.remove()
        return args, {**kwargs, **kw}
    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    return handle
""",
        # positional arguments lost
        """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: ((), {**kwargs, **kw}), with_kwargs=True)
""",
        # drops names that the caller did not pass
        """
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        return args, {name: kw.get(name, value) for name, value in kwargs.items()}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
        # drops what the caller passed under other names
        """
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        return args, {"x": kwargs["x"], **kw} if "x" in kwargs else dict(kw)
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
        # Loses the second positional argument.
        """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, a, k: (a[:1], {**k, **kw}), with_kwargs=True)
""",
        # Unpacks the arguments into the pair.
        """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, a, k: (*a, {**k, **kw}), with_kwargs=True)
""",
        """
import torch

def force_kwargs(module, **kw):
    kw = {k: v.detach() if torch.is_tensor(v) else v for k, v in kw.items()}
    return module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **kw}), with_kwargs=True)
""",
        """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(
        lambda m, a, k: (tuple(v.detach() for v in a), {**k, **kw}), with_kwargs=True
    )
""",
        """
import copy

def force_kwargs(module, **kw):
    kw = copy.deepcopy(kw)
    return module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **kw}), with_kwargs=True)
""",
        """
def force_kwargs(module, **kw):
    kw = {k: float(v) for k, v in kw.items()}
    return module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **kw}), with_kwargs=True)
""",
        """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(
        lambda m, a, k: (a, {**k, **{n: v for n, v in kw.items() if v}}), with_kwargs=True
    )
""",
    ],
    "06-run-first": [
        "def run_first(module, hook):\n    pass",
        # only before the first hook that was there, then in the old place
        """
def run_first(module, hook):
    others = list(module._forward_hooks.values())
    module._forward_hooks.clear()
    handle = module.register_forward_hook(hook)
    for other in others:
        module.register_forward_hook(other)
    return handle
""",
        # always last
        """
def run_first(module, hook):
    return module.register_forward_hook(hook, always_call=True)
""",
        # a hook that expects keywords
        """
def run_first(module, hook):
    return module.register_forward_hook(hook, prepend=True, with_kwargs=True)
""",
        # calls the hook once, now
        """
import torch
def run_first(module, hook):
    hook(module, (), torch.zeros(1))
    return module.register_forward_hook(hook, prepend=True)
""",
        # twice
        """
def run_first(module, hook):
    module.register_forward_hook(hook, prepend=True)
    return module.register_forward_hook(hook, prepend=True)
""",
        # Packs the arguments once more.
        """
def run_first(module, hook):
    return module.register_forward_hook(lambda m, a, o: hook(m, (a,), o), prepend=True)
""",
        # Detaches what the hook returns.
        """
def run_first(module, hook):
    return module.register_forward_hook(lambda m, a, o: hook(m, a, o).detach(), prepend=True)
""",
        """
import torch

def run_first(module, hook):
    def wrapped(m, a, o):
        r = hook(m, a, o)
        return r if torch.is_tensor(r) else o

    return module.register_forward_hook(wrapped, prepend=True)
""",
        """
def run_first(module, hook):
    return module.register_forward_hook(lambda m, a, o: hook(m, a, o) or None, prepend=True)
""",
        """
def run_first(module, hook):
    def w(m, a, o):
        try:
            return hook(m, a, o)
        except Exception:
            return None

    return module.register_forward_hook(w, prepend=True)
""",
        """
def run_first(module, hook):
    hs = [m.register_forward_hook(hook, prepend=True) for m in module.modules()]
    return hs[0]
""",
    ],
    "06-ablate-channels": [
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
    ],
    "06-patch-activation": [
        "def patch_activation(model, name, clean, corrupt, channels=None):\n    return model(clean).detach()",
        "def patch_activation(model, name, clean, corrupt, channels=None):\n    return model(corrupt).detach()",
        # the keeping hook is still there in the second run and overwrites what it kept
        """
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    kept = {}
    def keep(module, args, output):
        kept["clean"] = output.detach().clone()
    def patch(module, args, output):
        if channels is None:
            return kept["clean"]
        output = output.clone()
        output[:, channels] = kept["clean"][:, channels]
        return output
    with layer.register_forward_hook(keep):
        model(clean)
        with layer.register_forward_hook(patch):
            return model(corrupt).detach()
""",
        # the other channels
        _patch(index=":, [c for c in range(output.shape[1]) if c not in channels]"),
        # not detached
        _patch().replace(".detach()\n", "\n"),
        # eval mode left behind
        _patch().replace("    kept = {}", "    kept = {}\n    model.eval()"),
        # zeros instead of the clean values
        _patch().replace('] = kept["clean"][:, channels]', "] = 0"),
        # the same for the whole batch: the first clean image
        _patch().replace('kept["clean"][:, channels]', 'kept["clean"][:1, channels]'),
        # removes the caller's hooks
        _patch().replace("    kept = {}", "    kept = {}\n    layer._forward_hooks.clear()"),
        # Cleans up after an exception in the clean run only.
        """
import torch

def patch_activation(model, name, clean, corrupt, channels=None):
    m = model.get_submodule(name)
    saved = []
    with torch.no_grad():
        with m.register_forward_hook(lambda m, a, o: saved.append(o.clone())): model(clean)
        def patch(m, a, o):
            ch = slice(None) if channels is None else channels
            new = o.clone()
            new[:, ch] = saved[0][:, ch]
            return new
        h = m.register_forward_hook(patch)
        y = model(corrupt)
        h.remove()
    return y
""",
        # Leaves gradient tracking switched off.
        """
import torch

def patch_activation(model, name, clean, corrupt, channels=None):
    mod = model.get_submodule(name)
    saved = []
    def patch(m, a, o):
        if not saved:
            saved.append(o.clone()); return None
        if channels is None: return saved[0]
        new = o.clone()
        new[:, channels] = saved[0][:, channels]
        return new
    torch.set_grad_enabled(False)
    with mod.register_forward_hook(patch):
        model(clean)
        return model(corrupt)
""",
        """
import torch

_cache = {}

def patch_activation(model, name, clean, corrupt, channels=None):

    module = model.get_submodule(name)
    with torch.no_grad():
        if (id(model), name) not in _cache:
            with module.register_forward_hook(
                lambda m, a, o: _cache.__setitem__((id(model), name), o.clone())
            ):
                model(clean)

        def put(m, a, o):
            o = o.clone()
            c = slice(None) if channels is None else channels
            o[:, c] = _cache[id(model), name][:, c]
            return o

        with module.register_forward_hook(put):
            return model(corrupt)
""",
        """
import torch

def patch_activation(model, name, clean, corrupt, channels=None):

    module = model.get_submodule(name)
    kept = []
    torch.set_grad_enabled(False)
    with module.register_forward_hook(lambda m, a, o: kept.append(o.clone())):
        model(clean)

    def put(m, a, o):
        o = o.clone()
        c = slice(None) if channels is None else channels
        o[:, c] = kept[0][:, c]
        return o

    with module.register_forward_hook(put):
        out = model(corrupt)
    torch.set_grad_enabled(True)
    return out
""",
    ],
}
