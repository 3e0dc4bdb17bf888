"""What several exercises of lesson 11 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from graders.authoring import Rng, Seen, expect, resolve
from graders.lesson_11_hygiene.shared import KINDS, OPERATIONS


def linear(rng: Rng, inputs: int = 3, outputs: int = 3, dtype: torch.dtype = torch.float32) -> list[Any]:
    """The spec of a linear layer."""
    weight = rng.tensor(outputs, inputs, low=-1.5, high=1.5, dtype=dtype)
    return ["linear", weight, rng.tensor(outputs, low=-1, high=1, dtype=dtype)]


def chain(children: dict[str, list[Any]], order: Sequence[str], factor: float = 1.0) -> list[Any]:
    """The spec of a chain."""
    return ["chain", children, list(order), factor]


@dataclass(frozen=True)
class Call:
    """One call of a module: its first name in `named_modules()`, and what went in and came out."""

    name: str
    leaf: bool
    inputs: list[Tensor]
    output: Tensor

    @property
    def bad_in(self) -> bool:
        """Whether an input has an entry that is not finite."""
        return not all(bool(torch.isfinite(value).all()) for value in self.inputs)

    @property
    def bad_out(self) -> bool:
        """Whether the output has an entry that is not finite."""
        return not bool(torch.isfinite(self.output).all())


def trace(spec: list[Any], x: Tensor, *, name: str = "", batch_statistics: bool = False) -> list[Call]:
    """Every call of a module when the model of `spec` runs on `x`, in the order in which the calls end.

    Direct composition of functions; nothing is done in place.
    """
    kind, *rest = spec
    if kind != "chain":
        return [Call(name, True, [x], compute(kind, x, rest, batch_statistics))]
    calls: list[Call] = []
    y = x
    for step in rest[1]:
        child, path = resolve(spec, step)
        full = f"{name}.{path}" if name else path
        if child[:2] == ["layer", "mix"]:
            calls.append(Call(full, True, [y, x], OPERATIONS["mix"](y, x, 0.5)))
        else:
            calls += trace(child, y, name=full, batch_statistics=batch_statistics)
        y = calls[-1].output
    return [*calls, Call(name, False, [x], y * rest[2])]


def compute(kind: str, x: Tensor, rest: list[Any], batch_statistics: bool) -> Tensor:
    """What one layer makes of x."""
    if kind == "linear":
        return x @ rest[0].T + rest[1]
    if kind == "norm":
        zeros, ones = torch.zeros_like(rest[0]), torch.ones_like(rest[0])
        return F.batch_norm(x, zeros, ones, *rest, training=batch_statistics)
    return OPERATIONS[rest[0]](x.clone(), *rest[1:])


# 11-remove-all-hooks and 11-clean-copy: a model full of hooks.


def some_hooks(rng: Rng, places: dict[str, str], legacy: bool) -> list[Any]:
    """Hooks of every kind at every level, two of a kind, with every option, and a few more, in random order.

    `places` holds the names of a child, a container, a module inside it, a shared module, a module that is never
    called, one of its entries, and a module deeper down. `legacy` puts a hook of the deprecated kind on the entry.
    """
    hooks: list[list[Any]] = [
        ["", "forward", {"prepend": True}],
        ["", "backward", {}],
        [places["child"], "forward", {}],
        [places["child"], "forward", {"with_kwargs": True}],
        [places["child"], "backward", {}],
        [places["container"], "pre", {"with_kwargs": True}],
        [places["container"], "backward-pre", {}],
        [places["inside"], "forward", {"always_call": True}],
        [places["inside"], "backward-pre", {"prepend": True}],
        [places["shared"], "pre", {}],
        [places["shared"], "forward", {}],
        [places["shared"], "backward", {"prepend": True}],
        [places["never"], "forward", {}],
        [places["entry"], "legacy" if legacy else "backward", {}],
        [places["deep"], "backward-pre", {}],
        [places["deep"], "backward-pre", {}],
        [places["deep"], "forward", {"with_kwargs": True, "always_call": True, "prepend": True}],
    ]
    for _ in range(rng.integer(1, 4)):
        hooks.append([rng.choice(list(places.values())), rng.choice(("pre", "forward")), {}])
    return [[*hook, f"hook {index}"] for index, hook in enumerate(rng.shuffled(hooks))]


def partly_cleared(rows: Sequence[Sequence[int]], left: Sequence[Sequence[int]]) -> bool:
    """Whether some of these rows of counts are empty now and all the others are as before."""
    changed = [row for row, now in zip(rows, left) if any(row) and not any(now)]
    kept = [row for row, now in zip(rows, left) if any(row) and list(row) == list(now)]
    return bool(changed and kept) and len(changed) + len(kept) == sum(map(any, rows))


def counts_seen(hooks: Seen) -> list[int]:
    """The number of hooks of each kind in each module, as one list, from what a probe saw: that may be anything."""
    kinds = expect(hooks).of_type(dict)
    return [count for kind in kinds for count in expect(hooks[kind]).list_of(int)]


def some_kinds_cleared(before: Any, left: Any) -> bool:
    """Whether some kinds of hooks are gone from all modules, and the other kinds are untouched."""
    return partly_cleared([before[kind] for kind in KINDS], [left[kind] for kind in KINDS])


def some_modules_cleared(before: Any, left: Any) -> bool:
    """Whether some modules have no hooks of any kind now, and the other modules have all of theirs."""
    return partly_cleared(list(zip(*before.values())), list(zip(*left.values())))


def all_new_hooks_fire(seen: Seen, spec: list[Any], entry: str, x: Tensor) -> None:
    """Each new hook fired once for every call of its module."""
    if isinstance(seen["new"].value, str):
        expect(seen["new"]).fail(f"registering new hooks afterwards raised {seen['new'].value}")
    if type(seen["new"].value) is not list:
        expect(seen["new"]).fail("no new hooks could be registered")
    kinds = ("pre", "forward", "backward-pre", "backward")
    fired = Counter(expect(seen["new"]).list_of(str))
    for call in trace(spec, x):
        for kind in kinds:
            fired[f"{kind} {call.name}"] -= (call.name, kind) != (entry, "backward")
    for label, surplus in fired.items():
        if surplus:
            times = "more" if surplus > 0 else "less"
            expect(seen["new"]).fail(
                f"the new hook {label!r} (kind, module) fired {times} often than its module was called"
            )
