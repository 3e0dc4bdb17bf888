"""Answers to 05-save-activation."""

from graders.author.answers import Wrong, changed

SAVE_ACTIVATION = """
import torch

def save_activation(model, name, x, path):
    outputs = []
    def hook(module, args, output):
        outputs.append(output.detach().clone())
    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        model(x)
    finally:
        handle.remove()
    torch.save(outputs[0], path)
    return tuple(outputs[0].shape)
"""

WITH_LAMBDA = """
import torch

def save_activation(model, name, x, path):
    outs = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.detach().clone())):
        model(x)
    torch.save(outs[0], path)
    return tuple(outs[0].shape)
"""


RIGHT = [
    """
import torch

def save_activation(model, name, x, path):
    calls = []
    def hook(module, args, output):
        if not calls:
            calls.append(output.detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    torch.save(calls[0], path)
    return tuple(calls[0].shape)
""",
    """
import torch

def save_activation(model, name, x, path):
    shape = []
    def hook(module, args, output):
        handle.remove()
        torch.save(output.detach().clone().cpu(), path)
        shape.extend(output.shape)
    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        model(x)
    finally:
        handle.remove()
    return tuple(shape)
""",
    """
import torch
from pathlib import Path

class First:
    value = None
    def __call__(self, module, args, output):
        if self.value is None:
            self.value = torch.tensor(output.tolist(), dtype=output.dtype).reshape(output.shape)

def save_activation(model, name, x, path):
    first = First()
    handle = model.get_submodule(name).register_forward_hook(first)
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    with Path(path).open("wb") as file:
        torch.save(first.value, file)
    return first.value.shape
""",
    """
import torch

def save_activation(model, name, x, path):
    outs = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.detach().cpu().clone()))
    try:
        model(x)
    finally:
        handle.remove()
    torch.save(outs[0], str(path))
    return tuple(outs[0].size())
""",
    """
import torch

def save_activation(model, name, x, path):
    got = []
    m = model.get_submodule(name)
    def hook(m, a, o):
        handle.remove()
        got.append(torch.tensor(o.detach().numpy().copy()))
    handle = m.register_forward_hook(hook)
    try: model(x)
    finally: handle.remove()
    torch.save(got[0], path, _use_new_zipfile_serialization=True)
    return tuple(got[0].size())
""",
    """
import io
from pathlib import Path
import torch

def save_activation(model, name, x, path):
    first = {}
    def hook(module, args, output):
        first.setdefault("output", output.detach().clone().to("cpu"))
    with torch.no_grad(), model.get_submodule(name).register_forward_hook(hook):
        model(x)
    buffer = io.BytesIO()
    torch.save(first["output"], buffer)
    Path(path).write_bytes(buffer.getvalue())
    return first["output"].size()
""",
]

WRONG = [
    Wrong(
        "keeps the graph",
        violates="one plain CPU tensor that does not require grad",
        check="test_the_file_holds_the_first_output",
        mistake="saved-with-grad",
        source=changed(WITH_LAMBDA, ("o.detach().clone()))", "o.clone()))")),
    ),
    Wrong(
        "only detached",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="test_the_file_holds_the_first_output",
        mistake="stored-alias",
        source=changed(WITH_LAMBDA, (".clone()))", "))")),
    ),
    Wrong(
        "saves at each call",
        violates="Write the output of the *first* call of its submodule `name`",
        check="test_the_file_holds_the_first_output",
        mistake="only-last-call",
        source="""
import torch

def save_activation(model, name, x, path):
    shape = []
    def hook(module, args, output):
        shape[:] = output.shape
        torch.save(output.detach().clone(), path)
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return tuple(shape)
""",
    ),
    Wrong(
        "saves a view",
        violates="It holds no values besides these",
        check="test_the_file_holds_its_own_values_only",
        mistake="saved-the-whole-storage",
        source="""
import torch

def save_activation(model, name, x, path):
    shape = []
    def hook(module, args, output):
        if not shape:
            shape.extend(output.shape)
            torch.save(output.detach(), path)
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return tuple(shape)
""",
    ),
    Wrong(
        "keeps an old file",
        violates="A file that is already there is overwritten.",
        check="test_the_file_holds_the_first_output",
        mistake="kept-the-old-file",
        source="""
import torch
from pathlib import Path

def save_activation(model, name, x, path):
    shape = []
    def hook(module, args, output):
        shape[:] = output.shape
        if not Path(path).exists():
            torch.save(output.detach().clone(), path)
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return tuple(shape)
""",
    ),
    Wrong(
        "removes no hook",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_of_the_caller_changes",
        mistake="hook-left-behind",
        source="""
import torch

def save_activation(model, name, x, path):
    outs = []
    model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.detach().clone()))
    model(x)
    torch.save(outs[0], path)
    return tuple(outs[0].shape)
""",
    ),
    Wrong(
        "removes the hook only when all went well",
        violates="rule 3: When your function has returned, or raised",
        check="test_it_holds_when_the_model_raises",
        mistake="hook-left-after-exception",
        source="""
import torch

def save_activation(model, name, x, path):
    outs = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: outs.append(o.detach().clone()))
    model(x)
    handle.remove()
    torch.save(outs[0], path)
    return tuple(outs[0].shape)
""",
    ),
    Wrong(
        "writes nothing",
        violates="Write the output of the *first* call of its submodule `name`",
        check="test_the_file_holds_the_first_output",
        source="""
def save_activation(model, name, x, path):
    return (2, 3)
""",
    ),
    Wrong(
        "saves a list",
        violates="one plain CPU tensor",
        check="test_the_file_holds_the_first_output",
        source=changed(WITH_LAMBDA, ("outs[0],", "outs,")),
    ),
    Wrong(
        "saves a contiguous view",
        violates="the output may be a small view into a large tensor",
        check="test_the_file_holds_its_own_values_only",
        source="""
import torch

def save_activation(model, name, x, path):
    outs = []
    def hook(m, a, o):
        if not outs:
            outs.append(o.shape)
            torch.save(o.detach().contiguous(), path)
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return tuple(outs[0])
""",
    ),
    Wrong(
        "saves with numpy",
        violates="with `torch.save`",
        check="test_the_file_holds_the_first_output",
        source=changed(
            WITH_LAMBDA,
            ("import torch", "import numpy as np"),
            ("torch.save(outs[0], path)", 'with open(path, "wb") as file:\n        np.save(file, outs[0].numpy())'),
        ),
    ),
    Wrong(
        "returns a list",
        violates="return the shape of that output as a tuple of ints",
        check="test_the_shape_is_returned",
        source=changed(WITH_LAMBDA, ("tuple(outs", "list(outs")),
    ),
    Wrong(
        "saves a parameter",
        violates="one plain CPU tensor",
        check="test_the_file_holds_the_first_output",
        source="""
import torch
from torch import nn

def save_activation(model, name, x, path):
    s = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: s.append(o.detach().clone())): model(x)
    torch.save(nn.Parameter(s[0], requires_grad=False), path)
    return tuple(s[0].shape)
""",
    ),
    Wrong(
        "always float32",
        violates="with the values and the dtype of the output",
        check="test_the_file_holds_the_first_output",
        source="""
import torch

def save_activation(model, name, x, path):
    outputs = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, output: outputs.append(output.detach().clone())):
        model(x)
    torch.save(outputs[0].float(), path)
    return tuple(outputs[0].shape)
""",
    ),
    Wrong(
        "another suffix",
        violates="to the file `path`",
        check="test_the_file_holds_the_first_output",
        mistake="another-file",
        source=changed(
            SAVE_ACTIVATION,
            (
                "torch.save(outputs[0], path)",
                "from pathlib import Path\n    torch.save(outputs[0], Path(path).with_suffix('.pt'))",
            ),
        ),
    ),
    Wrong(
        "a second file beside it",
        violates="No other file is left behind.",
        check="test_no_other_file_is_written",
        mistake="another-file",
        source=changed(
            SAVE_ACTIVATION,
            (
                "return tuple(outputs[0].shape)",
                "torch.save(outputs[0].shape, f'{path}.shape')\n    return tuple(outputs[0].shape)",
            ),
        ),
    ),
    Wrong(
        "takes the path for a text",
        violates="`path` is a `str` or a `pathlib.Path`",
        check="raised",
        source=changed(SAVE_ACTIVATION, ("0], path)", "0], path + '')")),
    ),
    Wrong(
        "takes the path for a `Path`",
        violates="`path` is a `str` or a `pathlib.Path`",
        check="raised",
        source=changed(SAVE_ACTIVATION, ("0], path)", "0], path.absolute())")),
    ),
    Wrong(
        "hands on the copies",
        violates="The model goes on with the outputs themselves",
        check="test_the_model_goes_on_with_the_outputs_themselves",
        mistake="returned-the-copy",
        source=changed(
            SAVE_ACTIVATION,
            (
                "handle = model.get_submodule(name).register_forward_hook(hook)",
                "    return output.detach()\n    handle = model.get_submodule(name).register_forward_hook(hook)",
            ),
        ),
    ),
    Wrong(
        "hands on the list",
        violates="The model goes on with the outputs themselves",
        check="raised",
        mistake="returned-a-list",
        source=changed(WITH_LAMBDA, ("outs.append(o.detach().clone()))", "outs or outs.append(o.detach().clone()))")),
    ),
    Wrong(
        "hooks before those of the caller",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_the_file_holds_the_first_output",
        mistake="before-the-callers-hook",
        source=changed(SAVE_ACTIVATION, ("hook)", "hook, prepend=True)")),
    ),
    Wrong(
        "calls `forward`",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="called-forward",
        source=changed(SAVE_ACTIVATION, ("model(x)", "model.forward(x)")),
    ),
    Wrong(
        "runs in eval mode",
        violates="rule 7: with each part in its mode",
        check="test_the_model_runs_once_as_it_is",
        mistake="changed-the-mode",
        source=changed(
            SAVE_ACTIVATION,
            ("model(x)", "modes = [(m, m.training) for m in model.modules()]\n        model.eval()\n        model(x)"),
            ("finally:", "    for m, training in modes:\n            m.training = training\n    finally:"),
        ),
    ),
    Wrong(
        "ends the run after the first call",
        violates="rule 7: to its end",
        check="test_the_model_runs_once_as_it_is",
        source="""
import torch

class Enough(Exception):
    pass

def save_activation(model, name, x, path):
    outputs = []
    def hook(module, args, output):
        outputs.append(output.detach().clone())
        raise Enough
    with model.get_submodule(name).register_forward_hook(hook):
        try:
            model(x)
        except Enough:
            pass
    torch.save(outputs[0], path)
    return tuple(outputs[0].shape)
""",
    ),
    Wrong(
        "runs twice",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="ran-more-than-once",
        source=changed(SAVE_ACTIVATION, ("finally:", "    model(x)\n    finally:")),
    ),
    Wrong(
        "freezes the parameters",
        violates="rule 2: Tensors keep their values, their `requires_grad`",
        check="test_nothing_of_the_caller_changes",
        source=changed(
            SAVE_ACTIVATION,
            ("def hook(module, args, output):", "model.requires_grad_(False)\n    def hook(module, args, output):"),
        ),
    ),
    Wrong(
        "empties `.grad` first",
        violates="rule 2: their `.grad`",
        check="test_nothing_of_the_caller_changes",
        source=changed(
            SAVE_ACTIVATION,
            ("def hook(module, args, output):", "model.zero_grad()\n    def hook(module, args, output):"),
        ),
    ),
    Wrong(
        "puts all parts into the mode of the model",
        violates="rule 2: the mode of each part",
        check="test_nothing_of_the_caller_changes",
        source=changed(SAVE_ACTIVATION, ("finally:", "    model.train(model.training)\n    finally:")),
    ),
    Wrong(
        "cleans up after an `Exception` only",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_it_holds_when_the_model_raises",
        source=changed(
            SAVE_ACTIVATION,
            ("finally", "except Exception"),
            ("torch.save(outputs[0], path)", "    raise\n    handle.remove()\n    torch.save(outputs[0], path)"),
        ),
    ),
    Wrong(
        "swallows what the model raises",
        violates="rule 4: Errors come through.",
        check="test_it_holds_when_the_model_raises",
        source="""
import torch

def save_activation(model, name, x, path):
    outputs = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: outputs.append(o.detach().clone())):
        try:
            model(x)
        except Exception:
            return None
    torch.save(outputs[0], path)
    return tuple(outputs[0].shape)
""",
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_of_the_caller_changes",
        mistake="callers-hook-removed",
        source=changed(SAVE_ACTIVATION, ("handle.remove()", "model.get_submodule(name)._forward_hooks.clear()")),
    ),
    Wrong(
        "one list for all calls",
        violates="rule 1: on one object or on several at the same time",
        check="test_the_file_holds_the_first_output",
        source="""
OUTPUTS = []

import torch

def save_activation(model, name, x, path):
    outputs = OUTPUTS
    def hook(module, args, output):
        outputs.append(output.detach().clone())
    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        model(x)
    finally:
        handle.remove()
    torch.save(outputs[0], path)
    return tuple(outputs[0].shape)
""",
    ),
    Wrong(
        "the shape without the batch",
        violates="return the shape of that output",
        check="test_the_shape_is_returned",
        source=changed(SAVE_ACTIVATION, (".shape)", ".shape[1:])")),
    ),
    Wrong(
        "without dimensions of size 1",
        violates="return the shape of that output",
        check="test_it_has_the_shape_of_any_output",
        source=changed(SAVE_ACTIVATION, ("output.detach().clone()", "output.detach().clone().squeeze(-1)")),
    ),
    Wrong(
        "saves a view into a stack",
        violates="It holds no values besides these",
        check="test_the_file_holds_its_own_values_only",
        source=changed(SAVE_ACTIVATION, ("torch.save(outputs[0]", "torch.save(torch.stack([outputs[0]] * 2)[0]")),
    ),
    Wrong(
        "the shape of the last call",
        violates="return the shape of that output",
        check="test_the_shape_is_returned",
        source=changed(SAVE_ACTIVATION, ("tuple(outputs[0].shape)", "tuple(outputs[-1].shape)")),
    ),
    Wrong(
        "adds a suffix where there is none",
        violates="need not end in `.pt`",
        check="test_no_other_file_is_written",
        mistake="another-file",
        source=changed(
            SAVE_ACTIVATION,
            (
                "torch.save(outputs[0], path)",
                'torch.save(outputs[0], path if "." in str(path).split("/")[-1] else f"{path}.pt")',
            ),
        ),
    ),
    Wrong(
        "writes to each path once",
        violates="A file that is already there is overwritten.",
        check="test_a_file_of_your_own_is_overwritten",
        source=changed(
            SAVE_ACTIVATION,
            ("import torch\n", "import torch\n\nwritten = set()\n"),
            (
                "torch.save(outputs[0], path)",
                "if str(path) not in written:\n        torch.save(outputs[0], path)\n    written.add(str(path))",
            ),
        ),
    ),
    Wrong(
        "goes on with a copy after the first call",
        violates="The model goes on with the outputs themselves",
        check="test_the_model_goes_on_with_the_outputs_themselves",
        mistake="returned-the-copy",
        source=changed(
            SAVE_ACTIVATION,
            (
                "outputs.append(output.detach().clone())",
                "outputs.append(output.detach().clone())\n        return outputs[-1].clone() if outputs[1:] else None",
            ),
        ),
    ),
    Wrong(
        "swallows an error of the layers that follow",
        violates="rule 4: Errors come through.",
        check="test_it_holds_when_the_model_raises",
        source=changed(
            SAVE_ACTIVATION,
            (
                "        model(x)\n    finally",
                "        model(x)\n    except RuntimeError:\n        if not outputs:\n            raise\n    finally",
            ),
        ),
    ),
    Wrong(
        "ends the run when it has what it wants",
        violates="rule 7: exactly once, to its end",
        check="test_the_model_runs_once_as_it_is",
        mistake="stopped-the-run",
        source=changed(
            SAVE_ACTIVATION,
            ("def save_activation", "class Stop(Exception):\n    pass\n\ndef save_activation"),
            (
                "        outputs.append(output.detach().clone())",
                "        outputs.append(output.detach().clone())\n        raise Stop",
            ),
            ("        model(x)\n    finally", "        model(x)\n    except Stop:\n        pass\n    finally"),
        ),
    ),
    Wrong(
        "runs on a copy of the model",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="ran-a-copy",
        source=changed(
            SAVE_ACTIVATION,
            ("def save_activation", "import copy\n\ndef save_activation"),
            ("    outputs = []", "    model, outputs = copy.deepcopy(model), []"),
        ),
    ),
]

GIVENS = [
    "Write `save_activation(model, name, x, path)`.",
    "The submodule is called once or more often",
    "If the model raises, you may write the file or not.",
    "Run the model on `x`.",
]

SURVIVORS = {
    "at least one dimension": "the inputs of the models have 2 or 4 dimensions",
    "under no_grad": "what is saved has no graph, and nobody gets the output of the model",
    "a hook that works at times: @_only_the_first_call def hook(": "only the first call counts",
    "a hook that works at times: @_only_three_calls def hook(": "as before",
    "a hook that works at times: handle = model.get_submodule(name).register_forward_hook("
    "_only_the_first_call(": "as before",
    "a hook that works at times: handle = model.get_submodule(name).register_forward_hook("
    "_only_three_calls(": "as before",
    "condition dropped: calls.append(": "only the first entry is read",
    "lost copy: return _not_copied(": "a `torch.Size` is a tuple",
    "lost copy: got.append(torch.tensor(_not_copied(": "`torch.tensor` copies",
    "lost statement: without handle.remove()": "the other `remove()` takes the hook away",
    "almost: torch.save(got[0], path, _use_new_zipfile_serialization=": "`torch.load` reads both formats",
}
