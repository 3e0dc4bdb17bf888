"""Put torch, Python and numpy into a known state around each probe, and restore the old one afterwards.

A notebook may leave anything behind: another default dtype, grad mode switched off, global hooks, warnings turned into
errors, a replaced stdout. None of this may decide an answer, and nothing that a probe does may reach the next one.
"""

from __future__ import annotations

import contextlib
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.autograd.graph import disable_saved_tensors_hooks
from torch.nn.modules import module as _module
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode

from graders.wire.limits import PRINTED_CHARACTERS
from graders.wire.threads import one_thread

_autograd = torch._C._autograd
_cpu_generator = torch.default_generator  # saved before any code of a notebook runs
_top_saved_tensor_hooks: Any = getattr(_autograd, "_top_saved_tensors_default_hooks", None)

GLOBAL_HOOK_TABLES = [
    name for name, table in vars(_module).items() if name.startswith("_global_") and isinstance(table, dict)
]
"""The names of torch's tables of hooks for all modules, and of facts about these hooks."""


class CapturedOutput:
    """A stdout that accepts everything and keeps the beginning."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self._kept = ""

    @property
    def text(self) -> str:
        """Up to `PRINTED_CHARACTERS` characters of what was written, and one more if there was more."""
        return self._kept

    def write(self, text: str) -> int:
        """Keep the beginning of a text, and report that all of it was written."""
        if type(text) is str and len(self._kept) <= PRINTED_CHARACTERS:
            self._kept += text[: PRINTED_CHARACTERS + 1 - len(self._kept)]
        return len(text)

    def flush(self) -> None:
        """Do nothing: everything is in memory."""

    def isatty(self) -> bool:
        """Return False: this is not a terminal."""
        return False


@contextlib.contextmanager
def known_state(seed: int, *, quiet: bool = True) -> Iterator[CapturedOutput]:
    """Grad mode on, float32, one thread, no global hooks or modes, seeded generators, silent output, warnings ignored.

    The context's value holds what is printed inside. On exit everything is restored, and new figures are closed. With
    `quiet=False`, output goes where it went before.
    """
    with contextlib.ExitStack() as stack:
        printed = CapturedOutput()
        if quiet:
            stack.callback(_restore_streams, sys.stdout, sys.stderr)
            sys.stdout = sys.stderr = printed
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(_new_figures_closed())
        stack.enter_context(_no_function_modes())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autograd.set_detect_anomaly(False))
        stack.enter_context(one_thread())
        stack.enter_context(torch.autocast("cpu", enabled=False))
        stack.enter_context(_no_saved_tensor_hooks())
        stack.enter_context(_default_dtype())
        stack.enter_context(_no_global_hooks())
        stack.enter_context(_seeded_generators(seed))
        stack.enter_context(_seeding_the_cpu())
        yield printed


def _restore_streams(out: Any, err: Any) -> None:
    sys.stdout, sys.stderr = out, err


@contextlib.contextmanager
def _new_figures_closed() -> Iterator[None]:
    """Close the figures that are opened inside, which the next cell would show as its own."""
    before = _open_figures()
    try:
        yield
    finally:
        for number in _open_figures() - before:
            sys.modules["matplotlib.pyplot"].close(number)


def _open_figures() -> set[int]:
    """Return the numbers of the figures that pyplot keeps; none if nobody has imported it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return set() if pyplot is None else set(pyplot.get_fignums())


@contextlib.contextmanager
def _no_function_modes() -> Iterator[None]:
    """Take modes such as a default device off their stack; torch has no public way to do so."""
    before = _pop_function_modes()
    try:
        yield
    finally:
        _pop_function_modes()
        for mode in before:
            _push_mode(mode)  # type: ignore[no-untyped-call]  # torch declares no types


def _pop_function_modes() -> list[Any]:
    """Empty the stack of modes, and return what was on it, from the bottom."""
    modes = list(_get_current_function_mode_stack())  # type: ignore[no-untyped-call]
    for _ in modes:
        _pop_mode()  # type: ignore[no-untyped-call]
    return modes


@contextlib.contextmanager
def _no_saved_tensor_hooks() -> Iterator[None]:
    """Allow hooks on saved tensors, and take those that are active off their stack.

    Before torch 2.8 the stack cannot be read, so active hooks stay active there.
    """
    ban = _autograd._saved_tensors_hooks_get_disabled_error_message()
    _autograd._saved_tensors_hooks_enable()
    unreadable = _top_saved_tensor_hooks is None and saved_tensor_hooks_active()
    before = [] if unreadable else _pop_saved_tensor_hooks()
    try:
        yield
    finally:
        _autograd._saved_tensors_hooks_enable()
        if not unreadable:
            _pop_saved_tensor_hooks()
        for pack, unpack in before:
            _autograd._push_saved_tensors_default_hooks(pack, unpack)
        if ban is not None:
            _autograd._saved_tensors_hooks_disable(ban)


def _pop_saved_tensor_hooks() -> list[Any]:
    """Empty the stack of hooks on saved tensors; return its pairs, from the bottom, or None for each unreadable one."""
    pairs: list[Any] = []
    while saved_tensor_hooks_active():
        pairs.insert(0, _top_saved_tensor_hooks(True) if _top_saved_tensor_hooks else None)
        _autograd._pop_saved_tensors_default_hooks()
    return pairs


def saved_tensor_hooks_active() -> bool:
    """Whether hooks on saved tensors are active, found by forbidding them, which torch then refuses."""
    try:
        with disable_saved_tensors_hooks("hooks on saved tensors are active"):
            return False
    except RuntimeError:
        return True


@contextlib.contextmanager
def _default_dtype() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _no_global_hooks() -> Iterator[None]:
    before = {name: dict(getattr(_module, name)) for name in GLOBAL_HOOK_TABLES}
    for name in GLOBAL_HOOK_TABLES:
        getattr(_module, name).clear()
    try:
        yield
    finally:
        for name, hooks in before.items():
            getattr(_module, name).clear()
            getattr(_module, name).update(hooks)


def seed_torch(seed: int) -> torch.Generator:
    """Seed torch on the CPU, and return its generator.

    `torch.manual_seed` would also record the call for every kind of device, with the text of the stack, which takes
    longer than most probes; and it imports torch's compiler.
    """
    return _cpu_generator.manual_seed(int(seed))


@contextlib.contextmanager
def _seeding_the_cpu() -> Iterator[None]:
    """Let `torch.manual_seed` seed the CPU alone, which is where probes compute."""
    before, torch.manual_seed = torch.manual_seed, seed_torch
    try:
        yield
    finally:
        torch.manual_seed = before


@contextlib.contextmanager
def _seeded_generators(seed: int) -> Iterator[None]:
    """Seed the generators of Python, numpy, and torch on the CPU."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), _cpu_generator.get_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    seed_torch(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        _cpu_generator.set_state(cpu)
