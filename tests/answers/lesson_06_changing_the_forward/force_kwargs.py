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
        "one dict for a module, from which a handle takes its names",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_each_handle_removes_its_own_hook",
        source="""
forced = {}

class Handle:
    def __init__(self, module, names):
        self.module, self.names = module, names
    def remove(self):
        for name in self.names:
            forced[self.module].pop(name, None)

def force_kwargs(module, **kw):
    if module not in forced:
        forced[module] = {}
        module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, **forced[m]}), with_kwargs=True)
    forced[module].update(kw)
    return Handle(module, list(kw))
""",
    ),
    Wrong(
        "does nothing",
        violates="every call of `module` receives the keyword arguments `kw`",
        check="test_the_keywords_reach_the_module",
        source="""
def force_kwargs(module, **kw):
    pass
""",
    ),
    Wrong(
        "a dict alone",
        violates="every call of `module` receives the keyword arguments `kw`",
        check="raised",
        mistake="wrong-return-shape",
        source="""
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: {**kwargs, **kw}, with_kwargs=True)
""",
    ),
    Wrong(
        "unpacks the arguments into the pair",
        violates="every call of `module` receives the keyword arguments `kw`",
        check="raised",
        mistake="wrong-return-shape",
        source="""
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, a, k: (*a, {**k, **kw}), with_kwargs=True)
""",
    ),
    Wrong(
        "without the caller's keywords",
        violates="The other arguments of the caller",
        check="test_everything_else_arrives_as_it_was_passed",
        mistake="dropped-arguments",
        source="""
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: (args, kw), with_kwargs=True)
""",
    ),
    Wrong(
        "without positional arguments",
        violates="The other arguments of the caller",
        check="raised",
        mistake="dropped-arguments",
        source="""
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: ((), {**kwargs, **kw}), with_kwargs=True)
""",
    ),
    Wrong(
        "one positional argument",
        violates="reach the module as they were passed",
        check="test_everything_else_arrives_as_it_was_passed",
        mistake="dropped-arguments",
        source="""
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, a, k: (a[:1], {**k, **kw}), with_kwargs=True)
""",
    ),
    Wrong(
        "drops what the caller passed as None",
        violates="reach the module as they were passed",
        check="test_everything_else_arrives_as_it_was_passed",
        mistake="dropped-arguments",
        source="""
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        return args, {**{key: value for key, value in kwargs.items() if value is not None}, **kw}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "the input and `kw`",
        violates="The caller may pass everything by keyword, the input too",
        check="test_everything_else_arrives_as_it_was_passed",
        mistake="dropped-arguments",
        source="""
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        if "input" in kwargs:
            return args, {"input": kwargs["input"], **kw}
        return args, {**kwargs, **kw}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "asks for a positional argument",
        violates="The caller may pass everything by keyword, the input too",
        check="raised",
        mistake="needs-an-argument",
        source="""
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, a, k: ((a[0], *a[1:]), {**k, **kw}), with_kwargs=True)
""",
    ),
    Wrong(
        "copies of the caller's tensors",
        violates="the same objects, and only in the call to which they belong",
        check="test_everything_else_arrives_as_it_was_passed",
        source="""
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        return tuple(a.detach() if hasattr(a, "detach") else a for a in args), {**kwargs, **kw}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "the caller wins",
        violates="the value in `kw` wins",
        check="test_they_win_over_those_of_the_caller",
        mistake="caller-wins",
        source="""
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kw, **kwargs}), with_kwargs=True)
""",
    ),
    Wrong(
        "a hook for three arguments without the flag",
        violates="every call of `module` receives the keyword arguments `kw`",
        check="raised",
        mistake="no-with-kwargs",
        source="""
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, **kw}))
""",
    ),
    Wrong(
        "a hook without the flag",
        violates="every call of `module` receives the keyword arguments `kw`",
        check="test_the_keywords_reach_the_module",
        mistake="never-arrive",
        source="""
def force_kwargs(module, **kw):
    def hook(module, args, kwargs={}):
        kwargs = {**kwargs, **kw}
        return args
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "a hook for two arguments with the flag",
        violates="every call of `module` receives the keyword arguments `kw`",
        check="raised",
        mistake="hook-without-kwargs",
        source="""
def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, args: (args, kw), with_kwargs=True)
""",
    ),
    Wrong(
        "returns nothing",
        violates="every call of `module` receives the keyword arguments `kw`",
        check="test_the_keywords_reach_the_module",
        mistake="never-arrive",
        source="""
def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        kwargs = {**kwargs, **kw}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "runs `forward` once more",
        violates="In each call `forward` runs once",
        check="test_the_keywords_reach_the_module",
        mistake="wrong-hook-kind",
        source="""
def force_kwargs(module, **kw):
    def hook(module, args, kwargs, output):
        return module.forward(*args, **{**kwargs, **kw})
    return module.register_forward_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "the right keywords, and a second run",
        violates="In each call `forward` runs once",
        check="test_forward_runs_once_in_each_call",
        mistake="wrong-hook-kind",
        source="""
def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        module.forward(*args, **{**kwargs, **kw})
        return args, {**kwargs, **kw}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "keeps the caller's keywords",
        violates="only in the call to which they belong",
        check="test_everything_else_arrives_as_it_was_passed",
        mistake="remembered-keywords",
        source="""
def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        for name, value in kwargs.items():
            kw.setdefault(name, value)
        return args, kw
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "the caller's keywords stay, and win",
        violates="only in the call to which they belong",
        check="test_the_keywords_reach_the_module",
        mistake="remembered-keywords",
        source="""
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        kw.update(kwargs)
        return args, kw
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "no handle",
        violates="Return the handle",
        check="test_each_handle_removes_its_own_hook",
        mistake="no-handle",
        source="""
def force_kwargs(module, **kw):
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, **kw}), with_kwargs=True)
""",
    ),
    Wrong(
        "no handle for no keywords",
        violates="also when `kw` is empty",
        check="test_each_handle_removes_its_own_hook",
        source="""
def force_kwargs(module, **kw):
    if kw:
        return module.register_forward_pre_hook(lambda m, args, kwargs: kwargs.update(kw), with_kwargs=True)
""",
    ),
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
        "the first call only",
        violates="every call of `module` receives the keyword arguments `kw`",
        check="test_the_keywords_reach_the_module",
        source="""
def force_kwargs(module, **kw):
    def hook(m, args, kwargs):
        handle.remove()
        return args, {**kwargs, **kw}
    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    return handle
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
    Wrong(
        "detaches the values",
        violates="the module receives these very objects",
        check="test_the_keywords_reach_the_module",
        source="""
import torch

def force_kwargs(module, **kw):
    kw = {k: v.detach() if torch.is_tensor(v) else v for k, v in kw.items()}
    return module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **kw}), with_kwargs=True)
""",
    ),
    Wrong(
        "copies the values",
        violates="the module receives these very objects",
        check="test_the_keywords_reach_the_module",
        source="""
import copy

def force_kwargs(module, **kw):
    return module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **copy.deepcopy(kw)}), with_kwargs=True)
""",
    ),
    Wrong(
        "leaves 0 and None out",
        violates="also tensors, `0`, and `None`",
        check="test_the_keywords_reach_the_module",
        mistake="nothing-values-left-out",
        source="""
import torch

def force_kwargs(module, **kw):
    kw = {name: value for name, value in kw.items() if torch.is_tensor(value) or value}
    return module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **kw}), with_kwargs=True)
""",
    ),
    Wrong(
        "swallows what the module raises",
        violates="rule 4: the caller of your function gets this exception",
        check="test_an_exception_comes_through_and_is_forgotten",
        source="""
def force_kwargs(module, **kw):
    forward = module.forward
    def safe(*args, **kwargs):
        try:
            return forward(*args, **kwargs)
        except BaseException:
            return None
    handle = module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **kw}), with_kwargs=True)
    remove = handle.remove
    def both():
        remove()
        module.__dict__.pop("forward", None)
    handle.remove = both
    module.forward = safe
    return handle
""",
    ),
    Wrong(
        "leaves None out",
        violates="also tensors, `0`, and `None`",
        check="test_the_keywords_reach_the_module",
        mistake="nothing-values-left-out",
        source="""
def force_kwargs(module, **kw):
    kw = {name: value for name, value in kw.items() if value is not None}
    return module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **kw}), with_kwargs=True)
""",
    ),
    Wrong(
        "eval mode for a moment",
        violates="rule 2: the mode of each part",
        check="test_nothing_else_changes",
        source="""
def force_kwargs(module, **kw):
    training = module.training
    module.eval()
    module.train(training)
    return module.register_forward_pre_hook(lambda m, a, k: (a, {**k, **kw}), with_kwargs=True)
""",
    ),
    Wrong(
        "leaves what is equal",
        violates="the module receives these very objects",
        check="test_they_win_over_those_of_the_caller",
        source="""
def force_kwargs(module, **kw):
    def same(a, b):
        return isinstance(a, (int, float, list)) and isinstance(b, (int, float, list)) and repr(a) == repr(b)
    def hook(module, args, kwargs):
        return args, {**kwargs, **{k: v for k, v in kw.items() if k not in kwargs or not same(kwargs[k], v)}}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "copies lists and dicts",
        violates="the module receives these very objects",
        check="test_the_keywords_reach_the_module",
        source="""
def force_kwargs(module, **kw):
    def fresh(value):
        return value.copy() if isinstance(value, (list, dict, set)) else value
    def hook(module, args, kwargs):
        return args, {**kwargs, **{name: fresh(value) for name, value in kw.items()}}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "calls what can be called",
        violates="the module receives these very objects",
        check="test_values_of_any_kind_arrive",
        source="""
import torch

def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        called = {name: value(torch.ones(1)) if callable(value) else value for name, value in kw.items()}
        return args, {**kwargs, **called}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "copies lists",
        violates="the same objects",
        check="test_everything_else_arrives_as_it_was_passed",
        source="""
import copy

def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        return tuple(copy.copy(arg) if isinstance(arg, (list, dict)) else arg for arg in args), {**kwargs, **kw}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "merges dicts",
        violates="the value in `kw` wins",
        check="test_values_of_any_kind_arrive",
        source="""
def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        both = [name for name in kw if isinstance(kw[name], dict) and isinstance(kwargs.get(name), dict)]
        return args, {**kwargs, **kw, **{name: {**kwargs[name], **kw[name]} for name in both}}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "forces the parts that know the keyword, too",
        violates="rule 3: they act on what you were given and on nothing else",
        check="test_nothing_else_changes",
        source="""
import inspect

class Handles(tuple):
    def remove(self):
        for handle in self:
            handle.remove()

def force_kwargs(module, **kw):
    def hook(module, args, kwargs):
        return args, {**kwargs, **kw}
    parts = [part for part in module.modules()
             if part is module or kw.keys() & inspect.signature(part.forward).parameters.keys()]
    return Handles(part.register_forward_pre_hook(hook, with_kwargs=True) for part in parts)
""",
    ),
]

GIVENS = [
    "Write `force_kwargs(module, **kw)`",
    "The values in `kw` may be of any kind",
    "If two calls of your function force the same keyword, either may win.",
    "Pre-hooks of others only watch.",
]

SURVIVORS = {
    "prepend=True": "the contract leaves open which of two hooks comes first",
    "almost: return module.register_forward_pre_hook(partial(merge, kw), prepend=False": "as before",
    "under no_grad": "to register a hook makes no graph",
    "not for all: for name, value in _part(self.kw.items(), step=-1)": "the order of keywords is free",
    "lost copy: merged = _not_copied(kwargs)": "each call of a module makes its dict of keywords anew",
}
