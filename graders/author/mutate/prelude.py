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
from torch.utils.hooks import RemovableHandle as _RemovableHandle

_did, _known, _calls, _results, _slots = [], {}, [], [], {}

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
        changed = change(value)
        _did.extend([value] * (changed is not value))
        return changed
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

def _part(entries, start=None, stop=None, step=None, asked=False):
    """`asked` says that all that is asked is whether there are any."""
    every = list(entries)
    if (part := every[start:stop:step]) != every and not (asked and part):
        _did.append(part)
    return part

def _lost(value):
    if value is not None and value is not False:
        _did.append(value)

def _lost_argument(value):
    """A hook that returns what it got does what one does that returns None; who needs the value refuses None."""

def _not_copied(value):
    _did.append(value)
    return value

def _gone_through(value):
    """For `list(value)` in a loop; noted where the loop changes it."""
    if not hasattr(value, "__len__"):
        return (yield from _not_copied(value))
    size = len(value)
    for entry in value:
        yield entry
        if len(value) != size:
            return _did.append(value)

def _not_made_a_tuple(value):
    return value if isinstance(value, tuple) else _not_copied(value)

def _slot(line, new):
    slot = _slots.setdefault(line, new)
    _did.extend(entry for entry in slot if not _is_removed(entry))
    return slot

def _is_removed(handle):
    return isinstance(handle, _RemovableHandle) and handle.id not in (handle.hooks_dict_ref() or ())

def _truth(value):
    """For `value is not None`; noted where the two differ."""
    _did.extend([0] * (bool(value) != (value is not None)))
    return value

def _for_requires_grad(t, name):
    _did.extend([name] * (bool(getattr(t, name)) != t.requires_grad))
    return getattr(t, name)

def _not_detached(t):
    if getattr(t, "requires_grad", True):
        _did.append(t)
    return t

class _LostGraphs(_TorchFunctionMode):
    """Knows each tensor that has no graph although something that it is computed from has one, or would have."""
    def __init__(self):
        super().__init__()
        self.lost, self.own = {}, False
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch._C._set_grad_enabled and not (args[0] or torch.is_grad_enabled()):
            self.own = not self.own  # the answer's own no_grad begins, or ends
        result = function(*args, **(kwargs or {}))
        without = (torch.Tensor.detach, torch.Tensor.data.__get__, torch.Tensor.grad.__get__)
        given = _given([args, kwargs], torch.Tensor)
        if not (torch.is_grad_enabled() or self.own or torch.is_inference_mode_enabled() or function in without):
            if any(t.requires_grad or id(t) in self.lost for t in given):
                lost = (t for t in _given([result], torch.Tensor) if t.is_floating_point() and not t.requires_grad)
                self.lost.update((id(t), t) for t in lost)
        return result
    def among(self, *values):
        """The lost ones that the caller gets, in these values or as attributes of them."""
        every = [*values, *(vars(value) for value in values if hasattr(value, "__dict__"))]
        return [t for t in _given(every, torch.Tensor) if id(t) in self.lost]

_HOOKS = {
    "register_forward_hook": "_forward_hooks",
    "register_forward_pre_hook": "_forward_pre_hooks",
    "register_full_backward_hook": "_backward_hooks",
    "register_full_backward_pre_hook": "_backward_pre_hooks",
}

def _state(args):
    """What a hook is called with: which objects, and how often each tensor has been written to."""
    tensors = [t for t in _given(args, torch.Tensor) if not t.is_inference()]
    return [*map(id, args), *((id(t), t._version) for t in tensors)]

def _placed(register, first):
    """Register a hook before or behind those that are there, and note when one of them changes what another meets.

    For that, a second hook looks at what leaves the others, or comes to them.
    """
    def registered(hook, **how):
        module = getattr(register, "__self__", None)
        if module is None or not getattr(module, _HOOKS[register.__name__]):
            return register(hook, prepend=first, **how)
        seen = []
        def look(*args, **kwargs):
            state = _state([*args, *kwargs.values()])
            if not seen:
                seen.append(state)
            elif seen.pop() != state:
                _did.append(state)
        @_functools.wraps(hook)
        def noted(*args, **kwargs):
            before = _state(args)
            result = hook(*args, **kwargs)
            _did.extend([result] * (result is not None or _state(args) != before))
            look(*args, **kwargs)
            return result
        other = register(look, prepend=not first, **how)
        handle = register(noted, prepend=first, **how)
        remove = handle.remove
        handle.remove = lambda: (other.remove(), remove())[1]
        return handle
    return registered

class _only_when_well:
    """Leaves the wrapped manager's clean-up out when an exception ends the block."""
    TIDY = (torch.inference_mode, _contextlib._GeneratorContextManager)  # they clean up when they are dropped
    def __init__(self, manager):
        self.manager = manager
    def __enter__(self):
        return self.manager.__enter__()
    def __exit__(self, kind, error, trace):
        if self.leaves(kind):
            return _did.extend([error] * (not isinstance(self.manager, self.TIDY)))
        return self.manager.__exit__(kind, error, trace)
    def leaves(self, kind):
        return kind is not None

class _not_after_interrupts(_only_when_well):
    """Leaves the clean-up out when the block is ended by a `BaseException` that is not an `Exception`."""
    def leaves(self, kind):
        return kind is not None and not issubclass(kind, Exception)
'''
