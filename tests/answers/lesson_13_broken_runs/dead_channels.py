"""Answers to 13-dead-channels."""

from graders.author.answers import Wrong, changed

GIVENS = [
    "Channels lie along dimension 1 of the output, which has 2 to 5 dimensions.",
    "A ReLU may be called several times in one run.",
    "What leaves a ReLU is never negative, and never NaN.",
]

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
AS_BEFORE = "test_everything_else_is_as_it_was"

WRONG = [
    Wrong(
        "one list of handles for all calls",
        violates="rule 1: when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=changed(
            RIGHT[0],
            ("import torch\n", "import torch\n\nhandles = []\n"),
            (
                "    handles = [m.register_forward_hook(hook) for m in modules]",
                "    handles.extend(m.register_forward_hook(hook) for m in modules)",
            ),
            (
                "        for handle in handles:\n            handle.remove()",
                "        while handles:\n            handles.pop().remove()",
            ),
        ),
    ),
    Wrong(
        "a view of the output",
        violates="rule 1: in any layout",
        check="raised",
        source=changed(
            RIGHT[0],
            (".transpose(0, 1).flatten(1).any(1))", ".view(*output.shape[:2], -1).any(2).any(0))"),
        ),
    ),
    Wrong(
        "returns nothing",
        violates="Write `dead_channels(model, batches)`.",
        check=FOUND,
        source=but(("    return found", "    found")),
    ),
    Wrong(
        "keeps the last call of all",
        violates="in every call of that module, for every batch",
        check=FOUND,
        mistake="last-call-of-all",
        source=but((JOINED, "fired[name] = now")),
    ),
    Wrong(
        "keeps the first call of all",
        violates="in every call of that module, for every batch",
        check=FOUND,
        source=but((JOINED, "fired.setdefault(name, now)")),
    ),
    Wrong(
        "looks at the last batch only",
        violates="for every batch",
        check=FOUND,
        mistake="last-batch-only",
        source=but(("            model(batch)", "            fired.clear()\n            model(batch)")),
    ),
    Wrong(
        "looks at the first batch only, although all run",
        violates="for every batch",
        check=FOUND,
        mistake="first-batch-only",
        source=but(
            (
                "            model(batch)\n",
                "            model(batch)\n            for handle in handles:\n                handle.remove()\n",
            )
        ),
    ),
    Wrong(
        "keeps the last call of each run",
        violates="in every call of that module",
        check=FOUND,
        mistake="only-last-call",
        source=but(
            (JOINED, "last[name] = now"),
            ("fired, handles = {}, []", "fired, last, handles = {}, {}, []"),
            (
                "            model(batch)\n",
                "            model(batch)\n"
                "            for name, now in last.items():\n"
                "                fired[name] = fired[name] | now if name in fired else now\n",
            ),
        ),
    ),
    Wrong(
        "keeps the first call of each run",
        violates="in every call of that module",
        check=FOUND,
        mistake="only-first-call",
        source=but(
            (JOINED, "first.setdefault(name, now)"),
            ("fired, handles = {}, []", "fired, first, handles = {}, {}, []"),
            (
                "            model(batch)\n",
                "            first.clear()\n"
                "            model(batch)\n"
                "            for name, now in first.items():\n"
                "                fired[name] = fired[name] | now if name in fired else now\n",
            ),
        ),
    ),
    Wrong(
        "looks at the first input of each batch",
        violates="everything in it is exactly 0",
        check=FOUND,
        mistake="first-input-only",
        source=but(("output.detach().transpose", "output.detach()[:1].transpose")),
    ),
    Wrong(
        "takes one 0 for a dead channel",
        violates="everything in it is exactly 0",
        check=FOUND,
        mistake="some-zero",
        source=but((".any(1)", ".all(1)"), ("fired[name] | now", "fired[name] & now")),
    ),
    Wrong(
        "takes a call without anything for a dead channel",
        violates="in every call of that module",
        check=FOUND,
        mistake="dead-in-some-call",
        source=but(("fired[name] | now", "fired[name] & now")),
    ),
    Wrong(
        "counts the channels of one input along dimension 0",
        violates="Channels lie along dimension 1 of the output",
        check="raised",
        source=but((".transpose(0, 1).flatten(1) != 0).any(1)", ".flatten(1) != 0).any(1)")),
    ),
    Wrong(
        "takes very small numbers for 0",
        violates="A channel is **dead** when everything in it is exactly 0",
        check=FOUND,
        mistake="nearly-zero",
        source=but(("flatten(1) != 0)", "flatten(1) > 1e-6)")),
    ),
    Wrong(
        "looks in float32",
        violates="everything in it is exactly 0",
        check=FOUND,
        source=but(("output.detach().transpose", "output.detach().float().transpose")),
    ),
    Wrong(
        "asks for the class itself",
        violates="Subclasses of `nn.ReLU` count as well.",
        check=FOUND,
        mistake="relus-left-out",
        source=but(("if isinstance(module, nn.ReLU):", "if type(module) is nn.ReLU:")),
    ),
    Wrong(
        "asks for the name of the class",
        violates="Other modules and functions do not, such as `nn.ReLU6` or `torch.relu`.",
        check=FOUND,
        source=but(("if isinstance(module, nn.ReLU):", "if 'ReLU' in [c.__name__ for c in type(module).mro()]:")),
    ),
    Wrong(
        "takes all modules",
        violates="Return a dict: for each `nn.ReLU` with a dead channel",
        check=FOUND,
        source=but(("if isinstance(module, nn.ReLU):", "if not list(module.children()):")),
    ),
    Wrong(
        "looks one level deep",
        violates="rule 7: A part of the model is called what `model.named_modules()` calls it",
        check=FOUND,
        mistake="relus-left-out",
        source=but(("model.named_modules()", "model.named_children()")),
    ),
    Wrong(
        "lists ReLUs without dead channels",
        violates="for each `nn.ReLU` with a dead channel",
        check=FOUND,
        mistake="empty-lists",
        source=but(("        if dead:\n            found[name] = dead", "        found[name] = dead")),
    ),
    Wrong(
        "lists the channels that fire",
        violates="an ascending list of its dead channels",
        check=FOUND,
        mistake="listed-the-living",
        source=but(("if not on]", "if on]")),
    ),
    Wrong(
        "returns a tensor of channels",
        violates="an ascending list of its dead channels, as `int`s",
        check=FOUND,
        source=but(("found[name] = dead", "found[name] = torch.tensor(dead)")),
    ),
    Wrong(
        "takes a ReLU that is never called for dead",
        violates="One that is never called is not in the dict",
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
        "also names a ReLU that is not registered",
        violates="nor is one that is not in `model.named_modules()`",
        check=FOUND,
        source="""
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

def dead_channels(model, batches):
    names, fired = {m: name for name, m in model.named_modules()}, {}
    def hook(module, args, output):
        if isinstance(module, nn.ReLU):
            now = (output.detach().transpose(0, 1).flatten(1) != 0).any(1)
            name = names.get(module, "?")
            fired[name] = fired[name] | now if name in fired else now
    with register_module_forward_hook(hook):
        for batch in batches:
            model(batch)
    dead = {name: [c for c, on in enumerate(now.tolist()) if not on] for name, now in fired.items()}
    return {name: channels for name, channels in dead.items() if channels}
""",
    ),
    Wrong(
        "gives up on a model that is a ReLU itself",
        violates="The model may be a ReLU itself; its name is then",
        check=FOUND,
        source=but(("if isinstance(module, nn.ReLU):", "if name and isinstance(module, nn.ReLU):")),
    ),
    Wrong(
        "keeps the outputs themselves, and looks at them in the end",
        violates="rule 7: also when a later layer overwrites this value in place",
        check=FOUND,
        mistake="looked-too-late",
        source=but(
            ("            now = (output.detach().transpose(0, 1).flatten(1) != 0).any(1)\n", ""),
            (JOINED, "kept.append((name, output.detach()))"),
            ("fired, handles = {}, []", "fired, kept, handles = {}, [], []"),
            (
                "    found = {}\n",
                "    found = {}\n"
                "    for name, output in kept:\n"
                "        now = (output.transpose(0, 1).flatten(1) != 0).any(1)\n"
                "        fired[name] = fired[name] | now if name in fired else now\n",
            ),
        ),
    ),
    Wrong(
        "looks before the hooks of the caller",
        violates='rule 3: "As it left the module" means the value that the next part of the model gets',
        check=FOUND,
        mistake="before-the-callers-hook",
        source=but(("register_forward_hook(hook)", "register_forward_hook(hook, prepend=True)")),
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
        "joins the batches into one",
        violates="Sizes other than the number of channels may differ from call to call.",
        check="raised",
        source=but(("        for batch in batches:\n            model(batch)", "        model(torch.cat(batches))")),
    ),
    Wrong(
        "expects a batch",
        violates="`batches` may be empty",
        check="raised",
        source=but(("    try:\n", "    model(batches[0])\n    try:\n")),
    ),
    Wrong(
        "runs each batch twice",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_each_batch_runs_once",
        source=but(("            model(batch)\n", "            model(batch)\n            model(batch)\n")),
    ),
    Wrong(
        "runs in eval mode",
        violates="rule 7: with each part in its mode",
        check=FOUND,
        mistake="in-eval-mode",
        source=but(
            ("    try:\n", "    modes = [(m, m.training) for m in model.modules()]\n    model.eval()\n    try:\n"),
            (
                "    finally:\n",
                "    finally:\n        for module, training in modes:\n            module.training = training\n",
            ),
        ),
    ),
    Wrong(
        "empties the list of the caller",
        violates="rule 2",
        check=AS_BEFORE,
        source=but(
            ("        for batch in batches:\n", "        while batches:\n            batch = batches.pop(0)\n"),
        ),
    ),
    Wrong(
        "leaves its hooks",
        violates="rule 3",
        check=AS_BEFORE,
        source=but(("            handle.remove()", "            pass")),
    ),
    Wrong(
        "leaves its hooks after an exception",
        violates="rule 4",
        check=AS_BEFORE,
        source=but(("    finally:\n", "    except ZeroDivisionError:\n        pass\n    else:\n")),
    ),
    Wrong(
        "swallows exceptions",
        violates="rule 4",
        check="test_exceptions_come_through",
        source=but(("    finally:\n", "    except BaseException:\n        pass\n    finally:\n")),
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
        "counts `nn.ReLU6`",
        violates="Other modules and functions do not, such as `nn.ReLU6`",
        check="test_a_call_inside_a_call_changes_nothing",
        source=but(("if isinstance(module, nn.ReLU):", "if isinstance(module, (nn.ReLU, nn.ReLU6)):")),
    ),
    Wrong(
        "remembers what it saw in other calls",
        violates="rule 1",
        check=FOUND,
        source=but(
            ("def dead_channels(model, batches):\n", "fired = {}\n\ndef dead_channels(model, batches):\n"),
            ("fired, handles = {}, []", "handles = []"),
        ),
    ),
    Wrong(
        "the mean is 0",
        violates="everything in it is exactly 0",
        check="test_a_tiny_number_is_not_0_and_an_infinite_one_neither",
        source=but(("flatten(1) != 0).any(1)", "flatten(1).mean(1) != 0)")),
    ),
    Wrong(
        "an infinite number is none",
        violates="everything in it is exactly 0",
        check="test_a_tiny_number_is_not_0_and_an_infinite_one_neither",
        source=but(("(output.detach()", "(output.detach().nan_to_num(posinf=0.0)")),
    ),
    Wrong(
        "equal batches in one run",
        violates="Run the model on each tensor in the list `batches`.",
        check="test_each_batch_runs_once",
        source=but(
            (
                "        for batch in batches:\n",
                "        same = len({batch.shape[1:] for batch in batches}) == 1 and not model.training\n"
                "        for batch in [torch.cat(list(batches))] if same else batches:\n",
            ),
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
