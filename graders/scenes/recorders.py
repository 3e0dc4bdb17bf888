"""Scenes for functions that record what backward passes bring: with a hook that stays, or in passes of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from graders.box.callers_hooks import CallersHooks
from graders.box.failures import Failure
from graders.box.passes import grad_mode, gradients
from graders.box.probing import removed, snapshot
from graders.box.tensors import prepared
from graders.box.witness import Change, Witness
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng


def copied(value: Any) -> Any:
    """The value as it is now, although somebody goes on changing it; a graph stays visible."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, list | tuple):
        return [copied(part) for part in value] if isinstance(value, list) else tuple(map(copied, value))
    return {key: copied(part) for key, part in value.items()} if isinstance(value, dict) else value


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors of a result."""
    parts = [value[key] for key in sorted(value)] if isinstance(value, dict) else value
    return [part for part in parts if isinstance(part, Tensor)] if isinstance(parts, list | tuple) else []


def numbers(rng: Rng, case: Any, shape: tuple[int, ...]) -> Tensor:
    """A tensor of the case."""
    return rng.tensor(*shape, dtype=case.dtype, values=case.values, low=-2.0, high=2.0)


def _few_digits(dtype: str, values: str) -> bool:
    """Where float64 holds numbers that float32 holds as well, a detour through float32 does not show."""
    return dtype == "float64" and values == "round"


def backwards(t: Tensor) -> Tensor:
    """The tensor with its dimensions in reverse order; what comes back through it does not lie in memory in order."""
    return t.permute(*reversed(range(t.dim()))) if t.dim() else t


def zero_in_place(grad: Tensor) -> None:
    """A hook with bad manners: it overwrites the gradient that it was given."""
    grad.mul_(0)


def put_on(t: Any, *hooks: Any) -> None:
    """Hooks of the caller on a tensor."""
    for hook in hooks:
        t.register_hook(hook)


# Hooks that stay.

STAYS = "no handle"


def into_a_list(call: Callable[..., Any], t: Tensor, beside: Any = None) -> tuple[Any, Any]:
    """For `function(t, store) -> handle`: the list, or that of another call, and the handle."""
    store = ["entries", "of before"] if beside is None else beside
    return store, call(t, store)


def into_a_dict(call: Callable[..., Any], t: Tensor, beside: Any = None) -> tuple[Any, Any]:
    """For `function(t) -> dict`: the dict; the hook stays for good."""
    return call(t), STAYS


@family(
    sections=(
        "{recorded}",
        "{start}",
        "{several}",
        "{copies}",
        "the flow is unchanged",
        "{end}",
        "nothing else changes",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "values": ("round", "full"),
        "rank": (0, 1, 2, 3),
        "place": ("leaf", "non-leaf", "parameter"),
        "grad": ("empty", "filled"),
        "hooks": ("none", "watching", "replacing"),
        "grad_mode": ("on", "off"),
        "backward": ("plain", "create_graph", "autograd.grad", "after an aborted one"),
    },
    impossible=(_few_digits, lambda place, grad: place == "non-leaf" and grad == "filled"),
)
def watches_tensor(
    call: Callable[..., Any],
    rng: Rng,
    case: Any,
    seen: Sections,
    watch: Callable[..., tuple[Any, Any]],
) -> None:
    """For a function that puts a hook on `t` which keeps a record of the gradients, and changes nothing.

    `watch(call, t, beside)` uses it, and returns the record and the handle, or `STAYS`.
    """
    recorded, start, several, copies, flow, ends, same = seen.values()
    shape = rng.shape(case.rank)
    x, c, other, up, down = (numbers(rng, case, shape) for _ in range(5))
    place = "parameter" if case.place == "parameter" else "leaf"
    x = prepared(x, layout="transposed", place=place, grad=case.grad)
    t = c - x if case.place == "non-leaf" else x
    neighbour = other.requires_grad_()
    (CallersHooks(case.hooks).on_parameter if t is x else CallersHooks(case.hooks).on_tensor)(t, "t")
    always = Witness(t=t, x=x, neighbour=neighbour, up=up)
    with grad_mode(case.grad_mode):
        before = Witness(t=t, x=x, neighbour=neighbour, up=up)
        record, handle = watch(call, t)
        start["before any pass"] = copied(record)
        same["changed"] = before.changes()
    flow["x.grad"], flow["the neighbour's gradient"] = gradients(
        lambda: ((t + neighbour) * up).sum(), [x, neighbour], case.backward
    )
    gradients(lambda: ((3 * t + t * t) * up).sum(), [x])
    gradients(lambda: (backwards(t) * backwards(up).contiguous()).sum(), [x])
    torch.autograd.grad((0 * t).sum(), t)
    recorded["after the passes"] = copied(record)
    (g,) = torch.autograd.grad((t * t * t).sum(), x, create_graph=True)
    flow["x.grad differentiated"] = torch.autograd.grad(g.sum(), x)[0] if g.requires_grad else None

    second, another_handle = watch(call, t)
    view = neighbour.view_as(neighbour)
    third = watch(call, neighbour)[0]  # nobody keeps its handle
    fourth = watch(call, view, third)[0]
    gradients(lambda: ((t + down * neighbour + view) * up).sum(), [x, neighbour])
    several["of one more call for t"] = copied(second)
    several["of calls for another tensor and a view of it"] = copied([third, fourth])

    u, v = (torch.ones_like(x).requires_grad_() for _ in range(2))
    alone, _one = watch(call, u)
    (first,) = torch.autograd.grad((up * u).sum(), u)
    for _ in range(2):
        torch.autograd.grad((up * u * u).sum(), u, create_graph=True)
    copies["of passes with create_graph"] = copied(alone)
    flow["a gradient, after the next passes"] = first
    overwritten, _other = watch(call, v)
    put_on(v, zero_in_place)
    for _ in range(2):
        torch.autograd.grad((down * v).sum(), v)
    copies["after a later hook overwrote each gradient"] = copied(overwritten)

    for name, one in (("one", handle), ("the other", another_handle)):
        if one != STAYS:
            ends[f"{name} handle has remove()"] = removed(one)
        gradients(lambda: (t * down).sum(), [x])
        ends[f"the records after {name} remove()"] = copied([record, second])
    same["changed at the end"] = [change for change in always.changes() if change[0][:4] != "grad"]


# Functions that run the passes themselves.


@dataclass
class World:
    """What a caller has, and gives to a function that runs backward passes."""

    args: tuple[Any, ...]
    again: Callable[[], tuple[Any, ...]]
    """The arguments of a later call, with the same leaves."""
    things: dict[str, Any]
    """What the function may not change, by name."""
    leaves: dict[str, Tensor]
    """Of the things, those that may get a gradient."""
    log: list[str]
    """When the caller's code was called."""
    kept: list[Tensor] = field(default_factory=list)
    """Gradients that hooks of the caller have kept."""
    look: Callable[[], dict[str, Any]] = dict
    """What else shows after the call."""

    def grads(self, when: str = "") -> dict[str, Tensor | None]:
        """`.grad` of the leaves, as it is now."""
        return {f"{name}.grad{when}": snapshot(leaf.grad) for name, leaf in self.leaves.items()}

    def changes(self, witness: Witness) -> list[Change]:
        """What a witness tells, without `.grad` of leaves: there, only the values count."""
        return [change for change in witness.changes() if change[0][:4] != "grad" or change[1] not in self.leaves]


@family(
    sections=(
        "{results}",
        "another call starts afresh",
        "{passes}",
        "{own}",
        "nothing else changes",
        "{exception}",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "values": ("round", "full"),
        "rank": (0, 1, 2, 3),
        "place": ("leaf", "parameter"),
        "grad": ("empty", "filled"),
        "hooks": ("none", "watching", "replacing"),
        "failure": ("own", "RuntimeError", "KeyError", "KeyboardInterrupt"),
        "raised_in": ("loss", "backward"),
    },
    impossible=(_few_digits,),
)
def runs_backward(call: Callable[..., Any], rng: Rng, case: Any, seen: Sections, world: Callable[..., World]) -> None:
    """For a function that runs backward passes, and returns what they brought.

    `world(rng, case, strike=None, within=None)` makes what the caller has, as in `graders.scenes.worlds`. Code of the
    caller calls `strike` where `case.raised_in` says, and `within` late in a pass.
    """
    results, later, passes, own, same, failing = seen.values()

    first = world(rng, case)
    before = Witness(**first.things)
    result = call(*first.args)
    results["the result"] = copied(result)
    passes["what was called"] = list(first.log)
    passes.update(first.grads(), **first.look())
    same["changed"] = first.changes(before)

    found: list[Any] = []
    inner = world(rng, case)

    def within(*args: Any) -> None:
        if not found:
            found.append(None)
            with torch.enable_grad():  # during a pass it is off
                found[0] = copied(call(*inner.args))

    later["around another call"] = copied(call(*world(rng, case, within=within).args))
    later["of the call inside of it"] = found
    later["of a second call"] = copied(call(*first.again()))
    passes.update(first.grads(" after a second call"))

    for gradient in [*first.kept, *(leaf.grad for leaf in first.leaves.values() if leaf.grad is not None)]:
        gradient.zero_()
    own["the result, after the caller overwrote its gradients"] = copied(result)
    for number, entry in enumerate(tensors_in(result)):
        entry.data.fill_(number)
    own["the result, after its entries were numbered"] = result

    failed = world(rng, case, strike=(failure := Failure(case.failure)).strike)
    before = Witness(**failed.things)
    failing["exception"] = failure.during(lambda: call(*failed.args))
    failing.update(failed.grads(" after an exception"))
    failing["changed after an exception"] = failed.changes(before)
