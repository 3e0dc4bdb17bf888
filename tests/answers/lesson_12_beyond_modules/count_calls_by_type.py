"""Answers to 12-count-calls-by-type."""

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

WRONG = {
    "counted-modules": """
from collections import Counter

def count_calls_by_type(model, x):
    model(x)
    return Counter(type(module).__name__ for module in model.modules())
""",
    "leaves-only": """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    def count(module, args, output):
        if not list(module.children()):
            counts[type(module).__name__] += 1
    with register_module_forward_hook(count):
        model(x)
    return counts
""",
    "registered-modules-only": """
from collections import Counter

def count_calls_by_type(model, x):
    counts = Counter()
    def count(module, args, output):
        counts[type(module).__name__] += 1
    handles = [module.register_forward_hook(count) for module in model.modules()]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return counts
""",
    "hook-left-behind": """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    def count(module, args, output):
        counts[type(module).__name__] += 1
    register_module_forward_hook(count)
    model(x)
    return counts
""",
    "hook-left-after-exception": """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    def count(module, args, output):
        counts[type(module).__name__] += 1
    handle = register_module_forward_hook(count)
    model(x)
    handle.remove()
    return counts
""",
}

ALSO_WRONG = [
    """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    with register_module_forward_hook(lambda module, *_: counts.update([type(module).__qualname__])):
        model(x)
    return counts
""",
    """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    with register_module_forward_hook(lambda module, *_: counts.update([type(module).__name__])):
        model(x.requires_grad_())
    return counts
""",
    """
from collections import Counter
from torch.nn.modules.module import register_module_forward_pre_hook

def count_calls_by_type(model, x):
    called = set()
    with register_module_forward_pre_hook(lambda module, args: called.add(module)):
        model(x)
    return dict(Counter(type(module).__name__ for module in called))
""",
    """
from collections import Counter
from torch.nn.modules import module as shared

def count_calls_by_type(model, x):
    counts = Counter()
    shared.register_module_forward_pre_hook(lambda module, args: counts.update([type(module).__name__]))
    try:
        model(x)
    finally:
        shared._global_forward_pre_hooks.clear()
    return dict(counts)
""",
    """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    with register_module_forward_hook(lambda module, *_: counts.update([type(module).__name__])):
        model(x)
        model(x)
    return counts
""",
    """
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = {}
    with register_module_forward_hook(lambda module, *_: counts.update({type(module).__name__: 1})):
        model(x)
    return counts
""",
    """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    with register_module_forward_hook(lambda module, *_: counts.update([type(module)])):
        model(x)
    return counts
""",
    """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    with register_module_forward_hook(lambda module, *_: counts.update([type(module).__name__])):
        model.eval()(x)
    return counts
""",
    """
from collections import Counter
from torch import nn

def count_calls_by_type(model, x):
    counts = Counter()
    def find(value):
        if isinstance(value, nn.Module):
            counts[type(value).__name__] += 1
            for inner in vars(value).values():
                find(inner)
        elif isinstance(value, dict):
            for inner in value.values():
                find(inner)
        elif isinstance(value, (list, tuple)):
            for inner in value:
                find(inner)
    find(model)
    model(x)
    return counts
""",
]
