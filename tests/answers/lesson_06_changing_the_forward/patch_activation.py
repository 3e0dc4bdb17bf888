"""Answers to 06-patch-activation."""

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


RIGHT = [
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
]

WRONG = {
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

ALSO_WRONG = [
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
]
