"""Answers to 11-mean-activation."""

from graders.author.answers import Wrong

from .shared import changed

MEAN = """
def mean_activation(model, name, x):
    means = []
    def hook(module, args, output):
        means.append(output.detach().mean())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return means[0]
"""

RIGHT = [
    """
import torch

def mean_activation(model, name, x):
    found = {}
    handle = dict(model.named_modules())[name].register_forward_hook(
        lambda module, args, output: found.update(mean=output.mean()))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    return found["mean"]
""",
    """
import torch

class Mean:
    def __call__(self, module, args, output):
        self.value = torch.tensor(output.double().mean().item(), dtype=output.dtype)

def mean_activation(model, name, x):
    mean = Mean()
    with model.get_submodule(name).register_forward_hook(mean):
        model(x)
    return mean.value
""",
    """
class Probe:
    def __init__(self, model, name):
        self.model, self.handle = model, model.get_submodule(name).register_forward_hook(self.save)
    def save(self, module, args, output):
        self.mean = (output.data / output.numel()).sum()
    def __enter__(self):
        return self
    def __exit__(self, *error):
        self.handle.remove()

def mean_activation(model, name, x):
    with Probe(model, name) as probe:
        model(x)
    return probe.mean
""",
    """
import torch

@torch.inference_mode()
def mean_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.mean())):
        model(x)
    return kept[0]
""",
    """
import numpy as np
import torch

def mean_activation(model, name, x):
    kept = []
    def hook(m, a, o):
        kept.append(np.mean(o.detach().numpy()))
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return torch.as_tensor(kept[0])
""",
    """
def mean_activation(model, name, x):
    log = []
    def hook(m, a, k, o):
        log.append(o.detach().mean())
    with model.get_submodule(name).register_forward_hook(hook, with_kwargs=True):
        model(x)
    return log[-1]
""",
]

WRONG = [
    Wrong(
        "one list for all calls",
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
        source=changed(MEAN, "    means = []\n", "    means.clear()\n")
        .replace("def mean_activation", "means = []\n\ndef mean_activation")
        .replace("return means[0]", "return means[-1]"),
    ),
]
