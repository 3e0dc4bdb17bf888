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
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=changed(MEAN, "    means = []\n", "    means.clear()\n")
        .replace("def mean_activation", "means = []\n\ndef mean_activation")
        .replace("return means[0]", "return means[-1]"),
    ),
    Wrong(
        "stores a node of the graph",
        violates="nor on what you stored elsewhere",
        check="test_nothing_keeps_the_graph_alive",
        source="NODES = []\n"
        + changed(
            MEAN,
            "        means.append(output.detach().mean())",
            "        NODES.append(output.grad_fn)\n        means.append(output.detach().mean())",
        ),
    ),
    Wrong(
        "a hook on the output that holds the output",
        violates="nor on what you stored elsewhere",
        check="test_nothing_keeps_the_graph_alive",
        source=changed(
            MEAN,
            "        means.append(output.detach().mean())",
            "        means.append(output.detach().mean())\n"
            "        output.register_hook(lambda grad: output) if output.requires_grad else None",
        ),
    ),
    Wrong(
        "the submodule in eval mode",
        violates="rule 7: with each part in its mode",
        check="test_the_model_runs_once_as_it_is",
        source=changed(
            MEAN,
            "    with model",
            "    part = model.get_submodule(name)\n    mode, part.training = part.training, False\n    with model",
        ).replace(
            "        model(x)", "        try:\n            model(x)\n        finally:\n            part.training = mode"
        ),
    ),
    Wrong(
        "always float32",
        violates="The result has its dtype.",
        check="test_the_mean_of_the_output_is_returned",
        source=changed(MEAN, "output.detach().mean()", "output.detach().mean().float()"),
    ),
    Wrong(
        "through float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_the_mean_of_the_output_is_returned",
        source=changed(MEAN, "output.detach().mean()", "output.detach().float().mean().to(output.dtype)"),
    ),
    Wrong(
        "a list",
        violates="as a 0-dim tensor",
        check="test_the_mean_of_the_output_is_returned",
        source=changed(MEAN, "    return means[0]", "    return means"),
    ),
    Wrong(
        "hands on its copy",
        violates="goes on with the output itself.",
        check="test_the_model_runs_once_as_it_is",
        source=changed(
            MEAN,
            "        means.append(output.detach().mean())",
            "        means.append(output.detach().mean())\n        return output.detach()",
        ),
    ),
    Wrong(
        "cuts the graph of the model",
        violates="goes on with the output itself.",
        check="test_the_model_runs_once_as_it_is",
        source=changed(MEAN, "output.detach().mean()", "output.detach_().mean()"),
    ),
    Wrong(
        "needs a graph",
        violates="rule 7: your caller may have done so",
        check="raised",
        source=changed(
            MEAN,
            "        means.append(output.detach().mean())",
            "        means.append(output.detach().mean())\n        assert output.requires_grad",
        ),
    ),
    Wrong(
        "needs the output of the model to be a tensor",
        violates="Other parts of the model may return anything.",
        check="raised",
        source=changed(MEAN, "        model(x)", "        model(x).detach()"),
    ),
    Wrong(
        "`x` requires grad from now on",
        violates="rule 2: their `requires_grad`",
        check="test_nothing_of_the_caller_changes",
        source=changed(MEAN, "        model(x)", "        model(x.requires_grad_())"),
    ),
    Wrong(
        "empties `.grad`",
        violates="rule 2: their `.grad`",
        check="test_nothing_of_the_caller_changes",
        source=changed(MEAN, "        model(x)", "        model(x)\n        model.zero_grad()"),
    ),
    Wrong(
        "leaves the output of the model on the model",
        violates="nor on what you stored elsewhere",
        check="test_nothing_keeps_the_graph_alive",
        source=changed(MEAN, "        model(x)", "        model.last = model(x)"),
    ),
    Wrong(
        "cleans up after an `Exception` only",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_it_holds_when_the_model_raises",
        source="""
def mean_activation(model, name, x):
    means = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: means.append(o.detach().mean()))
    try:
        model(x)
    except Exception:
        handle.remove()
        raise
    handle.remove()
    return means[0]
""",
    ),
    Wrong(
        "swallows what the model raises",
        violates="rule 4: Errors come through.",
        check="test_it_holds_when_the_model_raises",
        source="""
def mean_activation(model, name, x):
    means = [None]
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: means.append(o.detach().mean())):
        try:
            model(x)
        except Exception:
            pass
    return means[-1]
""",
    ),
    Wrong(
        "wraps `forward`, which does not see what a hook of the caller makes of the output",
        violates='rule 3: "As it left the module" means the value that the next part of the model gets',
        check="test_the_mean_of_the_output_is_returned",
        source="""
def mean_activation(model, name, x):
    module, kept = model.get_submodule(name), []
    forward = module.forward
    def wrapped(*args, **kwargs):
        output = forward(*args, **kwargs)
        kept.append(output.detach().mean())
        return output
    module.forward = wrapped
    try:
        model(x)
    finally:
        del module.forward
    return kept[0]
""",
    ),
]

SURVIVORS = {
    "one global slot: found = ": "each call writes its mean before it reads it",
    "one global slot: LOG = ": "each call appends its mean and reads the last entry",
    "under no_grad": "nothing asks for a graph; without one none can be kept",
}
