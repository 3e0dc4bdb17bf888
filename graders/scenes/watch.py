"""A watch records everything that must stay the same, and tells afterwards what has changed.

    before = Watch(model=model, x=x, rows=rows)
    call(model, x, rows)
    yield "by the call", before.differences()

It compares values, `requires_grad` and `.grad` of tensors; modes, parameters, buffers, submodules, classes, flags and
`forward` of modules; hooks of every kind on tensors, on modules and for all modules, by identity and order; the entries
of lists and dicts; grad mode, default dtype and `nn.Module.__call__`. It only reads, so it can be used after an
exception, too. `graders.verdict.changes` has a sentence for each kind of change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as _module

from graders.probing.known_state import GLOBAL_HOOK_TABLES, saved_tensor_hooks_active
from graders.wire.data import Changes

Hooks = dict[tuple[str, Any], Any]
"""The hook for each (kind, number of its handle), in the order in which hooks of a kind are called."""

TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
MODULE_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks",
                "_state_dict_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks",
                "_load_state_dict_post_hooks")  # fmt: skip
_OPTIONS = ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")
_TABLES = {"_parameters": "parameters", "_buffers": "buffers", "_modules": "modules"}
_COMPARED_APART = {*MODULE_HOOKS, *_OPTIONS, *_TABLES, "training", "forward",
          "_is_full_backward_hook", "_non_persistent_buffers_set"}  # fmt: skip
_GONE = object()


class Watch:
    """Records the state of the caller's things when it is made, under the names that they have in the story."""

    def __init__(self, **things: Any) -> None:
        """A part of a model is called `model.block.0.weight`."""
        self._surroundings = _TorchState()
        self._states = [
            (place, thing, kind, kind(thing)) for place, thing, kind in _reachable_states(list(things.items()))
        ]

    def differences(self, *but: str) -> Changes:
        """What differs now, except for kinds that begin with one of `but`, such as "grad".

        First comes the state of torch, then the things in their order.
        """
        found = [(what, "torch") for what in self._surroundings.differences_from(_TorchState())]
        for place, thing, kind, before in self._states:
            found += [(what, place) for what in before.differences_from(kind(thing))]
        return Changes(tuple((kind, place) for kind, place in found if not kind.startswith(but or ("-",))))


def _reachable_states(queue: list[tuple[str, Any]]) -> Iterator[tuple[str, Any, Any]]:
    """Yield place, object and class of its state for all that can be reached from these things, each object once."""
    seen: set[int] = set()
    buffers: set[int] = set()
    while queue:
        place, thing = queue.pop(0)
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, Tensor):
            yield place, thing, _BufferState if id(thing) in buffers else _TensorState
        elif isinstance(thing, nn.Module):
            yield place, thing, _ModuleState
            buffers |= {id(buffer) for buffer in thing._buffers.values()}
            parts = [(name, part) for table in _TABLES for name, part in vars(thing)[table].items()]
            queue += [(f"{place}.{name}", part) for name, part in parts if part is not None]
        elif isinstance(thing, list | dict):
            yield place, thing, _Container
            queue += [(f"{place}[{key!r}]", entry) for key, entry in _container_entries(thing)]
        elif isinstance(thing, tuple):
            queue += [(f"{place}[{index}]", entry) for index, entry in enumerate(thing)]


class _TensorState:
    """A tensor: its values, `requires_grad` and `retains_grad`, its `.grad`, its hooks."""

    changed = "values"

    def __init__(self, t: Tensor) -> None:
        self.values, self.requires_grad, self.retains = t.detach().clone(), t.requires_grad, t.retains_grad
        self.grad = t.grad if t.is_leaf or t.retains_grad else None
        self.grad_values = None if self.grad is None else self.grad.detach().clone()
        self.hooks = _registered_hooks(t, TENSOR_HOOKS)

    def differences_from(self, now: _TensorState) -> Iterator[str]:
        if not _same_values(self.values, now.values):
            yield self.changed
        if self.requires_grad != now.requires_grad:
            yield "requires-grad"
        if self.retains != now.retains:
            yield "retains-grad"
        if self.grad is not now.grad:
            yield "grad-filled" if self.grad is None else "grad-emptied" if now.grad is None else "grad-replaced"
        elif not _same_values(self.grad_values, now.grad_values):
            yield "grad-changed"
        yield from _hook_differences(self.hooks, now.hooks)


class _BufferState(_TensorState):
    """A buffer, whose changed values have a kind of their own, because layers in train mode change them themselves."""

    changed = "buffer"


class _ModuleState:
    """A module: its mode, class, tables, flags and hooks, but not the contents of its parts."""

    def __init__(self, module: nn.Module) -> None:
        own = vars(module)
        self.training, self.kind = module.training, type(module)
        self.tables = {table: dict(own[table]) for table in _TABLES}
        self.forward = own.get("forward"), type(module).forward
        self.attributes = {name: value for name, value in own.items() if name not in _COMPARED_APART}
        self.hooks = _registered_hooks(module, MODULE_HOOKS)
        self.dicts = [own.get(kind) for kind in MODULE_HOOKS]
        self.options = {name: dict(own.get(name, {})) for name in _OPTIONS}

    def differences_from(self, now: _ModuleState) -> Iterator[str]:
        if self.training != now.training:
            yield "mode"
        if self.kind is not now.kind:
            yield "class"
        if any(before is not other for before, other in zip(self.forward, now.forward)):
            yield "forward"
        for table, what in _TABLES.items():
            old, new = self.tables[table], now.tables[table]
            if list(old) != list(new) or any(old[name] is not new[name] for name in old):
                yield what
        if self.attributes.keys() < now.attributes.keys():
            yield "attribute-left"
        if any(_flag_changed(old, now.attributes.get(name, _GONE)) for name, old in self.attributes.items()):
            yield "attribute"
        hooks = list(_hook_differences(self.hooks, now.hooks))
        yield from hooks
        if not hooks and self.options != now.options:
            yield "hook-options"
        if any(before is not other for before, other in zip(self.dicts, now.dicts)):
            yield "hook-dict"


class _Container:
    """A list or a dict: its entries and their order."""

    def __init__(self, thing: list[Any] | dict[Any, Any]) -> None:
        self.entries = _container_entries(thing)

    def differences_from(self, now: _Container) -> Iterator[str]:
        if len(self.entries) != len(now.entries) or not all(
            key == other and _is_unchanged(entry, thing)
            for (key, entry), (other, thing) in zip(self.entries, now.entries)
        ):
            yield "entries"


class _TorchState:
    """The state of torch itself: modes, the default dtype, hooks for all modules and for saved tensors."""

    def __init__(self) -> None:
        self.states = {
            "autograd-mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
            "default-dtype": torch.get_default_dtype(),
            "anomaly-mode": torch.is_anomaly_enabled(),
            "saved-tensor-hooks": saved_tensor_hooks_active(),
            "module-call": nn.Module.__call__,
        }
        hooks = ((kind, number, hook) for kind in GLOBAL_HOOK_TABLES for number, hook in getattr(_module, kind).items())
        self.hooks: Hooks = {(kind, number): hook for kind, number, hook in hooks if callable(hook)}

    def differences_from(self, now: _TorchState) -> Iterator[str]:
        yield from (what for what, state in self.states.items() if state != now.states[what])
        yield from _hook_differences(self.hooks, now.hooks)


def _registered_hooks(owner: Tensor | nn.Module, kinds: tuple[str, ...]) -> Hooks:
    """The hooks of an object, without that of `retain_grad()`, which is torch's own."""
    return {(kind, number): hook for kind in kinds for number, hook in (getattr(owner, kind, None) or {}).items()}


def _hook_differences(before: Hooks, now: Hooks) -> Iterator[str]:
    """Whether earlier hooks are gone or in another order, and whether there are new ones."""
    if any(now.get(key, _GONE) is not hook for key, hook in before.items()):
        yield "hook-removed"
    elif [key for key in now if key in before] != list(before):
        yield "hook-order"
    if any(before.get(key, _GONE) is not hook for key, hook in now.items()):
        yield "hook-left"


def _same_values(old: Tensor | None, new: Tensor | None) -> bool:
    """Whether both have equal dtype, shape and entries; NaN equals NaN."""
    if old is None or new is None:
        return old is new
    if old.dtype != new.dtype or old.shape != new.shape:
        return False
    return torch.equal(old, new) or bool(((old == new) | (old.isnan() & new.isnan())).all())


def _container_entries(thing: Any) -> list[tuple[Any, Any]]:
    return list(thing.items()) if isinstance(thing, dict) else list(enumerate(thing))


def _is_unchanged(old: Any, new: Any) -> bool:
    """Whether both are the same object, or equal plain values."""
    return old is new or (type(old) is type(new) and type(old) in (int, float, str, bool) and old == new)


def _flag_changed(old: Any, new: Any) -> bool:
    """Whether a flag such as `inplace`, a text or a function changed; other attributes are a model's own business."""
    return (type(old) in (bool, str) or callable(old)) and not _is_unchanged(old, new)
