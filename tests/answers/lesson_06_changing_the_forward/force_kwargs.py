"""Answers to 06-force-kwargs."""

from graders.author.answers import Wrong

RIGHT = [
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
        "forces what the signature of forward has",
        violates="every call of `module` receives the keyword arguments `kw`",
        check="test_keywords_of_any_name_and_value_arrive",
        source="""
import inspect

def force_kwargs(module, **kw):
    parameters = inspect.signature(module.forward).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        kw = {name: value for name, value in kw.items() if name in parameters}
    return module.register_forward_pre_hook(lambda m, args, kwargs: (args, kwargs | kw), with_kwargs=True)
""",
    ),
]

SURVIVORS = {
    "prepend=True": "the contract leaves open which of two hooks comes first",
    "lost copy: merged = _not_copied(kwargs)": "each call of a module makes its dict of keywords anew",
}
