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
        "skips NaN",
        violates="NaN and infinite entries count as in `output.mean()`",
        check="test_nan_and_infinity_are_entries",
        source=changed(MEAN, "output.detach().mean()", "output.detach().nanmean()"),
    ),
    Wrong(
        "hands over another tensor",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        source=changed(MEAN, "        model(x)\n", "        model(x.detach())\n"),
    ),
    Wrong(
        "the submodule in eval mode",
        violates="rule 7: with each part in its mode",
        check="test_the_submodule_runs_in_its_mode",
        source=changed(
            MEAN,
            "    with model",
            "    part = model.get_submodule(name)\n    mode, part.training = part.training, False\n    with model",
        ).replace(
            "        model(x)", "        try:\n            model(x)\n        finally:\n            part.training = mode"
        ),
    ),
    Wrong(
        "one list for all calls",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_has_a_mean_of_its_own",
        source=changed(MEAN, "    means = []\n", "    means.clear()\n")
        .replace("def mean_activation", "means = []\n\ndef mean_activation")
        .replace("return means[0]", "return means[-1]"),
    ),
    Wrong(
        "divides a sum that is too large for float16",
        violates="there the sum of the entries may be\n      too large for the dtype where their mean is not",
        check="test_it_has_the_dtype_of_the_output",
        mistake="sum-too-large",
        source=changed(MEAN, "output.detach().mean()", "output.detach().sum() / output.numel()"),
    ),
    Wrong(
        "rounds to six decimals",
        violates="the mean over all entries",
        check="test_the_mean_of_the_output_is_returned",
        source=changed(MEAN, "output.detach().mean()", "output.detach().mean().mul(1e6).round().div(1e6)"),
    ),
    Wrong(
        "takes the first module whose name ends so",
        violates="`name` is the name of one of its submodules in `model.named_modules()`",
        check="test_the_mean_of_the_output_is_returned",
        mistake="a-namesake",
        source=changed(
            MEAN,
            "model.get_submodule(name)",
            "next(module for known, module in model.named_modules() if known.endswith(name))",
        ),
    ),
    Wrong(
        "takes the first module whose name begins so",
        violates="`name` is the name of one of its submodules in `model.named_modules()`",
        check="test_the_mean_of_the_output_is_returned",
        source=changed(
            MEAN,
            "model.get_submodule(name)",
            "next(module for known, module in model.named_modules() if known.startswith(name))",
        ),
    ),
    Wrong(
        "the mean with its graph",
        violates="nothing keeps the graph of the forward pass alive: neither the result",
        check="test_nothing_keeps_the_graph_alive",
        mistake="graph-kept-alive",
        source=changed(MEAN, "output.detach().mean()", "output.cpu().mean()"),
    ),
    Wrong(
        "clones and does not detach",
        violates="nothing keeps the graph of the forward pass alive",
        check="test_nothing_keeps_the_graph_alive",
        mistake="clone-keeps-graph",
        source=changed(MEAN, "output.detach().mean()", "output.clone().mean()"),
    ),
    Wrong(
        "stores the output in a global dict",
        violates="nor anything that you stored elsewhere, such as in a list",
        check="test_nothing_keeps_the_graph_alive",
        mistake="stored-the-output",
        source="STORE = {}\n"
        + changed(
            MEAN,
            "        means.append(output.detach().mean())",
            "        STORE[name] = output\n        means.append(output.detach().mean())",
        ),
    ),
    Wrong(
        "stores the output as an attribute of its result",
        violates="nor anything that you stored elsewhere",
        check="test_nothing_keeps_the_graph_alive",
        source=changed(
            MEAN,
            "        means.append(output.detach().mean())",
            "        mean = output.detach().mean()\n        mean.source = output\n        means.append(mean)",
        ),
    ),
    Wrong(
        "stores a node of the graph",
        violates="nor anything that you stored elsewhere",
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
        violates="nor anything that you stored elsewhere",
        check="test_nothing_keeps_the_graph_alive",
        source=changed(
            MEAN,
            "        means.append(output.detach().mean())",
            "        means.append(output.detach().mean())\n"
            "        output.register_hook(lambda grad: output) if output.requires_grad else None",
        ),
    ),
    Wrong(
        "the mean after the run",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="test_the_mean_of_the_output_is_returned",
        mistake="stored-alias",
        source="""
def mean_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach())):
        model(x)
    return kept[0].mean()
""",
    ),
    Wrong(
        "the input of the module",
        violates="the mean over all entries of what this submodule returned",
        check="raised",
        mistake="stored-the-input",
        source=changed(MEAN, "output.detach()", "args[0].detach()"),
    ),
    Wrong(
        "a number",
        violates="The result is a 0-dim tensor",
        check="test_the_mean_of_the_output_is_returned",
        mistake="number-not-tensor",
        source=changed(MEAN, "output.detach().mean()", "output.mean().item()"),
    ),
    Wrong(
        "one dimension",
        violates="The result is a 0-dim tensor",
        check="test_the_mean_of_the_output_is_returned",
        source=changed(MEAN, "output.detach().mean()", "output.detach().mean().reshape(1)"),
    ),
    Wrong(
        "the mean over the samples",
        violates="the mean over all entries",
        check="test_the_mean_of_the_output_is_returned",
        source=changed(MEAN, "output.detach().mean()", "output.detach().mean(tuple(range(output.dim()))[:1])"),
    ),
    Wrong(
        "always float32",
        violates="with the dtype of the output",
        check="test_the_mean_of_the_output_is_returned",
        source=changed(MEAN, "output.detach().mean()", "output.detach().mean().float()"),
    ),
    Wrong(
        "no half precision",
        violates="with the dtype of the output",
        check="test_it_has_the_dtype_of_the_output",
        source=changed(
            MEAN,
            "output.detach().mean()",
            "(output.detach() if output.dtype.itemsize == 8 else output.detach().float()).mean()",
        ),
    ),
    Wrong(
        "through float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_the_mean_of_the_output_is_returned",
        source=changed(MEAN, "output.detach().mean()", "output.detach().float().mean().to(output.dtype)"),
    ),
    Wrong(
        "nothing",
        violates="return the mean over all entries",
        check="test_the_mean_of_the_output_is_returned",
        source="def mean_activation(model, name, x):\n    model(x)",
    ),
    Wrong(
        "the mean of what the model returns",
        violates="what this submodule returned",
        check="raised",
        source="def mean_activation(model, name, x):\n    return model(x).detach().mean()",
    ),
    Wrong(
        "a list",
        violates="The result is a 0-dim tensor",
        check="test_the_mean_of_the_output_is_returned",
        source=changed(MEAN, "    return means[0]", "    return means"),
    ),
    Wrong(
        "runs twice",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="ran-twice",
        source=changed(MEAN, "        model(x)", "        model(x)\n        model(x)"),
    ),
    Wrong(
        "calls `forward`",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        source=changed(MEAN, "        model(x)", "        model.forward(x)"),
    ),
    Wrong(
        "ends the run when it has what it wants",
        violates="rule 7: Call `model(x)` exactly once, to its end",
        check="test_it_holds_when_the_model_raises",
        source="""
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
    ),
    Wrong(
        "runs in eval mode, and puts back the mode of each part",
        violates="rule 7: with each part in its mode",
        check="test_the_model_runs_once_as_it_is",
        mistake="changed-the-mode",
        source="""
def mean_activation(model, name, x):
    means, modes = [], {module: module.training for module in model.modules()}
    model.eval()
    try:
        with model.get_submodule(name).register_forward_hook(lambda m, a, o: means.append(o.detach().mean())):
            model(x)
    finally:
        for module, training in modes.items():
            module.training = training
    return means[0]
""",
    ),
    Wrong(
        "puts all parts into the mode of the model afterwards",
        violates="rule 2: the mode of each part",
        check="test_nothing_of_the_caller_changes",
        source=changed(MEAN, "        model(x)", "        model(x)\n    model.train(model.training)"),
    ),
    Wrong(
        "a hook before those of the caller",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_the_mean_of_the_output_is_returned",
        mistake="before-the-callers-hook",
        source=changed(MEAN, "(hook)", "(hook, prepend=True)"),
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
    Wrong(
        "a hook for all modules, which runs before those of the caller",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_the_mean_of_the_output_is_returned",
        source="""
from torch.nn.modules.module import register_module_forward_hook

def mean_activation(model, name, x):
    target, kept = model.get_submodule(name), []
    def hook(module, args, output):
        if module is target:
            kept.append(output.detach().mean())
    with register_module_forward_hook(hook):
        model(x)
    return kept[0]
""",
    ),
    Wrong(
        "hands on its copy",
        violates="The model goes on with the output itself",
        check="test_the_model_goes_on_with_the_output_itself",
        source=changed(
            MEAN,
            "        means.append(output.detach().mean())",
            "        means.append(output.detach().mean())\n        return output.detach()",
        ),
    ),
    Wrong(
        "cuts the graph of the model",
        violates="The model goes on with the output itself",
        check="test_the_model_goes_on_with_the_output_itself",
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
        violates="Other parts of the model, and the model itself, may return anything.",
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
        "frees the graph by a backward pass",
        violates="rule 2: their `.grad`",
        check="test_nothing_of_the_caller_changes",
        source="""
def mean_activation(model, name, x):
    means = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: means.append(o.mean())):
        model(x)
    if means[0].requires_grad:
        means[0].backward()
    return means[0].detach()
""",
    ),
    Wrong(
        "switches grad mode off for good",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_nothing_of_the_caller_changes",
        source="import torch\n" + changed(MEAN, "    means = []", "    means = []\n    torch.set_grad_enabled(False)"),
    ),
    Wrong(
        "leaves the output of the model on the model",
        violates="nor anything that you stored elsewhere",
        check="test_nothing_keeps_the_graph_alive",
        source=changed(MEAN, "        model(x)", "        model.last = model(x)"),
    ),
    Wrong(
        "removes no hook",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_of_the_caller_changes",
        mistake="hook-left-behind",
        source="""
def mean_activation(model, name, x):
    means = []
    model.get_submodule(name).register_forward_hook(lambda m, a, o: means.append(o.detach().mean()))
    model(x)
    return means[0]
""",
    ),
    Wrong(
        "removes the hook only when all went well",
        violates="rule 3: When your function has returned, or raised",
        check="test_it_holds_when_the_model_raises",
        mistake="hook-left-after-exception",
        source="""
def mean_activation(model, name, x):
    means = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: means.append(o.detach().mean()))
    model(x)
    handle.remove()
    return means[0]
""",
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
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_of_the_caller_changes",
        source="""
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
    ),
    Wrong(
        "remembers by name",
        violates="rule 1: on one object or on several at the same time",
        check="test_the_mean_of_the_output_is_returned",
        source="""
MEANS = {}

def mean_activation(model, name, x):
    def hook(module, args, output):
        MEANS.setdefault(name, output.detach().mean())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return MEANS[name]
""",
    ),
]

GIVENS = [
    "Write `mean_activation(model, name, x)`.",
    "`model` is an `nn.Module`",
    "The submodule is called once.",
    "Its output is a tensor of floating-point numbers with at least one entry.",
]

SURVIVORS = {
    "one global slot: found = ": "each call writes its mean before it reads it",
    "one global slot: LOG = ": "each call appends its mean and reads the last entry",
    "under no_grad": "nothing asks for a graph; without one none can be kept",
}
