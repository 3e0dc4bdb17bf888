"""How people empty the dicts in which modules keep their hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torch import nn

KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def emptied(module: nn.Module, kind: str) -> None:
    """The right way: the dict stays."""
    getattr(module, kind).clear()


def with_plain_dicts(module: nn.Module, kind: str) -> None:
    """A wrong way: no handle can refer to the new dict."""
    setattr(module, kind, {})


def stripped(
    modules: Iterable[nn.Module],
    kinds: Sequence[str] = KINDS,
    empty: Callable[[nn.Module, str], None] = emptied,
) -> int:
    """Take these kinds of hooks off these modules, and count them."""
    found = 0
    for module in modules:
        for kind in kinds:
            found += len(getattr(module, kind))
            empty(module, kind)
    return found
