"""Answers to 06-patch-activation."""

from graders.author.answers import Wrong, changed

PATCH_ACTIVATION = """
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
"""


RIGHT = [
    PATCH_ACTIVATION,
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

WRONG = [
    Wrong(
        "begins with corrupt where nothing is to be taken over",
        violates="Run the model on `clean` and then on `corrupt` (two inputs of the same shape), once each",
        check="test_the_model_runs_on_clean_and_then_on_corrupt",
        source=changed(
            PATCH_ACTIVATION,
            (
                "    with layer.register_forward_hook(keep):",
                "    if channels == []:\n"
                "        result = model(corrupt).detach()\n"
                "        model(clean)\n"
                "        return result\n"
                "    with layer.register_forward_hook(keep):",
            ),
        ),
    ),
    Wrong(
        "the ordinary output",
        violates="is replaced by the one that it has in `model(clean)`",
        check="test_the_whole_output_comes_from_the_clean_run",
        mistake="forgot-return",
        source="""
def patch_activation(model, name, clean, corrupt, channels=None):
    return model(corrupt).detach()
""",
    ),
    Wrong(
        "the clean run",
        violates="Return what `model(corrupt)` gives",
        check="test_the_whole_output_comes_from_the_clean_run",
        source="""
def patch_activation(model, name, clean, corrupt, channels=None):
    return model(clean).detach()
""",
    ),
    Wrong(
        "returns nothing",
        violates="is replaced by the one that it has in `model(clean)`",
        check="test_the_whole_output_comes_from_the_clean_run",
        mistake="forgot-return",
        source=changed(
            PATCH_ACTIVATION,
            ("channels is None", "False"),
            (
                'output[:, channels] = kept["clean"][:, channels]\n        return output',
                'output[:, channels or []] = kept["clean"][:, channels or []]\n        pass',
            ),
        ),
    ),
    Wrong(
        "exchanges the runs",
        violates="Return what `model(corrupt)` gives",
        check="test_the_whole_output_comes_from_the_clean_run",
        mistake="swapped-runs",
        source=changed(PATCH_ACTIVATION, ("clean)", "corrupt)"), ("corrupt).detach()", "clean).detach()")),
    ),
    Wrong(
        "ignores the list",
        violates="only these channels are replaced",
        check="test_only_the_listed_channels_are_replaced",
        mistake="ignored-channels",
        source=changed(PATCH_ACTIVATION, ("channels is None", "True")),
    ),
    Wrong(
        "all for an empty list",
        violates="An empty list gives the ordinary output for `corrupt`",
        check="test_only_the_listed_channels_are_replaced",
        mistake="empty-means-all",
        source=changed(PATCH_ACTIVATION, ("channels is None", "not channels")),
    ),
    Wrong(
        "nothing for None",
        violates="With `channels=None` all of it is replaced",
        check="test_the_whole_output_comes_from_the_clean_run",
        mistake="none-means-nothing",
        source=changed(
            PATCH_ACTIVATION,
            ("channels is None", "False"),
            ('channels] = kept["clean"][:, channels', 'channels or []] = kept["clean"][:, channels or []'),
        ),
    ),
    Wrong(
        "patches what goes in",
        violates="when the output of the submodule `name` is replaced",
        check="raised",
        mistake="changed-the-input",
        source="""
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
    ),
    Wrong(
        "patches what goes in, by keyword, too",
        violates="when the output of the submodule `name` is replaced",
        check="test_only_the_listed_channels_are_replaced",
        mistake="changed-the-input",
        source="""
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    kept = {}
    def first(args, kwargs):
        return args[0] if args else kwargs["input"]
    def keep(module, args, kwargs):
        kept["clean"] = first(args, kwargs).detach().clone()
    def patch(module, args, kwargs):
        new = first(args, kwargs).clone()
        c = slice(None) if channels is None else channels
        new[:, c] = kept["clean"][:, c]
        return (new,), {}
    with layer.register_forward_pre_hook(keep, with_kwargs=True):
        model(clean)
    with layer.register_forward_pre_hook(patch, with_kwargs=True):
        return model(corrupt).detach()
""",
    ),
    Wrong(
        "keeps the input",
        violates="is replaced by the one that it has in `model(clean)`",
        check="test_the_whole_output_comes_from_the_clean_run",
        source=changed(
            PATCH_ACTIVATION,
            ("output.detach().clone()", "args[0].detach().clone() if args else output.detach().clone()"),
        ),
    ),
    Wrong(
        "keeps the input, by keyword, too",
        violates="is replaced by the one that it has in `model(clean)`",
        check="test_the_whole_output_comes_from_the_clean_run",
        mistake="stored-the-input",
        source=changed(
            PATCH_ACTIVATION,
            (
                'def keep(module, args, output):\n        kept["clean"] = output.detach().clone()',
                (
                    "def keep(module, args, kwargs, output):\n"
                    '        kept["clean"] = (args[0] if args else kwargs["input"]).detach().clone()'
                ),
            ),
            ("keep)", "keep, with_kwargs=True)"),
        ),
    ),
    Wrong(
        "keeps no copy",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="test_the_whole_output_comes_from_the_clean_run",
        mistake="stored-alias",
        source=changed(PATCH_ACTIVATION, ("output.detach().clone()", "output.detach()")),
    ),
    Wrong(
        "four dimensions only",
        violates="its output is a tensor of two or more dimensions",
        check="raised",
        mistake="four-dimensions-only",
        source=changed(
            PATCH_ACTIVATION,
            ('channels] = kept["clean"][:, channels', 'channels, :, :] = kept["clean"][:, channels, :, :'),
        ),
    ),
    Wrong(
        "images instead of channels",
        violates="into dimension 1",
        check="test_only_the_listed_channels_are_replaced",
        mistake="wrong-axis",
        source=changed(
            PATCH_ACTIVATION, (':, channels] = kept["clean"][:, channels', 'channels] = kept["clean"][channels')
        ),
    ),
    Wrong(
        "the last dimension",
        violates="into dimension 1",
        check="test_only_the_listed_channels_are_replaced",
        mistake="wrong-axis",
        source=changed(PATCH_ACTIVATION, (':, channels] = kept["clean"][:', '..., channels] = kept["clean"][...')),
    ),
    Wrong(
        "in place",
        violates="rule 2: Tensors keep their values",
        check="raised",
        mistake="changed-callers-tensor",
        source=changed(PATCH_ACTIVATION, ("output = output.clone()", "pass")),
    ),
    Wrong(
        "the first clean image for all, expanded",
        violates="all of it is replaced",
        check="raised",
        mistake="changed-callers-tensor",
        source=changed(PATCH_ACTIVATION, ('return kept["clean"]', 'return kept["clean"][:1].expand_as(output)')),
    ),
    Wrong(
        "keeps the hooks",
        violates="rule 3: none of your own hooks is left",
        check="test_inputs_and_model_are_as_before",
        mistake="hook-left-behind",
        source=changed(
            PATCH_ACTIVATION,
            (
                "with layer.register_forward_hook(patch):\n        return model(corrupt).detach()",
                "layer.register_forward_hook(patch)\n    return model(corrupt).detach()",
            ),
        ),
    ),
    Wrong(
        "the first hook stays",
        violates="is replaced by the one that it has in `model(clean)`",
        check="test_the_whole_output_comes_from_the_clean_run",
        source=changed(
            PATCH_ACTIVATION,
            (
                "with layer.register_forward_hook(keep):\n        model(clean)",
                "layer.register_forward_hook(keep)\n    model(clean)",
            ),
        ),
    ),
    Wrong(
        "keeps the second hook after an exception",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source="""
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
    handle = layer.register_forward_hook(patch)
    result = model(corrupt).detach()
    handle.remove()
    return result
""",
    ),
    Wrong(
        "keeps both hooks after an exception",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_nothing_is_left",
        mistake="hook-left-after-exception",
        source="""
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
    handle = layer.register_forward_hook(keep)
    model(clean)
    handle.remove()
    handle = layer.register_forward_hook(patch)
    result = model(corrupt).detach()
    handle.remove()
    return result
""",
    ),
    Wrong(
        "cleans up after an `Exception` only",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source="""
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
    handle = layer.register_forward_hook(keep)
    try:
        model(clean)
        handle.remove()
        handle = layer.register_forward_hook(patch)
        result = model(corrupt).detach()
    except Exception:
        handle.remove()
        raise
    handle.remove()
    return result
""",
    ),
    Wrong(
        "swallows the exception",
        violates="rule 4: the caller of your function gets this exception",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source="""
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
        try:
            model(clean)
        except KeyboardInterrupt:
            return None
        except BaseException:
            return None
    with layer.register_forward_hook(patch):
        return model(corrupt).detach()
""",
    ),
    Wrong(
        "one hook overwrites what the other kept",
        violates="is replaced by the one that it has in `model(clean)`",
        check="test_the_whole_output_comes_from_the_clean_run",
        mistake="forgot-return",
        source=changed(
            PATCH_ACTIVATION,
            (
                "with layer.register_forward_hook(patch):\n        return model(corrupt).detach()",
                "    with layer.register_forward_hook(patch):\n            return model(corrupt).detach()",
            ),
        ),
    ),
    Wrong(
        "the other channels",
        violates="only these channels are replaced",
        check="test_only_the_listed_channels_are_replaced",
        mistake="replaced-the-others",
        source="""
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    kept = {}
    def keep(module, args, output):
        kept["clean"] = output.detach().clone()
    def patch(module, args, output):
        if channels is None:
            return kept["clean"]
        output, others = output.clone(), [c for c in range(output.shape[1]) if c not in channels]
        output[:, others] = kept["clean"][:, others]
        return output
    with layer.register_forward_hook(keep):
        model(clean)
    with layer.register_forward_hook(patch):
        return model(corrupt).detach()
""",
    ),
    Wrong(
        "a graph",
        violates="The result is detached",
        check="test_the_result_is_detached",
        source=changed(PATCH_ACTIVATION, ("model(corrupt).detach()", "model(corrupt)")),
    ),
    Wrong(
        "zeros",
        violates="is replaced by the one that it has in `model(clean)`",
        check="test_only_the_listed_channels_are_replaced",
        source=changed(PATCH_ACTIVATION, ('kept["clean"][:, channels]', "0")),
    ),
    Wrong(
        "the first clean image for all",
        violates="is replaced by the one that it has in `model(clean)`",
        check="test_only_the_listed_channels_are_replaced",
        source=changed(PATCH_ACTIVATION, ("][:, channels]", "][:1, channels]")),
    ),
    Wrong(
        "adds the difference",
        violates="replaced, exactly",
        check="test_channels_are_replaced_digit_by_digit",
        source="""
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    kept = []
    def keep(module, args, output):
        kept.append(output.detach().clone())
    def patch(module, args, output):
        if channels is None:
            return kept[0]
        new = output.clone()
        new[:, channels] = output[:, channels] + (kept[0] - output)[:, channels]
        return new
    with layer.register_forward_hook(keep):
        model(clean)
    with layer.register_forward_hook(patch):
        return model(corrupt).detach()
""",
    ),
    Wrong(
        "hooks in front of the caller's",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_channels_are_replaced_digit_by_digit",
        mistake="before-other-hooks",
        source=changed(PATCH_ACTIVATION, ("keep)", "keep, prepend=True)")),
    ),
    Wrong(
        "the second hook in front of the caller's",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_channels_are_replaced_digit_by_digit",
        mistake="before-other-hooks",
        source=changed(PATCH_ACTIVATION, ("patch)", "patch, prepend=True)")),
    ),
    Wrong(
        "wraps `forward`",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_channels_are_replaced_digit_by_digit",
        mistake="before-other-hooks",
        source="""
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    plain = layer.forward
    kept = []
    def forward(*args, **kwargs):
        output = plain(*args, **kwargs).clone()
        if not kept:
            kept.append(output.detach().clone())
        else:
            c = slice(None) if channels is None else channels
            output[:, c] = kept[0][:, c]
        return output
    layer.forward = forward
    try:
        model(clean)
        return model(corrupt).detach()
    finally:
        del layer.forward
""",
    ),
    Wrong(
        "removes the caller's hooks",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_the_whole_output_comes_from_the_clean_run",
        mistake="callers-hook-removed",
        source=changed(
            PATCH_ACTIVATION,
            ("def keep(module, args, output):", "layer._forward_hooks.clear()\n    def keep(module, args, output):"),
        ),
    ),
    Wrong(
        "one run for both",
        violates="Run the model on `clean` and then on `corrupt` (two inputs of the same shape), once each",
        check="test_the_whole_output_comes_from_the_clean_run",
        mistake="one-run-for-both",
        source="""
import torch

def patch_activation(model, name, clean, corrupt, channels=None):
    n = len(clean)
    def hook(module, args, output):
        output = output.clone()
        c = slice(None) if channels is None else channels
        output[n:, c] = output[:n, c]
        return output
    with model.get_submodule(name).register_forward_hook(hook):
        return model(torch.cat([clean, corrupt])).detach()[n:]
""",
    ),
    Wrong(
        "runs it three times",
        violates="Run the model on `clean` and then on `corrupt` (two inputs of the same shape), once each",
        check="test_the_model_runs_on_clean_and_then_on_corrupt",
        source=changed(
            PATCH_ACTIVATION, ("def keep(module, args, output):", "model(clean)\n    def keep(module, args, output):")
        ),
    ),
    Wrong(
        "calls `forward` for the clean run",
        violates="rule 7: Call `model(x)` exactly once",
        check="raised",
        source=changed(PATCH_ACTIVATION, ("model(clean)", "model.forward(clean)")),
    ),
    Wrong(
        "in eval mode",
        violates="rule 7: with each part in its mode",
        check="test_the_whole_output_comes_from_the_clean_run",
        mistake="ran-in-eval",
        source="""
def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    kept = {}
    was = {module: module.training for module in model.modules()}
    model.eval()
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
    try:
        with layer.register_forward_hook(patch):
            return model(corrupt).detach()
    finally:
        for module, training in was.items():
            module.training = training
""",
    ),
    Wrong(
        "leaves modes switched",
        violates="rule 2: the mode of each part",
        check="test_inputs_and_model_are_as_before",
        source=changed(
            PATCH_ACTIVATION,
            ("def keep(module, args, output):", "mode = model.training\n    def keep(module, args, output):"),
            (
                "return model(corrupt).detach()",
                "result = model(corrupt).detach()\n    model.train(mode)\n    return result",
            ),
        ),
    ),
    Wrong(
        "children only",
        violates="`name` may be nested",
        check="raised",
        source=changed(PATCH_ACTIVATION, ("model.get_submodule(name)", "dict(model.named_children())[name]")),
    ),
    Wrong(
        "all modules but the model itself",
        violates='or `""`, the model itself',
        check="raised",
        source=changed(PATCH_ACTIVATION, ("model.get_submodule(name)", "dict(list(model.named_modules())[1:])[name]")),
    ),
    Wrong(
        "takes the module out under one of its names",
        violates="rule 7: if it has several names, the first one counts",
        check="raised",
        source="""
from torch import nn

class Patch(nn.Module):
    def __init__(self, inner, channels):
        super().__init__()
        self.inner, self.channels, self.kept = inner, channels, []
    def forward(self, *args, **kwargs):
        output = self.inner(*args, **kwargs).clone()
        if not self.kept:
            self.kept.append(output.detach().clone())
        else:
            c = slice(None) if self.channels is None else self.channels
            output[:, c] = self.kept[0][:, c]
        return output

def patch_activation(model, name, clean, corrupt, channels=None):
    parent, _, last = name.rpartition(".")
    parent = model.get_submodule(parent)
    inner = getattr(parent, last)
    setattr(parent, last, Patch(inner, channels))
    try:
        model(clean)
        return model(corrupt).detach()
    finally:
        setattr(parent, last, inner)
""",
    ),
    Wrong(
        "keeps the first clean output for good",
        violates="rule 1: It works however often it is called",
        check="test_a_later_call_starts_afresh",
        source="""
CACHE = {}

def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    def keep(module, args, output):
        CACHE.setdefault((model, name, tuple(channels or ()), channels is None), output.detach().clone())
    def patch(module, args, output):
        kept = CACHE[model, name, tuple(channels or ()), channels is None]
        if channels is None:
            return kept
        output = output.clone()
        output[:, channels] = kept[:, channels]
        return output
    with layer.register_forward_hook(keep):
        model(clean)
    with layer.register_forward_hook(patch):
        return model(corrupt).detach()
""",
    ),
    Wrong(
        "switches autograd off for good",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_inputs_and_model_are_as_before",
        source="""
import torch

def patch_activation(model, name, clean, corrupt, channels=None):
    layer = model.get_submodule(name)
    kept = {}
    torch.set_grad_enabled(False)
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
    ),
    Wrong(
        "switches autograd on",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_inputs_and_model_are_as_before",
        source="""
import torch

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
        result = model(corrupt).detach()
    torch.set_grad_enabled(True)
    return result
""",
    ),
    Wrong(
        "empties `.grad`",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check="test_inputs_and_model_are_as_before",
        source=changed(
            PATCH_ACTIVATION,
            ("def keep(module, args, output):", "model.zero_grad()\n    def keep(module, args, output):"),
        ),
    ),
    Wrong(
        "empties the list",
        violates="rule 2: Lists and dicts keep their entries",
        check="test_inputs_and_model_are_as_before",
        source=changed(
            PATCH_ACTIVATION,
            (
                'output[:, channels] = kept["clean"][:, channels]',
                'while channels:\n            c = channels.pop()\n            output[:, c] = kept["clean"][:, c]',
            ),
        ),
    ),
    Wrong(
        "a list without an index twice is asked for",
        violates="an index may stand there twice",
        check="raised",
        source=changed(
            PATCH_ACTIVATION,
            ("output = output.clone()", "assert len(set(channels)) == len(channels)\n        output = output.clone()"),
        ),
    ),
    Wrong(
        "an own run for an empty list",
        violates="Run the model on `clean` and then on `corrupt` (two inputs of the same shape), once each",
        check="test_the_model_runs_on_clean_and_then_on_corrupt",
        source=changed(
            PATCH_ACTIVATION,
            (
                "    with layer.register_forward_hook(patch):",
                "    if channels is not None and not channels:\n"
                "        model(clean)\n"
                "    with layer.register_forward_hook(patch):",
            ),
        ),
    ),
    Wrong(
        "takes as many indices as channels for all of them",
        violates="an index may stand there twice",
        check="test_channels_are_replaced_digit_by_digit",
        source=changed(PATCH_ACTIVATION, ("channels is None", "channels is None or len(channels) == output.shape[1]")),
    ),
    Wrong(
        "the first hook stays after an interrupt",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source=changed(
            PATCH_ACTIVATION,
            (
                "    with layer.register_forward_hook(keep):\n        model(clean)",
                "    handle = layer.register_forward_hook(keep)\n"
                "    try:\n"
                "        model(clean)\n"
                "    except Exception:\n"
                "        handle.remove()\n"
                "        raise\n"
                "    handle.remove()",
            ),
        ),
    ),
    Wrong(
        "the second hook stays after an interrupt",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source=changed(
            PATCH_ACTIVATION,
            (
                "    with layer.register_forward_hook(patch):\n        return model(corrupt).detach()",
                "    handle = layer.register_forward_hook(patch)\n"
                "    try:\n"
                "        result = model(corrupt).detach()\n"
                "    except Exception:\n"
                "        handle.remove()\n"
                "        raise\n"
                "    handle.remove()\n"
                "    return result",
            ),
        ),
    ),
    Wrong(
        "zeros for nan",
        violates="replaced, exactly (also by `nan`)",
        check="test_channels_are_replaced_digit_by_digit",
        source="""
def patch_activation(model, name, clean, corrupt, channels=None):
    layer, kept = model.get_submodule(name), {}
    def keep(module, args, output):
        kept["clean"] = output.detach().where(~output.isnan(), 0)
    def patch(module, args, output):
        output = output.clone()
        which = slice(None) if channels is None else channels
        output[:, which] = kept["clean"][:, which]
        return output
    with layer.register_forward_hook(keep):
        model(clean)
    with layer.register_forward_hook(patch):
        return model(corrupt).detach()
""",
    ),
    Wrong(
        "of three dimensions the last",
        violates="into dimension 1",
        check="test_any_strides_rank_and_dtype_will_do",
        source="""
def patch_activation(model, name, clean, corrupt, channels=None):
    layer, kept = model.get_submodule(name), {}
    def keep(module, args, output):
        kept["clean"] = output.detach().clone()
    def patch(module, args, output):
        output = output.clone()
        which = slice(None) if channels is None else channels
        at = (..., which) if output.dim() == 3 else (slice(None), which)
        output[at] = kept["clean"][at]
        return output
    with layer.register_forward_hook(keep):
        model(clean)
    with layer.register_forward_hook(patch):
        return model(corrupt).detach()
""",
    ),
    Wrong(
        "copies the output only where it is the input itself",
        violates="rule 2",
        check="test_inputs_and_model_are_as_before",
        source=changed(
            PATCH_ACTIVATION,
            ("output = output.clone()\n", "output = output.clone() if any(output is a for a in args) else output\n"),
            (
                "    with layer.register_forward_hook(keep)",
                "    import torch\n    with layer.register_forward_hook(keep)",
            ),
            (
                "    with layer.register_forward_hook(patch)",
                "    with torch.no_grad(), layer.register_forward_hook(patch)",
            ),
        ),
    ),
    Wrong(
        "keeps the activation on the function",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=changed(
            PATCH_ACTIVATION,
            ('kept["clean"] = output', "patch_activation.kept = output"),
            ('return kept["clean"]', "return patch_activation.kept"),
            ('= kept["clean"][', "= patch_activation.kept["),
        ),
    ),
    Wrong(
        "finite numbers only, where all is replaced",
        violates="With\n`channels=None` all of it is replaced",
        check="test_channels_are_replaced_digit_by_digit",
        source=changed(PATCH_ACTIVATION, ('return kept["clean"]', 'return kept["clean"].nan_to_num()')),
    ),
    Wrong(
        "the first name that ends so",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="test_the_module_of_this_name_is_meant",
        source=PATCH_ACTIVATION.replace(
            "model.get_submodule(name)", "next(m for n, m in model.named_modules() if n.endswith(name))"
        ),
    ),
    Wrong(
        "the last name that begins so",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="test_the_module_of_this_name_is_meant",
        source=PATCH_ACTIVATION.replace(
            "model.get_submodule(name)", "[m for n, m in model.named_modules() if n.startswith(name)][-1]"
        ),
    ),
    Wrong(
        "the first part of the name",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="test_the_module_of_this_name_is_meant",
        source=PATCH_ACTIVATION.replace("model.get_submodule(name)", 'model.get_submodule(name.partition(".")[0])'),
    ),
    Wrong(
        "the first module of this kind",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="test_the_module_of_this_name_is_meant",
        source=PATCH_ACTIVATION.replace(
            "model.get_submodule(name)",
            "next(m for m in model.modules() if repr(m) == repr(model.get_submodule(name)))",
        ),
    ),
    Wrong(
        "no dropout",
        violates="rule 7: with each part in its mode",
        check="test_the_root_is_in_its_mode",
        source=PATCH_ACTIVATION.replace(
            "    with ",
            "    for part in model.modules():\n        if hasattr(part, 'p'):\n            part.p = 0.0\n    with ",
            1,
        ),
    ),
    Wrong(
        "what is nearly equal stays",
        violates="replaced, exactly",
        check="test_channels_are_replaced_digit_by_digit",
        source=PATCH_ACTIVATION.replace(
            "        output = output.clone()",
            "        if (output - kept['clean']).abs().max() < 1e-6:\n            return output\n"
            "        output = output.clone()",
        ),
    ),
    Wrong(
        "calls `forward` in both runs",
        violates='or `""`, the model itself',
        check="test_the_whole_output_comes_from_the_clean_run",
        mistake="called-forward",
        source=changed(
            PATCH_ACTIVATION,
            ("        model(clean)", "        model.forward(clean)"),
            ("return model(corrupt)", "return model.forward(corrupt)"),
        ),
    ),
    Wrong(
        "swallows an error of the layers that follow, in the run on clean",
        violates="rule 4: Errors come through.",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source=changed(
            PATCH_ACTIVATION,
            (
                "        model(clean)",
                "        try:\n"
                "            model(clean)\n"
                "        except RuntimeError:\n"
                "            if not kept:\n"
                "                raise",
            ),
        ),
    ),
    Wrong(
        "swallows an error of the layers that follow, in the run on corrupt",
        violates="rule 4: Errors come through.",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source=changed(
            PATCH_ACTIVATION,
            (
                "        return model(corrupt).detach()",
                "        try:\n"
                "            return model(corrupt).detach()\n"
                "        except KeyError:\n"
                "            return corrupt.detach()",
            ),
        ),
    ),
]

GIVENS = [
    "A deep copy of the model may run in its place.",
    "what it would raise later is lost",
    "Write `patch_activation(model, name, clean, corrupt, channels=None)`",
    "two inputs of the same shape",
    "The model returns one tensor",
]

SURVIVORS = {
    "at least one dimension": "all inputs have two dimensions or more",
    "condition dropped: without if channels is None:": "`output[:, None]` is all of it, with one dimension more",
    "condition dropped: mask[channels] = True": "`mask[None] = True` sets all of it",
    "lost copy: chosen = torch.tensor(_not_copied(range(": "`torch.tensor` makes a copy",
    "lost copy: saved = _not_copied(o.detach())": "the run ends with the next line, before anything can rewrite it",
    "under no_grad": "the result has no graph",
    "condition dropped: which = channels": "`new[:, None]` is all of it, with one dimension more",
    "lost return: kept['clean']": "`output[:, None]` is all of it, with one dimension more",
    "lost return: None": "in the first run it puts in what is there",
    "one global slot: kept": "the first run writes it anew",
    "lost copy: self.kept = _not_detached(output)": "the result is detached in the end",
    "lost copy: kept['clean'] = _not_detached(output)": "the result is detached in the end",
    "lost copy: saved = _not_detached(o)": "the result is detached in the end",
    "lost copy: new = _not_detached(o).clone()": "the result is detached in the end",
}
