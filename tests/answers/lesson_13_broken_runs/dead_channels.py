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

IS_RELU = "isinstance(m, torch.nn.ReLU)"

WRONG = [
    Wrong(
        "gives up on a model that is a ReLU itself",
        violates="The model may be a ReLU itself",
        check="test_the_names_are_those_of_the_model",
        source=changed(RIGHT[0], (IS_RELU, f"name and {IS_RELU}")),
    ),
    Wrong(
        "runs each batch twice",
        violates="Run the model once on each tensor",
        check="test_each_batch_runs_once",
        source=changed(
            RIGHT[0], ("            model(batch)\n", "            model(batch)\n            model(batch)\n")
        ),
    ),
    Wrong(
        "one dict for all calls, emptied at the beginning",
        violates="even while another call runs",
        check="raised",
        source=changed(
            RIGHT[0],
            (
                "def dead_channels(model, batches):\n    fired = {}\n",
                "fired = {}\n\ndef dead_channels(model, batches):\n    fired.clear()\n",
            ),
        ),
    ),
]

SURVIVORS = {
    "not for all: … step=-1": "the other order",
    "another method: sums = [out.mean(": "no output is below 0, so a mean of 0 is as good as a sum",
}
