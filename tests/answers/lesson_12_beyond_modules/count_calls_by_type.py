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
    # leaves out a run of another model in the middle of this one
    """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

RUNNING = []

def count_calls_by_type(model, x):
    counts = Counter()
    def count(module, args, output):
        if RUNNING[-1] is counts:
            counts[type(module).__name__] += 1
    RUNNING.append(counts)
    handle = register_module_forward_hook(count)
    try:
        model(x)
    finally:
        handle.remove()
        RUNNING.pop()
    return counts
""",
]

HOOKED = """
from collections import Counter
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

WRONG = [
    Wrong(
        "calls by keyword are not seen",
        violates="Each call `module(...)` counts",
        check="raised",
        source=HOOKED.replace("        counts[", "        args[0]\n        counts["),
    ),
]

SURVIVORS = {
    "condition dropped: counts[": "a run of another model in the middle of this one may count, too",
}
