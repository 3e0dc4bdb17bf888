"""Answers to 06-ablate-channels."""

from graders.author.answers import Wrong

RIGHT = [
    """
import torch

def ablate_channels(model, name, channels, x):
    layer = dict(model.named_modules())[name]
    def hook(module, args, output):
        mask = torch.zeros(output.shape[1], dtype=torch.bool)
        for channel in channels:
            mask[channel] = True
        return output.masked_fill(mask.reshape(1, -1, *[1] * (output.dim() - 2)), 0)
    handle = layer.register_forward_hook(hook)
    try:
        with torch.no_grad():
            return model(x)
    finally:
        handle.remove()
""",
    """
import torch

class Ablation:
    def __init__(self, layer, channels):
        self.layer, self.channels = layer, channels
    def __enter__(self):
        self.handle = self.layer.register_forward_hook(self)
        return self
    def __exit__(self, *error):
        self.handle.remove()
    def __call__(self, module, args, output):
        parts = list(output.unbind(1))
        for channel in self.channels:
            parts[channel] = torch.zeros_like(parts[channel])
        return torch.stack(parts, 1)

def ablate_channels(model, name, channels, x):
    with Ablation(model.get_submodule(name), channels):
        y = model(x)
    return y.detach().clone()
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

@torch.inference_mode()
def ablate_channels(model, name, channels, x):
    def hook(module, args, kwargs, output):
        index = torch.tensor(channels, dtype=torch.long)
        return output.index_fill(1, index, 0)
    with model.get_submodule(name).register_forward_hook(hook, with_kwargs=True):
        return model(x)
""",
]

WRONG = [
    Wrong(
        "keeps the channels on the function",
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
        source="""
def ablate_channels(model, name, channels, x):
    ablate_channels.listed = channels
    def hook(module, args, output):
        output = output.clone()
        output[:, ablate_channels.listed] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    ),
]

SURVIVORS = {
    "not for all: for c in _part(channels, step=-1):": "the order does not matter",
    "lost return: self": "nobody asks what the `with` block gives",
    "lost copy: return _not_copied(y.detach())": "what the model returns is nobody else's",
}
