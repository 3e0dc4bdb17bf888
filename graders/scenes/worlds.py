"""Worlds for `graders.scenes.recorders.runs_passes`: what callers give to functions that run backward passes.

Each is made by `world(rng, case, forward=None, backward=None)`; the caller's code calls these two in such passes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from graders.probing.asking import detached_copy
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Change, Witness
from graders.wire.draws import Rng

Callback = Callable[..., Any] | None


@dataclass
class World:
    """What a caller has and passes to a function that runs backward passes. `args` are the arguments of the call."""

    args: tuple[Any, ...]
    again: Callable[[], tuple[Any, ...]]
    """Makes the arguments of a later call, with the same leaves."""
    things: dict[str, Any]
    """What the function must not change, by name."""
    fills: Sequence[str]
    """The leaves among these things whose `.grad` it may write."""
    log: list[str] = field(default_factory=list)
    """Which of the caller's functions and hooks were called."""
    kept: list[Tensor] = field(default_factory=list)
    """Gradients that the caller's hooks have kept."""
    look: Callable[[], dict[str, Any]] = dict
    """Returns what else shows after a call."""

    def changes(self, witness: Witness) -> list[Change]:
        """The changes that a witness reports, except in `.grad` of the leaves in `fills`."""
        return [change for change in witness.changes() if change[0][:4] != "grad" or change[1] not in self.fills]


def draw_tensors(rng: Rng, case: Any, count: int) -> list[Tensor]:
    """`count` tensors of one shape, for the case."""
    shape = rng.shape(case.rank)
    return [rng.tensor(*shape, dtype=case.dtype, values=case.values, low=-2.0, high=2.0) for _ in range(count)]


def reverse_dimensions(t: Tensor) -> Tensor:
    """The tensor with its dimensions in reverse order; a gradient that comes back through it is not contiguous."""
    return t.permute(*reversed(range(t.dim()))) if t.dim() else t


def register_hooks(t: Any, *hooks: Callback) -> None:
    """Register hooks of the caller on a tensor; those that are None are skipped."""
    for hook in filter(None, hooks):
        t.register_hook(hook)


def a_leaf(values: Tensor, case: Any, name: str, old: float = 0.7) -> Tensor:
    """A leaf with the hooks of the case. If the case has filled gradients, its `.grad` is filled with `old`."""
    leaf = prepare_tensor(values, layout="transposed", place=case.place, grad=case.grad, old=old)
    CallersHooks(case.hooks).on_parameter(leaf, name)
    return leaf


def leaf_grads(leaves: dict[str, Tensor]) -> dict[str, Tensor | None]:
    """Copies of the leaves' current `.grad`."""
    return {f"{name}.grad": detached_copy(leaf.grad) for name, leaf in leaves.items()}
