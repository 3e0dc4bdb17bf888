"""Answers to 11-mean-activation."""

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
    MEAN,
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
from torch.nn.modules.module import register_module_forward_hook

class Mean:
    def __init__(self, target):
        self.target = target
    def __call__(self, module, args, output):
        if module is self.target:
            self.value = torch.tensor(output.double().mean().item(), dtype=output.dtype)

def mean_activation(model, name, x):
    mean = Mean(model.get_submodule(name))
    with register_module_forward_hook(mean):
        model(x)
    return mean.value
""",
    """
def mean_activation(model, name, x):
    module, kept = model.get_submodule(name), []
    forward = module.forward
    def wrapped(*args, **kwargs):
        output = forward(*args, **kwargs)
        kept.append(output.detach().clone())
        return output
    module.forward = wrapped
    try:
        model(x)
    finally:
        del module.forward
    return kept[0].sum() / kept[0].numel()
""",
    """
class Probe:
    def __init__(self, model, name):
        self.model, self.handle = model, model.get_submodule(name).register_forward_hook(self.save, prepend=False)
    def save(self, module, args, output):
        self.mean = output.data.mean()
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
LOG = []

def mean_activation(model, name, x):
    def hook(m, a, o):
        model.last = o.detach()
        LOG.append(o.detach().mean())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return LOG[-1]
""",
]

WRONG = {
    "graph-kept-alive": changed(MEAN, "output.detach().mean()", "output.cpu().mean()"),
    "clone-keeps-graph": changed(MEAN, "output.detach().mean()", "output.clone().mean()"),
    "stored-the-output": "STORE = {}\n"
    + changed(
        MEAN,
        "        means.append(output.detach().mean())",
        "        STORE[name] = output\n        means.append(output.detach().mean())",
    ),
    "stored-alias": """
def mean_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach())):
        model(x)
    return kept[0].mean()
""",
    "stored-the-input": changed(MEAN, "output.detach()", "args[0].detach()"),
    "number-not-tensor": changed(MEAN, "output.detach().mean()", "output.mean().item()"),
    "hook-left-behind": """
def mean_activation(model, name, x):
    means = []
    model.get_submodule(name).register_forward_hook(lambda m, a, o: means.append(o.detach().mean()))
    model(x)
    return means[0]
""",
    "hook-left-after-exception": """
def mean_activation(model, name, x):
    means = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: means.append(o.detach().mean()))
    model(x)
    handle.remove()
    return means[0]
""",
}

ALSO_WRONG = [
    "def mean_activation(model, name, x):\n    return None",
    "def mean_activation(model, name, x):\n    return model(x).detach().mean()",
    changed(MEAN, "output.detach().mean()", "output.detach().mean(0)"),
    changed(MEAN, "output.detach().mean()", "output.detach().mean().reshape(1)"),
    changed(MEAN, "output.detach().mean()", "output.detach().mean().float()"),
    changed(MEAN, "        model(x)", "        model(x)\n        model(x)"),
    changed(MEAN, "        model(x)", "        model.forward(x)"),
    changed(MEAN, "        model(x)", "        model(x.requires_grad_())"),
    changed(MEAN, "        model(x)", "        model(x).sum().backward()"),
    changed(MEAN, "        model(x)", "        model(x)\n        model.zero_grad()"),
    changed(MEAN, "        model(x)", "        model.eval()(x)"),
    # the mode of the model comes back, but not that of every module in it
    changed(
        MEAN, "        model(x)", "        was = model.training\n        model.eval()(x)\n        model.train(was)"
    ),
    changed(MEAN, "    return means[0]", "    return means"),
    changed(MEAN, "        model(x)", "        model.last = model(x)"),
    changed(MEAN, "        model(x)", "        x.zero_()\n        model(x)"),
    changed(
        MEAN, "        model(x)", "        try:\n            model(x)\n        except Exception:\n            pass"
    ),
    changed(
        MEAN,
        "        means.append(output.detach().mean())",
        "        means.append(output.detach().mean())\n"
        "        output.register_hook(lambda grad: output) if output.requires_grad else None",
    ),
    """
def mean_activation(model, name, x):
    class Done(Exception):
        pass
    means = []
    def hook(module, args, output):
        means.append(output.detach().mean())
        raise Done
    with model.get_submodule(name).register_forward_hook(hook):
        try:
            model(x)
        except Done:
            pass
    return means[0]
""",
    """
import torch

def mean_activation(model, name, x):
    kept = []
    with torch.autograd.graph.save_on_cpu():
        with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.mean())):
            model(x)
    return kept[0]
""",
    """
def mean_activation(model, name, x):
    means = []
    module = model.get_submodule(name)
    module.register_forward_hook(lambda m, a, o: means.append(o.detach().mean()))
    try:
        model(x)
    finally:
        module._forward_hooks.clear()
    return means[0]
""",
]
