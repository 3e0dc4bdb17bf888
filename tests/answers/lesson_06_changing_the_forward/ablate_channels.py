"""Answers to 06-ablate-channels."""

from graders.author.answers import Wrong, changed

ABLATE_CHANNELS = """
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
"""


RIGHT = [
    ABLATE_CHANNELS,
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
        "takes a model for one in eval mode when its parts are",
        violates="rule 7: with each part in its mode",
        check="test_the_root_is_in_its_mode",
        source=changed(
            ABLATE_CHANNELS,
            (
                "    with model",
                "    if not any(child.training for child in model.children()):\n        model.eval()\n    with model",
            ),
        ),
    ),
    Wrong(
        "does nothing",
        violates="when the listed channels of the output of the submodule `name` are 0",
        check="test_the_listed_channels_are_off",
        mistake="forgot-return",
        source="""
def ablate_channels(model, name, channels, x):
    return model(x).detach()
""",
    ),
    Wrong(
        "returns nothing",
        violates="when the listed channels of the output of the submodule `name` are 0",
        check="test_the_listed_channels_are_off",
        mistake="forgot-return",
        source=changed(ABLATE_CHANNELS, ("        return output\n", "")),
    ),
    Wrong(
        "edits the weights",
        violates="rule 2: A model keeps its parameters",
        check="raised",
        mistake="edited-weights",
        source="""
import torch

def ablate_channels(model, name, channels, x):
    layer = model.get_submodule(name)
    with torch.no_grad():
        layer.weight[channels] = 0
        layer.bias[channels] = 0
        return model(x)
""",
    ),
    Wrong(
        "edits all parameters of the module",
        violates="rule 2: A model keeps its parameters",
        check="test_the_listed_channels_are_off",
        source="""
import torch

def ablate_channels(model, name, channels, x):
    module = model.get_submodule(name)
    with torch.no_grad():
        for p in module.parameters():
            p[channels] = 0
        return model(x)
""",
    ),
    Wrong(
        "changes what goes in",
        violates="the output of the submodule `name`",
        check="raised",
        mistake="changed-the-input",
        source="""
def ablate_channels(model, name, channels, x):
    def hook(module, args):
        first = args[0].clone()
        first[:, channels] = 0
        return (first, *args[1:])
    with model.get_submodule(name).register_forward_pre_hook(hook):
        return model(x).detach()
""",
    ),
    Wrong(
        "changes `x`",
        violates="the output of the submodule `name`",
        check="test_the_listed_channels_are_off",
        mistake="changed-the-input",
        source="""
def ablate_channels(model, name, channels, x):
    x = x.clone()
    x[:, channels] = 0
    return model(x).detach()
""",
    ),
    Wrong(
        "images instead of channels",
        violates="into dimension 1 of that output",
        check="test_the_listed_channels_are_off",
        mistake="wrong-axis",
        source=changed(ABLATE_CHANNELS, (":, channels", "channels")),
    ),
    Wrong(
        "the last dimension",
        violates="into dimension 1 of that output",
        check="test_the_listed_channels_are_off",
        mistake="wrong-axis",
        source=changed(ABLATE_CHANNELS, (":,", "...,")),
    ),
    Wrong(
        "four dimensions only",
        violates="its output is a tensor of two or more dimensions",
        check="raised",
        mistake="four-dimensions-only",
        source=changed(ABLATE_CHANNELS, ("channels]", "channels, :, :]")),
    ),
    Wrong(
        "in place",
        violates="rule 2: Tensors keep their values",
        check="raised",
        mistake="changed-callers-tensor",
        source=changed(ABLATE_CHANNELS, ("        output = output.clone()\n", ""), ("        return output\n", "")),
    ),
    Wrong(
        "in place where nothing is recorded",
        violates="rule 2: Tensors keep their values",
        check="test_x_and_the_model_are_as_before",
        mistake="changed-callers-tensor",
        source="""
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        if args and output is args[0] and output.is_contiguous() and not output.requires_grad:
            output[:, channels] = 0
            return None
        output = output.clone()
        output[:, channels] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    ),
    Wrong(
        "leaves the hook",
        violates="rule 3: none of your own hooks is left",
        check="test_x_and_the_model_are_as_before",
        mistake="hook-left-behind",
        source="""
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    model.get_submodule(name).register_forward_hook(hook)
    return model(x).detach()
""",
    ),
    Wrong(
        "leaves the hook after an exception",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_nothing_is_left",
        mistake="hook-left-after-exception",
        source="""
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
    ),
    Wrong(
        "leaves the hook after an interrupt",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source="""
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        y = model(x).detach()
    except Exception:
        handle.remove()
        raise
    handle.remove()
    return y
""",
    ),
    Wrong(
        "clears all hooks of the module",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_another_call_has_its_own_channels",
        mistake="callers-hook-removed",
        source=changed(
            ABLATE_CHANNELS,
            (
                "with model.get_submodule(name).register_forward_hook(hook):",
                "layer = model.get_submodule(name)\n    layer.register_forward_hook(hook)\n    try:",
            ),
            (
                "return model(x).detach()",
                "return model(x).detach()\n    finally:\n        layer._forward_hooks.clear()",
            ),
        ),
    ),
    Wrong(
        "in front of the caller's hooks",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_they_are_zero_whatever_they_were",
        mistake="before-other-hooks",
        source=changed(ABLATE_CHANNELS, ("hook)", "hook, prepend=True)")),
    ),
    Wrong(
        "wraps `forward`, before the caller's hooks",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_they_are_zero_whatever_they_were",
        mistake="before-other-hooks",
        source="""
def ablate_channels(model, name, channels, x):
    layer = model.get_submodule(name)
    plain = layer.forward
    def forward(*args, **kwargs):
        output = plain(*args, **kwargs).clone()
        output[:, channels] = 0
        return output
    layer.forward = forward
    try:
        return model(x).detach()
    finally:
        del layer.forward
""",
    ),
    Wrong(
        "replaces the submodule under one of its names",
        violates="rule 7: if it has several names, the first one counts",
        check="raised",
        source="""
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
        return model(x).detach()
    finally:
        setattr(parent, last, inner)
""",
    ),
    Wrong(
        "children only",
        violates="`name` may be nested",
        check="raised",
        source=changed(
            ABLATE_CHANNELS,
            (
                "model.get_submodule(name).register_forward_hook(hook)",
                "dict(model.named_children())[name].register_forward_hook(hook)",
            ),
        ),
    ),
    Wrong(
        "all modules but the model itself",
        violates='or `""`, the model itself',
        check="raised",
        source=changed(
            ABLATE_CHANNELS,
            (
                "model.get_submodule(name).register_forward_hook(hook)",
                "dict(list(model.named_modules())[1:])[name].register_forward_hook(hook)",
            ),
        ),
    ),
    Wrong(
        "the first submodule",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="raised",
        source=changed(
            ABLATE_CHANNELS,
            (
                "model.get_submodule(name).register_forward_hook(hook)",
                "next(iter(model.children())).register_forward_hook(hook)",
            ),
        ),
    ),
    Wrong(
        "keeps only the listed channels",
        violates="when the listed channels of the output of the submodule `name` are 0",
        check="test_the_listed_channels_are_off",
        mistake="kept-only-the-listed",
        source="""
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        off = [c for c in range(output.shape[1]) if c not in channels]
        output = output.clone()
        output[:, off] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    ),
    Wrong(
        "multiplies by 0",
        violates="whatever they were (also infinite)",
        check="test_they_are_zero_whatever_they_were",
        mistake="multiplied-by-zero",
        source="""
import torch

def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        mask = torch.ones(output.shape[1], dtype=output.dtype)
        mask[channels] = 0
        return output * mask.reshape(1, -1, *[1] * (output.dim() - 2))
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    ),
    Wrong(
        "a graph",
        violates="The result is detached",
        check="test_the_result_is_detached",
        source=changed(ABLATE_CHANNELS, (".detach()", "")),
    ),
    Wrong(
        "the output of the submodule",
        violates="everything after it computes with that",
        check="test_the_listed_channels_are_off",
        source=changed(
            ABLATE_CHANNELS,
            ("def hook(module, args, output):", "seen = []\n    def hook(module, args, output):"),
            ("return output", "seen.append(output.detach())\n        return output"),
            ("return model(x).detach()", "model(x)\n    return seen[0]"),
        ),
    ),
    Wrong(
        "in eval mode",
        violates="rule 7: with each part in its mode",
        check="test_the_listed_channels_are_off",
        mistake="ran-in-eval",
        source="""
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    was = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with model.get_submodule(name).register_forward_hook(hook):
            return model(x).detach()
    finally:
        for module, training in was:
            module.training = training
""",
    ),
    Wrong(
        "leaves eval mode",
        violates="rule 2: the mode of each part",
        check="test_the_listed_channels_are_off",
        source=changed(
            ABLATE_CHANNELS,
            (
                "with model.get_submodule(name).register_forward_hook(hook):",
                (
                    "training = model.training\n    model.eval()\n"
                    "    with model.get_submodule(name).register_forward_hook(hook):"
                ),
            ),
            ("return model(x).detach()", "y = model(x).detach()\n    model.train(training)\n    return y"),
        ),
    ),
    Wrong(
        "switches the modes after the run",
        violates="rule 2: the mode of each part",
        check="test_x_and_the_model_are_as_before",
        source=changed(
            ABLATE_CHANNELS,
            ("return model(x).detach()", "y = model(x).detach()\n    model.train(model.training)\n    return y"),
        ),
    ),
    Wrong(
        "swallows the exception",
        violates="rule 4: the caller of your function gets this exception",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source="""
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    handle = model.get_submodule(name).register_forward_hook(hook)
    y = None
    try:
        y = model(x).detach()
    except BaseException:
        pass
    handle.remove()
    return y
""",
    ),
    Wrong(
        "all channels for an empty list",
        violates="It may be empty, for the ordinary output of the model",
        check="test_the_listed_channels_are_off",
        mistake="empty-means-all",
        source=changed(ABLATE_CHANNELS, ("channels]", "channels or slice(None)]")),
    ),
    Wrong(
        "the first channel of the list",
        violates="when the listed channels of the output of the submodule `name` are 0",
        check="test_the_listed_channels_are_off",
        source=changed(ABLATE_CHANNELS, ("channels]", "channels[:1]]")),
    ),
    Wrong(
        "all from the smallest to the largest",
        violates="when the listed channels of the output of the submodule `name` are 0",
        check="test_the_listed_channels_are_off",
        source=changed(ABLATE_CHANNELS, ("channels]", "slice(min(channels), max(channels) + 1) if channels else []]")),
    ),
    Wrong(
        "turns twice the same back",
        violates="and may hold an index twice",
        check="test_the_listed_channels_are_off",
        source=changed(
            ABLATE_CHANNELS,
            (
                "output[:, channels] = 0",
                "for channel in channels:\n            output[:, channel] = output[:, channel] == 0",
            ),
        ),
    ),
    Wrong(
        "switches autograd off for good",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_x_and_the_model_are_as_before",
        source="""
import torch

def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    torch.set_grad_enabled(False)
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x)
""",
    ),
    Wrong(
        "switches autograd on",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_x_and_the_model_are_as_before",
        source="""
import torch

def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output
    torch.set_grad_enabled(False)
    try:
        with model.get_submodule(name).register_forward_hook(hook):
            return model(x)
    finally:
        torch.set_grad_enabled(True)
""",
    ),
    Wrong(
        "empties `.grad`",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check="test_x_and_the_model_are_as_before",
        source=changed(
            ABLATE_CHANNELS,
            (
                "with model.get_submodule(name).register_forward_hook(hook):",
                "model.zero_grad()\n    with model.get_submodule(name).register_forward_hook(hook):",
            ),
        ),
    ),
    Wrong(
        "freezes the parameters",
        violates="rule 2: Tensors keep their values, their `requires_grad`",
        check="test_x_and_the_model_are_as_before",
        source=changed(
            ABLATE_CHANNELS,
            (
                "with model.get_submodule(name).register_forward_hook(hook):",
                "model.requires_grad_(False)\n    with model.get_submodule(name).register_forward_hook(hook):",
            ),
        ),
    ),
    Wrong(
        "empties the list",
        violates="rule 2: Lists and dicts keep their entries",
        check="test_x_and_the_model_are_as_before",
        source=changed(
            ABLATE_CHANNELS, ("output[:, channels] = 0", "while channels:\n            output[:, channels.pop()] = 0")
        ),
    ),
    Wrong(
        "runs the model twice",
        violates="rule 7: exactly once",
        check="test_the_model_runs_once",
        source=changed(
            ABLATE_CHANNELS,
            (
                "with model.get_submodule(name).register_forward_hook(hook):",
                "model(x)\n    with model.get_submodule(name).register_forward_hook(hook):",
            ),
        ),
    ),
    Wrong(
        "calls `forward`",
        violates="rule 3: Hooks that were there before",
        check="test_the_listed_channels_are_off",
        mistake="called-forward",
        source=changed(ABLATE_CHANNELS, ("model(x).detach()", "model.forward(x).detach()")),
    ),
    Wrong(
        "in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="raised",
        source=changed(ABLATE_CHANNELS, ("output.clone()", "output.float()")),
    ),
    Wrong(
        "one list of channels for all calls",
        violates="rule 1: It works however often it is called",
        check="raised",
        source=changed(
            ABLATE_CHANNELS,
            (
                "def ablate_channels(model, name, channels, x):",
                "def ablate_channels(model, name, channels, x, kept=[]):\n    kept.extend(channels)",
            ),
            ("channels]", "kept]"),
        ),
    ),
    Wrong(
        "makes everything finite",
        violates="everything after it computes with that",
        check="test_they_are_zero_whatever_they_were",
        source=changed(
            ABLATE_CHANNELS,
            (
                "output[:, channels] = 0\n        return output",
                "output[:, channels] *= 0\n        return output.nan_to_num()",
            ),
        ),
    ),
    Wrong(
        "leaves an only channel on",
        violates="when the listed channels of the output of the submodule `name` are 0",
        check="test_they_are_zero_whatever_they_were",
        source=changed(
            ABLATE_CHANNELS, ("output[:, channels] = 0", "output[:, channels if output.shape[1] > 1 else []] = 0")
        ),
    ),
    Wrong(
        "zeros for nan",
        violates="all other entries, also `nan`, stay",
        check="test_they_are_zero_whatever_they_were",
        source="""
def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        output = output.where(~output.isnan(), 0)
        output[:, channels] = 0
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    ),
    Wrong(
        "zeros of another dtype",
        violates="The dtype and all other entries",
        check="test_any_strides_rank_and_dtype_will_do",
        source="""
import torch

def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        off = torch.zeros(output.shape[1], dtype=torch.bool)
        off[channels] = True
        off = off.view(-1, *[1] * (output.dim() - 2))
        return torch.where(off, torch.zeros(output.shape), output)
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    ),
    Wrong(
        "copies the output only where it is the input itself",
        violates="rule 2",
        check="test_x_and_the_model_are_as_before",
        source=changed(
            ABLATE_CHANNELS,
            ("output = output.clone()", "output = output.clone() if any(output is a for a in args) else output"),
            (
                "        return model(x)",
                "        import torch\n        with torch.no_grad():\n            return model(x)",
            ),
        ),
    ),
    Wrong(
        "a zero that is a fraction",
        violates="The dtype and all other entries",
        check="test_any_strides_rank_and_dtype_will_do",
        source="""
import torch

def ablate_channels(model, name, channels, x):
    def hook(module, args, output):
        off = torch.zeros(output.shape[1], dtype=torch.bool)
        off[channels] = True
        return torch.where(off.view(-1, *[1] * (output.dim() - 2)), 0.0, output)
    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
""",
    ),
    Wrong(
        "keeps the channels on the function",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=changed(
            ABLATE_CHANNELS,
            ("    def hook", "    ablate_channels.listed = channels\n    def hook"),
            ("output[:, channels]", "output[:, ablate_channels.listed]"),
        ),
    ),
    Wrong(
        "the first name that ends so",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="test_the_module_of_this_name_is_meant",
        source=ABLATE_CHANNELS.replace(
            "model.get_submodule(name)", "next(m for n, m in model.named_modules() if n.endswith(name))"
        ),
    ),
    Wrong(
        "the last name that begins so",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="test_the_module_of_this_name_is_meant",
        source=ABLATE_CHANNELS.replace(
            "model.get_submodule(name)", "[m for n, m in model.named_modules() if n.startswith(name)][-1]"
        ),
    ),
    Wrong(
        "the first part of the name",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="test_the_module_of_this_name_is_meant",
        source=ABLATE_CHANNELS.replace("model.get_submodule(name)", 'model.get_submodule(name.partition(".")[0])'),
    ),
    Wrong(
        "the first module of this kind",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="test_the_module_of_this_name_is_meant",
        source=ABLATE_CHANNELS.replace(
            "model.get_submodule(name)",
            "next(m for m in model.modules() if repr(m) == repr(model.get_submodule(name)))",
        ),
    ),
    Wrong(
        "no dropout",
        violates="rule 7: with each part in its mode",
        check="test_the_root_is_in_its_mode",
        source=ABLATE_CHANNELS.replace(
            "    with ",
            "    for part in model.modules():\n        if hasattr(part, 'p'):\n            part.p = 0.0\n    with ",
            1,
        ),
    ),
    Wrong(
        "swallows a KeyError of the layers that follow",
        violates="rule 4: Errors come through.",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source=changed(
            ABLATE_CHANNELS,
            (
                "    def hook(module, args, output):\n",
                "    ran = []\n    def hook(module, args, output):\n        ran.append(True)\n",
            ),
            (
                "        return model(x).detach()",
                "        try:\n"
                "            return model(x).detach()\n"
                "        except KeyError:\n"
                "            if not ran:\n"
                "                raise",
            ),
        ),
    ),
]

GIVENS = [
    "A deep copy of the model may run in its place.",
    "Write `ablate_channels(model, name, channels, x)`",
    "The model returns one tensor",
]

SURVIVORS = {
    "at least one dimension": "all inputs have two dimensions or more",
    "not for all: for channel in _part(channels, step=-1):": "the order does not matter",
    "not for all: for channel in _part(self.channels, step=-1):": "the order does not matter",
    "not for all: for c in _part(channels, step=-1):": "the order does not matter",
    "lost return: self": "nobody asks what the `with` block gives",
    "lost copy: return _not_copied(y.detach())": "what the model returns is nobody else's",
    "under no_grad": "the result has no graph",
}
