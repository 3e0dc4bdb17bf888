"""Answers to 12-count-calls-by-type."""

from graders.author.answers import Wrong

RIGHT = [
    """
from collections import Counter
from torch import nn

def count_calls_by_type(model, x):
    counts, call = Counter(), nn.Module.__call__
    def counting(self, *args, **kwargs):
        counts[type(self).__name__] += 1
        return call(self, *args, **kwargs)
    nn.Module.__call__ = counting
    try:
        model(x)
    finally:
        nn.Module.__call__ = call
    return counts
""",
    """
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = {}
    def count(module, args, output):
        name = type(module).__name__
        counts[name] = counts.get(name, 0) + 1
    handle = register_module_forward_hook(count)
    try:
        model(x)
    finally:
        handle.remove()
    return counts
""",
    """
from collections import Counter
from torch.nn.modules.module import register_module_forward_pre_hook

def count_calls_by_type(model, x):
    counter = Counter()
    with register_module_forward_pre_hook(lambda module, args: counter.update([module.__class__.__name__])):
        model(x)
    return counter
""",
    """
from collections import defaultdict
from unittest.mock import patch
from torch import nn

def count_calls_by_type(model, x):
    counts = defaultdict(int)
    call = nn.Module.__call__
    def counting(self, *args, **kwargs):
        counts[type(self).__name__] += 1
        return call(self, *args, **kwargs)
    with patch.object(nn.Module, "__call__", counting):
        model(x)
    return counts
""",
    """
import torch
from torch.nn.modules import module as everywhere

class Counting:
    def __init__(self):
        self.names = []
    def __call__(self, module, args, output):
        self.names.append(type(module).__name__)
    def __enter__(self):
        self.handle = everywhere.register_module_forward_hook(self)
        return self
    def __exit__(self, *error):
        self.handle.remove()

def count_calls_by_type(model, x):
    with torch.no_grad(), Counting() as counting:
        model(x)
    return {name: counting.names.count(name) for name in set(counting.names)}
""",
]

HOOKED = """
from collections import Counter
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    def count(module, args, output):
        counts[type(module).__name__] += 1
    handle = register_module_forward_hook(count)
    try:
        model(x)
    finally:
        handle.remove()
    return counts
"""
FIRST = "test_every_call_is_counted"
RAN = "test_the_model_ran_once_on_x"
REST = "test_nothing_changes_and_no_hook_is_left"
FAILURE = "test_an_exception_comes_through_and_leaves_no_hook"
NAME = "counts[type(module).__name__] += 1"
ENDING = "    try:\n        model(x)\n    finally:\n        handle.remove()\n"


def changed(old: str, new: str) -> str:
    """The right answer with another text in place of one."""
    assert old in HOOKED
    return HOOKED.replace(old, new)


WRONG = [
    Wrong(
        "the model itself once",
        violates="Every call `module(...)` counts",
        check="test_a_model_that_calls_itself_is_counted_each_time",
        source="""
from collections import Counter
from torch.nn.modules.module import register_module_forward_pre_hook

def count_calls_by_type(model, x):
    counts = Counter([type(model).__name__])

    def note(module, args):
        if module is not model:
            counts[type(module).__name__] += 1

    with register_module_forward_pre_hook(note):
        model(x)
    return dict(counts)
""",
    ),
    Wrong(
        "removes the hook that came last",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_a_hook_that_the_model_registered_meanwhile_stays",
        source=changed("        handle.remove()", "        handle.hooks_dict_ref().popitem()"),
    ),
    Wrong(
        "one counter, emptied at each call",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_counts_for_itself",
        source=changed("    counts = Counter()\n", "    counts.clear()\n").replace(
            "def count_calls_by_type", "counts = Counter()\n\ndef count_calls_by_type"
        ).replace("return counts", "return dict(counts)"),
    ),
    Wrong(
        "no names with an underscore",
        violates="Every call `module(...)` counts",
        check=FIRST,
        source=changed(NAME, "if type(module).__name__[0] != '_':\n            " + NAME),
    ),
    Wrong(
        "counts modules",
        violates="how many calls of modules of this class took place",
        check=FIRST,
        mistake="counted-modules",
        source="""
from collections import Counter

def count_calls_by_type(model, x):
    model(x)
    return Counter(type(module).__name__ for module in model.modules())
""",
    ),
    Wrong(
        "each module once",
        violates="and of modules that are used several times",
        check=FIRST,
        mistake="counted-modules",
        source=changed("counts = Counter()", "counts, called = Counter(), []").replace(
            NAME, f"if module not in called:\n            {NAME}\n        called.append(module)"
        ),
    ),
    Wrong(
        "one for each class",
        violates="how many calls of modules of this class took place",
        check=FIRST,
        source=changed("+= 1", "= 1"),
    ),
    Wrong(
        "only leaves",
        violates="the call of `model` itself, of the containers in it",
        check=FIRST,
        mistake="leaves-only",
        source=changed(NAME, f"if not list(module.children()):\n            {NAME}"),
    ),
    Wrong(
        "not the model itself",
        violates="the call of `model` itself",
        check=FIRST,
        mistake="model-left-out",
        source=changed(NAME, f"if module is not model:\n            {NAME}"),
    ),
    Wrong(
        "only registered modules",
        violates="Calls of modules count that are not in `model.modules()`",
        check=FIRST,
        mistake="registered-modules-only",
        source=changed(
            "handle = register_module_forward_hook(count)",
            "handles = [module.register_forward_hook(count) for module in model.modules()]",
        ).replace("        handle.remove()", "        for handle in handles:\n            handle.remove()"),
    ),
    Wrong(
        "also those in plain lists, but not those made on the way",
        violates="or are made inside `forward`",
        check=FIRST,
        source=changed(
            "handle = register_module_forward_hook(count)",
            "found = {}\n"
            "    def find(value):\n"
            "        if isinstance(value, nn.Module) and value not in found:\n"
            "            found[value] = value.register_forward_hook(count)\n"
            "            find(vars(value))\n"
            "        elif isinstance(value, dict):\n"
            "            find(list(value.values()))\n"
            "        elif isinstance(value, (list, tuple)):\n"
            "            for inner in value:\n"
            "                find(inner)\n"
            "    find(model)",
        ).replace("        handle.remove()", "        for handle in found.values():\n            handle.remove()"),
    ),
    Wrong(
        "forward itself is counted",
        violates="Running `module.forward(...)` directly is not a call",
        check=FIRST,
        source="""
from collections import Counter

def count_calls_by_type(model, x):
    counts, old = Counter(), {}
    def counting(forward):
        def run(self, *args, **kwargs):
            counts[type(self).__name__] += 1
            return forward(self, *args, **kwargs)
        return run
    for module in model.modules():
        kind = type(module)
        if kind not in old and "forward" in vars(kind):
            old[kind] = kind.forward
            kind.forward = counting(kind.forward)
    try:
        model(x)
    finally:
        for kind, forward in old.items():
            kind.forward = forward
    return counts
""",
    ),
    Wrong(
        "the name that is shown",
        violates="The class name is `type(module).__name__`",
        check=FIRST,
        mistake="another-name",
        source=changed("type(module).__name__", "module._get_name()"),
    ),
    Wrong(
        "the qualified name",
        violates="The class name is `type(module).__name__`",
        check=FIRST,
        mistake="another-name",
        source=changed("__name__", "__qualname__"),
    ),
    Wrong(
        "classes as keys",
        violates="a dict that says for each class name",
        check=FIRST,
        source=changed("type(module).__name__", "type(module)"),
    ),
    Wrong(
        "one class of each name",
        violates="Classes of the same name count together",
        check=FIRST,
        mistake="one-class-of-a-name",
        source=changed("type(module).__name__", "type(module)").replace(
            "return counts", "return {kind.__name__: count for kind, count in counts.items()}"
        ),
    ),
    Wrong(
        "the name of the class of torch",
        violates="a subclass has its own",
        check=FIRST,
        mistake="another-name",
        source=changed(
            "type(module).__name__",
            "next((c for c in type(module).__mro__ if c.__module__.startswith('torch.')), type(module)).__name__",
        ),
    ),
    Wrong(
        "a zero for modules that are not called",
        violates="classes without a call are not in the dict",
        check=FIRST,
        source=changed("counts = Counter()", "counts = {type(m).__name__: 0 for m in model.modules()}").replace(
            NAME, "counts[type(module).__name__] = counts.get(type(module).__name__, 0) + 1"
        ),
    ),
    Wrong(
        "floats",
        violates="rule 6: A number is an `int` or a `float`, as the contract says.",
        check=FIRST,
        source=changed("+= 1", "+= 1.0"),
    ),
    Wrong(
        "two runs",
        violates="rule 7: Call `model(x)` exactly once",
        check=RAN,
        source=changed("    handle =", "    model(x)\n    handle ="),
    ),
    Wrong(
        "a copy runs",
        violates="rule 7: Call `model(x)` exactly once",
        check=RAN,
        source=changed("        model(x)", "        __import__('copy').deepcopy(model)(x)"),
    ),
    Wrong(
        "zeros run through it",
        violates="rule 7: Call `model(x)` exactly once",
        check=RAN,
        source=changed("model(x)", "model(torch.zeros_like(x))"),
    ),
    Wrong(
        "in eval mode",
        violates="rule 7: with each part in its mode",
        check=FIRST,
        mistake="another-mode",
        source=changed("        model(x)\n    finally:", "        modes = [(m, m.training) for m in model.modules()]\n"
                       "        model.eval()(x)\n    finally:\n        for m, mode in modes:\n"
                       "            m.training = mode"),
    ),
    Wrong(
        "x requires grad afterwards",
        violates="rule 2: What you were given stays as it was.",
        check=REST,
        source=changed("model(x)", "model(x.requires_grad_(not x.requires_grad) if x.is_leaf else x)"),
    ),
    Wrong(
        "grad mode stays off",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check=REST,
        source=changed("    try:", "    torch.set_grad_enabled(False)\n    try:"),
    ),
    Wrong(
        "the call of all modules stays patched",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check=REST,
        source="""
from collections import Counter
from torch import nn

def count_calls_by_type(model, x):
    counts, call = Counter(), nn.Module.__call__
    def counting(self, *args, **kwargs):
        if counts is not None:
            counts[type(self).__name__] += 1
        return call(self, *args, **kwargs)
    nn.Module.__call__ = counting
    model(x)
    result, counts = dict(counts), None
    return result
""",
    ),
    Wrong(
        "the hook stays",
        violates="rule 3: none of your own hooks is left",
        check=REST,
        mistake="hook-left-behind",
        source=changed("handle.remove()", "pass"),
    ),
    Wrong(
        "everybody's global hooks are cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check=REST,
        source=changed("handle.remove()", "nn.modules.module._global_forward_hooks.clear()"),
    ),
    Wrong(
        "remove() without finally",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILURE,
        mistake="hook-left-after-exception",
        source=changed(ENDING, "    model(x)\n    handle.remove()\n"),
    ),
    Wrong(
        "remove() under except Exception",
        violates="rule 4: also for `KeyboardInterrupt`",
        check=FAILURE,
        source=changed(
            ENDING,
            "    try:\n        model(x)\n    except Exception:\n        handle.remove()\n        raise\n"
            "    handle.remove()\n",
        ),
    ),
    Wrong(
        "an exception is swallowed",
        violates="rule 4: Errors come through",
        check=FAILURE,
        source=changed("    finally:", "    except Exception:\n        pass\n    finally:"),
    ),
    Wrong(
        "one counter for all calls",
        violates="rule 1: It works however often it is called",
        check="test_another_call_counts_afresh",
        source=changed("    counts = Counter()\n", "").replace(
            "def count_calls", "counts = Counter()\n\ndef count_calls", 1
        ).replace("return counts", "return dict(counts)"),
    ),
    Wrong(
        "remembers models",
        violates="rule 1: It works however often it is called",
        check=FAILURE,
        source=changed("    counts = Counter()\n", "    if type(model) in CACHE:\n        return CACHE[type(model)]\n"
                       "    counts = CACHE[type(model)] = Counter()\n").replace(
            "def count_calls", "CACHE = {}\n\ndef count_calls", 1
        ),
    ),
    Wrong(
        "calls by keyword are not seen",
        violates="also with keyword arguments",
        check="raised",
        source=changed("        counts[", "        args[0]\n        counts["),
    ),
]  # fmt: skip

GIVENS = ["Write `count_calls_by_type(model, x)`.", "Run the model."]

SURVIVORS = {
    "at least one dimension": "a linear layer needs one",
    "not for all: return {name": "the other order",
    "under no_grad": "that is up to the answer",
}
