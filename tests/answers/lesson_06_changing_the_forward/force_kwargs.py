"""Answers to 06-force-kwargs."""

RIGHT = [
    """
def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        return args, {**kwargs, **kw}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: kwargs.update(kw), with_kwargs=True)
""",
    """
class Force:
    def __init__(self, kw):
        self.kw = kw
    def __call__(self, module, args, kwargs):
        merged = dict(kwargs)
        for name, value in self.kw.items():
            merged[name] = value
        return (args, merged)

def force_kwargs(module, **kw):
    handle = module.register_forward_pre_hook(Force(dict(kw)), with_kwargs=True)
    return handle
""",
    """
from functools import partial

def merge(kw, module, args, kwargs):
    return args, kwargs | kw

def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(partial(merge, kw), prepend=True, with_kwargs=True)
""",
    """
def force_kwargs(module, **kw):
    def hook(m, args, kwargs): kwargs.update(kw)
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    """
from typing import NamedTuple
class Call(NamedTuple):
    args: tuple
    kwargs: dict
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, a, k: Call(a, dict(k, **kw)), with_kwargs=True)
""",
    """
def force_kwargs(module, **kw):
    def pre(m, args, kwargs):
        kwargs.update(kw)

    return module.register_forward_pre_hook(pre, with_kwargs=True)
""",
    """
import collections

def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(
        lambda m, a, k: (a, collections.ChainMap(kw, k)), with_kwargs=True
    )
""",
]

WRONG = {
    "wrong-return-shape": """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: {**kwargs, **kw}, with_kwargs=True)
""",
    "dropped-arguments": """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: (args, kw), with_kwargs=True)
""",
    "caller-wins": """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kw, **kwargs}), with_kwargs=True)
""",
    "no-with-kwargs": """
def force_kwargs(module, **kw):
    def hook(module, args, kwargs={}):
        kwargs = {**kwargs, **kw}
        return args
    return module.register_forward_pre_hook(hook)
""",
    "wrong-hook-kind": """
def force_kwargs(module, **kw):
    def hook(module, args, kwargs, output):
        return module.forward(*args, **{**kwargs, **kw})
    return module.register_forward_hook(hook, with_kwargs=True)
""",
    "hook-without-kwargs": """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args: (args, kw), with_kwargs=True)
""",
    "forgot-return": """
def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        kwargs = {**kwargs, **kw}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    "remembered-keywords": """
def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        for name, value in kwargs.items():
            kw.setdefault(name, value)
        return args, kw
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    "no-handle": """
def force_kwargs(module, **kw):
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, **kw}), with_kwargs=True)
""",
}

ALSO_WRONG = [
    "def force_kwargs(module, **kw):\n    pass",
    # without the flag, the hook is called with two arguments
    """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, **kw}))
""",
    # without the flag, a dict becomes a positional argument
    """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args: (*args, kw))
""",
    # the caller's keywords leak into later calls, and win
    """
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        kw.update(kwargs)
        return args, kw
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    # only the first call
    """
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        handle.remove()
        return args, {**kwargs, **kw}
    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    return handle
""",
    # positional arguments lost
    """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: ((), {**kwargs, **kw}), with_kwargs=True)
""",
    # drops names that the caller did not pass
    """
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        return args, {name: kw.get(name, value) for name, value in kwargs.items()}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    # drops what the caller passed under other names
    """
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        return args, {"x": kwargs["x"], **kw} if "x" in kwargs else dict(kw)
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    # Loses the second positional argument.
    """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, a, k: (a[:1], {**k, **kw}), with_kwargs=True)
""",
    # Unpacks the arguments into the pair.
    """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, a, k: (*a, {**k, **kw}), with_kwargs=True)
""",
    """
import torch

def force_kwargs(module, **kw):
    kw = {k: v.detach() if torch.is_tensor(v) else v for k, v in kw.items()}
    return module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **kw}), with_kwargs=True)
""",
    """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(
        lambda m, a, k: (tuple(v.detach() for v in a), {**k, **kw}), with_kwargs=True
    )
""",
    """
import copy

def force_kwargs(module, **kw):
    kw = copy.deepcopy(kw)
    return module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **kw}), with_kwargs=True)
""",
    """
def force_kwargs(module, **kw):
    kw = {k: float(v) for k, v in kw.items()}
    return module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **kw}), with_kwargs=True)
""",
    """
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(
        lambda m, a, k: (a, {**k, **{n: v for n, v in kw.items() if v}}), with_kwargs=True
    )
""",
]
