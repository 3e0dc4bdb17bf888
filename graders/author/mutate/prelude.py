"""The code above every mutant: helpers that do the wrong thing, and note in `_did` when that made a difference.

A mutant that passes without having done anything wrong, because the exercise gives no occasion for it, is idle and does
not count.
"""

PRELUDE = '''
import contextlib as _contextlib
import functools as _functools
import torch
from torch import nn as _nn
from torch.overrides import TorchFunctionMode as _TorchFunctionMode

_did, _known, _calls, _results = [], {}, [], []

def _given(args, kind):
    for arg in args:
        if isinstance(arg, kind):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from _given(arg, kind)
        elif isinstance(arg, dict):
            yield from _given(arg.values(), kind)

def _modules(args):
    for model in _given(args, _nn.Module):
        yield from model.modules()

def _tensors(args):
    yield from _given(args, torch.Tensor)
    for model in _given(args, _nn.Module):
        yield from model.parameters()

def _mapped(value, change):
    if isinstance(value, torch.Tensor):
        _did.append(value)
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(entry, change) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(entry, change) for entry in value)
    return value

def _hooks(args):
    for module in _modules(args):
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            yield getattr(module, kind)
    for t in _tensors(args):
        yield t._backward_hooks or {}

def _at_times(holds):
    """Make a hook do nothing, and return None, when `holds(number of this call, arguments)` is false."""
    def decorator(function):
        calls = []
        @_functools.wraps(function)
        def hook(*args, **kwargs):
            calls.append(0)
            if holds(len(calls), args):
                return function(*args, **kwargs)
            _did.append(hook)
        return hook
    return decorator

def _all(args, holds):
    return all(holds(t) for t in _given(args, torch.Tensor) if t.is_floating_point() and t.numel())

def _has_none(value):
    return value is None or (type(value) in (list, tuple) and any(map(_has_none, value)))

_only_the_first_call = _at_times(lambda call, _: call == 1)
_only_three_calls = _at_times(lambda call, _: call <= 3)
_not_the_first_call = _at_times(lambda call, _: call > 1)
_only_with_grad_mode = _at_times(lambda call, _: torch.is_grad_enabled())
_only_without_grad_mode = _at_times(lambda call, _: not torch.is_grad_enabled())
_only_in_training = _at_times(lambda call, args: getattr((*args, None)[0], "training", True))
_only_where_grad_fn = _at_times(lambda call, args: getattr((*args, None)[0], "grad_fn", True) is not None)
_only_without_none = _at_times(lambda call, args: not any(map(_has_none, args)))
_only_without_graphs = _at_times(lambda call, args: _all(args, lambda t: not t.requires_grad))
_only_contiguous = _at_times(lambda call, args: _all(args, lambda t: t.is_contiguous()))
_only_below_300 = _at_times(lambda call, args: _all(args, lambda t: t.abs().max() < 300))
_only_above_tiny = _at_times(lambda call, args: _all(args, lambda t: not t.any() or t.abs().max() > 1e-6))

def _part(entries, start=None, stop=None, step=None):
    every = list(entries)
    if (part := every[start:stop:step]) != every:
        _did.append(part)
    return part

def _lost(value):
    if value is not None and value is not False:
        _did.append(value)

def _not_copied(value):
    _did.append(value)
    return value

def _not_detached(t):
    if getattr(t, "requires_grad", True):
        _did.append(t)
    return t

class _NotesLostGraphs(_TorchFunctionMode):
    """Notes each result that has no graph although something that it is computed from requires grad."""
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not torch.is_grad_enabled() and any(t.requires_grad for t in _given(args, torch.Tensor)):
            _did.extend(t for t in _given([result], torch.Tensor) if t.is_floating_point() and not t.requires_grad)
        return result

class _only_when_well:
    """Leaves the wrapped manager's clean-up out when an exception ends the block."""
    def __init__(self, manager):
        self.manager = manager
    def __enter__(self):
        return self.manager.__enter__()
    def __exit__(self, kind, error, trace):
        if self.leaves(kind):
            return _did.append(error)
        return self.manager.__exit__(kind, error, trace)
    def leaves(self, kind):
        return kind is not None

class _not_after_interrupts(_only_when_well):
    """Leaves the clean-up out when the block is ended by a `BaseException` that is not an `Exception`."""
    def leaves(self, kind):
        return kind is not None and not issubclass(kind, Exception)
'''
