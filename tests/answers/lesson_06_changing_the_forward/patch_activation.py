"""Answers to 06-patch-activation."""

RIGHT = [
    """
import torch

def patch_activation(model, name, clean, corrupt, channels=None):
    layer, state = dict(model.named_modules())[name], []
    def hook(module, args, output):
        if not state:
            state.append(output.clone())
            return None
        mask = torch.zeros(output.shape[1], dtype=torch.bool)
        mask[slice(None) if channels is None else channels] = True
        return torch.where(mask.reshape(-1, *[1] * (output.dim() - 2)), state[0], output)
    with torch.no_grad(), layer.register_forward_hook(hook):
        model(clean)
        return model(corrupt)
""",
    """
from functools import partial
import torch

def patch(source, channels, module, args, output):
    return output.index_copy(1, channels, source.index_select(1, channels))

def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    store = []
    with torch.no_grad():
        with layer.register_forward_hook(lambda module, args, output: store.append(output.clone())):
            model(clean)
        chosen = torch.tensor(range(store[0].shape[1]) if channels is None else channels, dtype=torch.long)
        with layer.register_forward_hook(partial(patch, store[0], chosen)):
            return model(corrupt)
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
        saved = o.detach()
        raise Stop
    with module.register_forward_hook(grab), contextlib.suppress(Stop):
        model(clean)
    def put(m, a, o):
        new = o.clone()
        which = slice(None) if channels is None else channels
        new[:, which] = saved[:, which]
        return new
    with module.register_forward_hook(put):
        return model(corrupt).detach()
""",
    """
import torch

class Patch:
    def __init__(self, channels):
        self.channels, self.kept = channels, None
    def __call__(self, module, args, output):
        if self.kept is None:
            self.kept = output.detach().clone()
            return output
        if self.channels is None:
            return self.kept
        parts = [(self.kept if c in self.channels else output)[:, c] for c in range(output.shape[1])]
        return torch.stack(parts, 1)

@torch.no_grad()
def patch_activation(model, name, clean, corrupt, channels=None):
    handle = model.get_submodule(name).register_forward_hook(Patch(channels))
    try:
        model(clean)
        return model(corrupt)
    finally:
        handle.remove()
""",
]

SURVIVORS = {
    "lost return: kept['clean']": "`output[:, None]` is all of it, with one dimension more",
    "condition dropped": "what is indexed with `None` is all of it, with one dimension more",
    "lost copy: … = _not_detached(o": "the result is detached in the end",
}
