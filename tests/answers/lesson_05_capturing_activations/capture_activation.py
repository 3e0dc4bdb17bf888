"""Answers to 05-capture-activation."""

from graders.author.answers import Wrong, changed

CAPTURE_ACTIVATION = """
def capture_activation(model, name, x):
    kept = []
    def hook(module, args, output):
        kept.append(output.detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return kept[0]
"""

WITH_LAMBDA = """
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
        model(x)
    return kept[0]
"""


RIGHT = [
    CAPTURE_ACTIVATION,
    """
from functools import partial
import torch

def keep(found, module, args, output):
    found["value"] = output.clone().detach()

def capture_activation(model, name, x):
    found = {}
    handle = dict(model.named_modules())[name].register_forward_hook(partial(keep, found))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    return found["value"]
""",
    """
import torch

class Keeper:
    def __call__(self, module, args, output):
        with torch.no_grad():
            self.value = torch.empty_like(output).copy_(output)

def capture_activation(model, name, x):
    module, keeper = model, Keeper()
    for part in name.split("."):
        module = getattr(module, part)
    handle = module.register_forward_hook(keeper, always_call=True)
    try:
        model(x)
    finally:
        handle.remove()
    return keeper.value
""",
    """
import torch

@torch.inference_mode()
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.clone())):
        model(x)
    return kept[0]
""",
    """
def capture_activation(model, name, x):
    kept = []
    def hook(module, args, kwargs, output):
        kept.append(output.data.clone())
    handle = dict(model.named_modules())[name].register_forward_hook(hook, with_kwargs=True)
    try:
        model(x)
    except BaseException:
        handle.remove()
        raise
    handle.remove()
    return kept.pop()
""",
    """
import contextlib
import copy

def capture_activation(model, name, x):
    found = {}
    with contextlib.ExitStack() as stack:
        module = next(module for key, module in model.named_modules() if key == name)
        stack.callback(module.register_forward_hook(
            lambda m, a, o: found.__setitem__(name, copy.deepcopy(o.detach())) or o).remove)
        model(x)
    return found[name]
""",
]

WRONG = [
    Wrong(
        "the last module whose name ends so",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="test_it_has_the_shape_of_any_output",
        source="""
def capture_activation(model, name, x):
    kept = []
    modules = {part: m for n, m in model.named_modules() for part in (n, n.rpartition(".")[2])}
    with modules[name].register_forward_hook(lambda module, args, output: kept.append(output.detach().clone())):
        model(x)
    return kept[0]
""",
    ),
    Wrong(
        "one slot for all calls",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source="""
kept = {}

def capture_activation(model, name, x):
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.update(output=o.detach().clone())):
        model(x)
    return kept["output"]
""",
    ),
    Wrong(
        "only detached",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="test_the_output_of_the_layer_is_returned",
        mistake="stored-alias",
        source=changed(WITH_LAMBDA, (".clone()))", "))")),
    ),
    Wrong(
        "the input of the layer",
        violates="return the output of its submodule `name`",
        check="raised",
        mistake="stored-the-input",
        source=changed(WITH_LAMBDA, ("o.detach().clone()))", "a[0].detach().clone()))")),
    ),
    Wrong(
        "calls the submodule itself",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_output_of_the_layer_is_returned",
        mistake="skipped-the-model",
        source="""
def capture_activation(model, name, x):
    return model.get_submodule(name)(x).detach().clone()
""",
    ),
    Wrong(
        "removes no hook",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_of_the_caller_changes",
        mistake="hook-left-behind",
        source="""
def capture_activation(model, name, x):
    kept = []
    model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone()))
    model(x)
    return kept[0]
""",
    ),
    Wrong(
        "removes the hook only when all went well",
        violates="rule 3: When your function has returned, or raised",
        check="test_it_holds_when_the_model_raises",
        mistake="hook-left-after-exception",
        source="""
def capture_activation(model, name, x):
    kept = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone()))
    model(x)
    handle.remove()
    return kept[0]
""",
    ),
    Wrong(
        "runs in eval mode",
        violates="rule 7: with each part in its mode",
        check="test_the_output_of_the_layer_is_returned",
        mistake="changed-the-mode",
        source="""
def capture_activation(model, name, x):
    kept = []
    model.eval()
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
        model(x)
    return kept[0]
""",
    ),
    Wrong(
        "returns the output of the model",
        violates="return the output of its submodule `name`",
        check="test_the_output_of_the_layer_is_returned",
        source="""
def capture_activation(model, name, x):
    return model(x)
""",
    ),
    Wrong(
        "keeps the graph",
        violates="rule 6: A tensor that you return has no graph",
        check="test_the_output_of_the_layer_is_returned",
        source=changed(WITH_LAMBDA, ("o.detach().clone()))", "o.clone()))")),
    ),
    Wrong(
        "runs twice",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="ran-more-than-once",
        source=changed(WITH_LAMBDA, ("return kept[0]", "model(x)\n    return kept[0]")),
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_of_the_caller_changes",
        mistake="callers-hook-removed",
        source="""
def capture_activation(model, name, x):
    kept, module = [], model.get_submodule(name)
    module.register_forward_hook(lambda m, a, o: kept.append(o.detach().clone()))
    try:
        model(x)
    finally:
        module._forward_hooks.clear()
    return kept[0]
""",
    ),
    Wrong(
        "swallows what the model raises",
        violates="rule 4: Errors come through.",
        check="test_it_holds_when_the_model_raises",
        source="""
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
        try:
            model(x)
        except Exception:
            return None
    return kept[0]
""",
    ),
    Wrong(
        "ends the run when it has what it wants",
        violates="rule 7: exactly once, to its end",
        check="test_the_model_runs_once_as_it_is",
        mistake="stopped-the-run",
        source="""
class Stop(Exception):
    pass

def capture_activation(model, name, x):
    kept = []
    def hook(module, args, output):
        kept.append(output.detach().clone())
        raise Stop
    with model.get_submodule(name).register_forward_hook(hook):
        try:
            model(x)
        except Stop:
            pass
    return kept[0]
""",
    ),
    Wrong(
        "calls `forward`",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="called-forward",
        source=changed(WITH_LAMBDA, ("model(x)", "model.forward(x)")),
    ),
    Wrong(
        "a list",
        violates="return the output of its submodule `name`",
        check="test_the_output_of_the_layer_is_returned",
        source=changed(WITH_LAMBDA, ("kept[0]", "kept")),
    ),
    Wrong(
        "removes the hook in the first call only, and not when the model raises before",
        violates="rule 3: When your function has returned, or raised",
        check="test_it_holds_when_the_model_raises",
        source="""
def capture_activation(model, name, x):
    d = []
    def once(m, a, o):
        d.append(o.detach().clone()); h.remove()
    h = model.get_submodule(name).register_forward_hook(once)
    model(x)
    return d[0]
""",
    ),
    Wrong(
        "hands on its copy",
        violates="The model goes on with the output itself",
        check="test_the_model_goes_on_with_the_output_itself",
        mistake="returned-the-copy",
        source=changed(
            CAPTURE_ACTIVATION,
            (
                "with model.get_submodule(name).register_forward_hook(hook):",
                "    return kept[-1]\n    with model.get_submodule(name).register_forward_hook(hook):",
            ),
            ("0]", "0].clone()"),
        ),
    ),
    Wrong(
        "wraps `forward`, which does not see what a hook of the caller makes of the output",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_the_output_of_the_layer_is_returned",
        mistake="before-the-callers-hook",
        source="""
def capture_activation(model, name, x):
    module, kept = model.get_submodule(name), []
    original = module.forward
    def wrapped(*args, **kwargs):
        output = original(*args, **kwargs)
        kept.append(output.detach().clone())
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
        violates='rule 3: "As it left the module" means the value that the next part of the model gets',
        check="test_the_output_of_the_layer_is_returned",
        source="""
from torch.nn.modules.module import register_module_forward_hook

def capture_activation(model, name, x):
    target, kept = model.get_submodule(name), []
    def hook(module, args, output):
        if module is target:
            kept.append(output.detach().clone())
    with register_module_forward_hook(hook):
        model(x)
    return kept[0]
""",
    ),
    Wrong(
        "a hook before those of the caller",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_the_output_of_the_layer_is_returned",
        mistake="before-the-callers-hook",
        source=changed(CAPTURE_ACTIVATION, ("hook)", "hook, prepend=True)")),
    ),
    Wrong(
        "runs the layer a second time",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_output_of_the_layer_is_returned",
        source="""
import torch

def capture_activation(model, name, x):
    kept, module = [], model.get_submodule(name)
    def hook(module, args, kwargs):
        kept.append((args, kwargs))
    with module.register_forward_pre_hook(hook, with_kwargs=True):
        model(x)
    args, kwargs = kept[0]
    with torch.no_grad():
        return module.forward(*args, **kwargs).clone()
""",
    ),
    Wrong(
        "empties `.grad` first",
        violates="rule 2: their `.grad`",
        check="test_nothing_of_the_caller_changes",
        source="""
def capture_activation(model, name, x):
    kept = []
    model.zero_grad()
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
        model(x)
    return kept[0]
""",
    ),
    Wrong(
        "leaves the class of the layer changed",
        violates="rule 2: What you were given stays as it was.",
        check="test_nothing_of_the_caller_changes",
        source="""
def capture_activation(model, name, x):
    kept, module = [], model.get_submodule(name)
    class Watched(type(module)):
        def __call__(self, *args, **kwargs):
            output = super().__call__(*args, **kwargs)
            kept.append(output.detach().clone())
            return output
    module.__class__ = Watched
    model(x)
    return kept[0]
""",
    ),
    Wrong(
        "puts all parts into the mode of the model afterwards",
        violates="rule 2: the mode of each part",
        check="test_nothing_of_the_caller_changes",
        source=changed(WITH_LAMBDA, ("return kept[0]", "model.train(model.training)\n    return kept[0]")),
    ),
    Wrong(
        "runs in eval mode, and puts back the mode of each part",
        violates="rule 7: with each part in its mode",
        check="test_the_model_runs_once_as_it_is",
        source="""
def capture_activation(model, name, x):
    kept, modes = [], {module: module.training for module in model.modules()}
    model.eval()
    try:
        with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
            model(x)
    finally:
        for module, training in modes.items():
            module.training = training
    return kept[0]
""",
    ),
    Wrong(
        "runs the submodule in eval mode, and puts its mode back",
        violates="rule 7: with each part in its mode",
        check="test_it_has_the_shape_of_any_output",
        source="""
def capture_activation(model, name, x):
    kept, target = [], model.get_submodule(name)
    training = target.training
    target.training = False
    try:
        with target.register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
            model(x)
    finally:
        target.training = training
    return kept[0]
""",
    ),
    Wrong(
        "runs on a copy of the model",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="ran-a-copy",
        source="""
import copy

def capture_activation(model, name, x):
    kept, twin = [], copy.deepcopy(model)
    with twin.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone())):
        twin(x)
    return kept[0]
""",
    ),
    Wrong(
        "cleans up after an `Exception` only",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_it_holds_when_the_model_raises",
        source="""
def capture_activation(model, name, x):
    kept = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone()))
    try:
        model(x)
    except Exception:
        handle.remove()
        raise
    handle.remove()
    return kept[0]
""",
    ),
    Wrong(
        "always float32",
        violates="the shape and the dtype of that output",
        check="test_the_output_of_the_layer_is_returned",
        source="""
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.detach().clone().float())):
        model(x)
    return kept[0]
""",
    ),
    Wrong(
        "flattens",
        violates="the shape and the dtype of that output",
        check="test_the_output_of_the_layer_is_returned",
        source=changed(WITH_LAMBDA, (".clone()))", ".reshape(-1).clone()))")),
    ),
    Wrong(
        "remembers by name",
        violates="rule 1: on one object or on several at the same time",
        check="test_the_output_of_the_layer_is_returned",
        source="""
KEPT = {}

def capture_activation(model, name, x):
    def hook(module, args, output):
        KEPT.setdefault(name, output.detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return KEPT[name]
""",
    ),
    Wrong(
        "needs the output of the model to be a tensor",
        violates="Other parts of the model, and the model itself, may return anything.",
        check="raised",
        source=changed(WITH_LAMBDA, ("model(x)", "model(x).detach()")),
    ),
    Wrong(
        "looks at the arguments",
        violates="return the output of its submodule `name`",
        check="raised",
        source=changed(
            CAPTURE_ACTIVATION,
            (
                "kept.append(output.detach().clone())",
                "assert args[0].shape[0] == output.shape[0]\n        kept.append(output.detach().clone())",
            ),
        ),
    ),
    Wrong(
        "looks for the last part of the name",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="raised",
        source=changed(
            CAPTURE_ACTIVATION,
            (
                "model.get_submodule(name)",
                "[m for n, m in model.named_modules() if n.endswith(name.split('.')[-1])][-1]",
            ),
        ),
    ),
    Wrong(
        "at least one dimension",
        violates="The result has the values, the shape and the dtype of that output",
        check="test_it_has_the_shape_of_any_output",
        source="import torch\n" + changed(CAPTURE_ACTIVATION, ("return kept[0]", "return torch.atleast_1d(kept[0])")),
    ),
    Wrong(
        "the first name that ends so",
        violates="rule 7: called what `model.named_modules()` calls it",
        check="raised",
        source=changed(
            CAPTURE_ACTIVATION,
            ("model.get_submodule(name)", "next(m for n, m in model.named_modules() if n.endswith(name))"),
        ),
    ),
    Wrong(
        "does not copy what a layer hands on",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="test_it_is_a_copy_of_what_a_layer_hands_on",
        source=changed(
            CAPTURE_ACTIVATION,
            ("output.detach().clone()", "output.detach() if args and output is args[0] else output.detach().clone()"),
        ),
    ),
    Wrong(
        "swallows an error of the layers that follow",
        violates="rule 4: Errors come through.",
        check="test_it_holds_when_the_model_raises",
        source=changed(
            CAPTURE_ACTIVATION,
            (
                "        model(x)\n",
                "        try:\n"
                "            model(x)\n"
                "        except RuntimeError:\n"
                "            if not kept:\n"
                "                raise\n",
            ),
        ),
    ),
    Wrong(
        "the first module that prints alike",
        violates="return the output of its submodule `name`",
        check="test_it_has_the_shape_of_any_output",
        source=changed(
            CAPTURE_ACTIVATION,
            (
                "    with model.get_submodule(name).register",
                "    printed = repr(model.get_submodule(name))\n"
                "    module = next(module for module in model.modules() if repr(module) == printed)\n"
                "    with module.register",
            ),
        ),
    ),
]

GIVENS = [
    "Write `capture_activation(model, name, x)`.",
    "In this run the submodule is called once",
]

SURVIVORS = {
    "one global slot": "each run writes it anew, and what was returned is another tensor",
    "prepend=True: handle = module.register_forward_hook(keeper)": "after an exception nothing is asked for",
    "almost: handle = module.register_forward_hook(keeper, always_call=False)": "as before",
    "lost return: stack.callback(": "the output itself, or `None`: the model goes on with the same",
    "almost: stack.callback(": "as before",
    "under no_grad": "what comes back has no graph, and nobody gets the output of the model",
    "at least one dimension": "the inputs of the models have 2 or 4 dimensions",
    "not for all: module = next(": "the first name is that of the model itself, which is no submodule",
}
