"""Answers to 06-force-kwargs."""

from graders.author.answers import Wrong

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
    return module.register_forward_pre_hook(Force(kw), with_kwargs=True)
""",
    """
from functools import partial

def merge(kw, module, args, kwargs):
    return args, kwargs | kw

def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(partial(merge, kw), prepend=True, with_kwargs=True)
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
import collections

def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, a, k: (a, collections.ChainMap(kw, k)), with_kwargs=True)
""",
]

WRONG = [
    Wrong(
        "patches `forward`",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_each_handle_removes_its_own_hook",
        source="""
def force_kwargs(module, **kw):
    plain = module.forward
    module.forward = lambda *args, **kwargs: plain(*args, **{**kwargs, **kw})
    class Handle:
        def remove(self):
            module.__dict__.pop("forward", None)
    return Handle()
""",
    ),
    Wrong(
        "no handle for no keywords",
        violates="Return the handle.",
        check="test_each_handle_removes_its_own_hook",
        source="""
def force_kwargs(module, **kw):
    if kw:
        return module.register_forward_pre_hook(lambda m, args, kwargs: kwargs.update(kw), with_kwargs=True)
""",
    ),
    Wrong(
        "only where the caller passes the same",
        violates="every call of `module` receives the keyword arguments `kw`",
        check="test_the_keywords_reach_the_module",
        source="""
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        return args, {name: kw.get(name, value) for name, value in kwargs.items()}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
]

SURVIVORS = {
    "prepend=True": "the contract leaves open which of two hooks comes first",
    "almost: return module.register_forward_pre_hook(partial(merge, kw), prepend=False": "as before",
    "under no_grad": "to register a hook makes no graph",
    "not for all: for name, value in _part(self.kw.items(), step=-1)": "the order of keywords is free",
    "lost copy: merged = _not_copied(kwargs)": "each call of a module makes its dict of keywords anew",
}
