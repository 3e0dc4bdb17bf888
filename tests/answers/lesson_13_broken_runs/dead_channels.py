"""Answers to 13-dead-channels."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
import torch

def dead_channels(model, batches):
    fired = {}
    def hook(module, args, output):
        fired.setdefault(module, []).append((output != 0).transpose(0, 1).flatten(1).any(1))
    modules = {m: name for name, m in model.named_modules() if isinstance(m, torch.nn.ReLU)}
    handles = [m.register_forward_hook(hook) for m in modules]
    try:
        for batch in batches:
            model(batch)
    finally:
        for handle in handles:
            handle.remove()
    found = {}
    for m, calls in fired.items():
        dead = [c for c, any_call in enumerate(zip(*(call.tolist() for call in calls))) if not any(any_call)]
        if dead:
            found[modules[m]] = dead
    return found
""",
    # sets of channels, in a context
    """
import contextlib
from functools import partial
import torch

@contextlib.contextmanager
def hooked(modules, hook):
    handles = []
    try:
        for name, module in modules.items():
            handles.append(module.register_forward_hook(partial(hook, name)))
        yield
    finally:
        [handle.remove() for handle in handles]

def dead_channels(model, batches):
    dead = {}

    def look(name, module, args, output):
        zero = {c for c in range(output.size(1)) if not output.select(1, c).any()}
        dead[name] = dead[name] & zero if name in dead else zero

    modules = {name: m for name, m in model.named_modules() if isinstance(m, torch.nn.ReLU)}
    with hooked(modules, look), torch.no_grad():
        for batch in batches:
            model(batch)
    return {name: sorted(channels) for name, channels in dead.items() if channels}
""",
    # copies of all outputs, looked at in the end, with an ExitStack
    """
from contextlib import ExitStack
from torch import nn

class Recorder:
    def __init__(self):
        self.outputs = []
    def __call__(self, module, args, output):
        self.outputs.append(output.detach().clone())
    def dead(self):
        sums = [out.sum(dim=[d for d in range(out.dim()) if d != 1]) for out in self.outputs]
        return [c for c in range(len(sums[0])) if all(s[c] == 0 for s in sums)]

def dead_channels(model, batches):
    recorders = {}
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                recorders[name] = Recorder()
                stack.enter_context(module.register_forward_hook(recorders[name]))
        for batch in batches:
            model(batch)
    return {name: r.dead() for name, r in recorders.items() if r.outputs and r.dead()}
""",
]

BASE = """
import torch
from torch import nn

def dead_channels(model, batches):
    fired, handles = {}, []

    def watch(name, module):
        def hook(module, args, output):
            now = (output.detach().transpose(0, 1).flatten(1) != 0).any(1)
            fired[name] = fired[name] | now if name in fired else now
        handles.append(module.register_forward_hook(hook))

    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                watch(name, module)
        for batch in batches:
            model(batch)
    finally:
        for handle in handles:
            handle.remove()
    found = {}
    for name, channels in fired.items():
        dead = [c for c, on in enumerate(channels.tolist()) if not on]
        if dead:
            found[name] = dead
    return found
"""


def but(*places: tuple[str, str]) -> str:
    """The right answer with some of its text replaced."""
    return changed(BASE, *places)


JOINED = "fired[name] = fired[name] | now if name in fired else now"
FOUND = "test_the_dead_channels_are_found"

WRONG = [
    Wrong(
        "keeps the first call of all",
        violates="in every call, for every batch",
        check=FOUND,
        source=but((JOINED, "fired.setdefault(name, now)")),
    ),
    Wrong(
        "counts the channels of one input along dimension 0",
        violates="Channels lie along dimension 1 of the output",
        check="raised",
        source=but((".transpose(0, 1).flatten(1) != 0).any(1)", ".flatten(1) != 0).any(1)")),
    ),
    Wrong(
        "takes all modules",
        violates="for\n    each `nn.ReLU` with dead channels",
        check=FOUND,
        source=but(("if isinstance(module, nn.ReLU):", "if not list(module.children()):")),
    ),
    Wrong(
        "counts `nn.ReLU6`",
        violates="and nothing else that computes the same",
        check=FOUND,
        source=but(("if isinstance(module, nn.ReLU):", "if isinstance(module, (nn.ReLU, nn.ReLU6)):")),
    ),
    Wrong(
        "takes a ReLU that is never called for dead",
        violates="or never: then it is not in the dict",
        check=FOUND,
        source=but(
            (
                "    found = {}\n",
                "    found = {}\n"
                "    width = max([len(now) for now in fired.values()], default=1)\n"
                "    for name, module in model.named_modules():\n"
                "        if isinstance(module, nn.ReLU):\n"
                "            fired.setdefault(name, torch.zeros(width, dtype=torch.bool))\n",
            )
        ),
    ),
    Wrong(
        "gives up on a model that is a ReLU itself",
        violates="The model may be a ReLU itself",
        check="test_the_names_are_those_of_the_model",
        source=but(("if isinstance(module, nn.ReLU):", "if name and isinstance(module, nn.ReLU):")),
    ),
    Wrong(
        "one hook for all modules, which fires before those of the caller",
        violates='rule 3: "As it left the module" means the value that the next part of the model gets',
        check=FOUND,
        mistake="before-the-callers-hook",
        source="""
import torch
from torch.nn.modules.module import register_module_forward_hook

def dead_channels(model, batches):
    names = {module: name for name, module in model.named_modules() if isinstance(module, torch.nn.ReLU)}
    dead = {}
    def look(module, args, output):
        if module in names:
            zero = {c for c in range(output.size(1)) if not output.select(1, c).any()}
            dead[module] = dead[module] & zero if module in dead else zero
    with register_module_forward_hook(look):
        for batch in batches:
            model(batch)
    return {names[module]: sorted(channels) for module, channels in dead.items() if channels}
""",
    ),
    Wrong(
        "runs each batch twice",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_each_batch_runs_once",
        source=but(("            model(batch)\n", "            model(batch)\n            model(batch)\n")),
    ),
    Wrong(
        "one dict for all calls, emptied at the beginning",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=but(
            ("def dead_channels(model, batches):\n", "fired = {}\n\ndef dead_channels(model, batches):\n"),
            ("fired, handles = {}, []", "handles = fired.clear() or []"),
        ),
    ),
    Wrong(
        "remembers what it saw in other calls",
        violates="rule 1",
        check="test_each_call_begins_anew",
        source=but(
            ("def dead_channels(model, batches):\n", "fired = {}\n\ndef dead_channels(model, batches):\n"),
            ("fired, handles = {}, []", "handles = []"),
        ),
    ),
]

ORDER = "the other order"
SURVIVORS = {
    "at least one dimension": "channels need a dimension",
    "not for all: modules = {": ORDER,
    "not for all: handles = [": ORDER,
    "not for all: for name, module in _part(": ORDER,
    "not for all: for m, calls in _part(fired.items(), step=-1)": ORDER,
    "not for all: return {name: sorted(channels) for name, channels in _part(dead.items(), step=-1)": ORDER,
    "not for all: return {name: channels for name, channels in _part(dead.items(), step=-1)": ORDER,
    "not for all: return {name: r.dead() for name, r in _part(recorders.items(), step=-1)": ORDER,
    "not for all: dead = {name: (~channels).nonzero().flatten().tolist() for name, channels in _part(": ORDER,
    "not for all: [handle.remove() for handle in _part(handles, step=-1)]": ORDER,
    "not for all: zero = {c for c in _part(range(output.size(1)), step=-1)": ORDER,
    "not for all: sums = [out.sum(dim=[d for d in _part(range(out.dim()), step=-1)": ORDER,
    "another method: sums = [out.mean(": "no output is below 0, so a mean of 0 is as good as a sum",
    "lost copy: self.outputs.append(_not_detached(output).clone())": "a graph that is kept costs memory, and no more",
    "under no_grad": "that is up to the answer",
    "one global slot: handles = globals()": "a handle that is removed twice does no harm",
}
