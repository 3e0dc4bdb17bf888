"""What several exercises of lesson 11 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from graders.authoring import Rng, Seen, expect, refuse, resolve
from graders.lesson_11_hygiene.shared import KINDS, OPERATIONS, WITH_OTHER_ARGUMENTS


def linear(
    rng: Rng, inputs: int = 3, outputs: int = 3, dtype: torch.dtype | str = torch.float32, values: str = "round"
) -> list[Any]:
    """The spec of a linear layer."""
    weight = rng.tensor(outputs, inputs, low=-1.5, high=1.5, dtype=dtype, values=values)
    return ["linear", weight, rng.tensor(outputs, low=-1, high=1, dtype=dtype, values=values)]


def chain(children: dict[str, list[Any]], order: Sequence[str], **options: Any) -> list[Any]:
    """The spec of a chain. The options are those of `Chain`; `hidden` holds specs."""
    return ["chain", children, list(order), options]


def scrambled(rng: Rng, children: dict[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """The children, defined in another order than that in which they are called; a second name behind the first."""
    called = [name for name in order if name in children]
    while True:
        names = rng.shuffled(list(children))
        first = {name: child[1] for name, child in children.items() if child[0] == "same"}
        behind = all(names.index(name) > names.index(other) for name, other in first.items())
        if behind and (len(called) < 2 or [name for name in names if name in called] != called):
            return {name: children[name] for name in names}


def walk(spec: list[Any], name: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Name and spec of each module, as `named_modules()` yields them."""
    yield name, spec
    if spec[0] in ("chain", "list"):
        children = spec[1].items() if isinstance(spec[1], dict) else enumerate(spec[1])
        for key, child in children:
            if child[0] != "same":
                yield from walk(child, f"{name}.{key}" if name else str(key))


def of_kind(spec: list[Any], *kinds: str) -> list[str]:
    """The names of the modules of some kinds."""
    return [name for name, part in walk(spec) if part[0] in kinds]


def in_eval_mode(rng: Rng, spec: list[Any], mode: str) -> list[str]:
    """The names of the modules in eval mode; with "mixed" the model itself and one of the layers that show it."""
    if mode == "mixed":
        return ["", rng.choice(of_kind(spec, "modal"))]
    return [name for name, _ in walk(spec)] if mode == "eval" else []


@dataclass(frozen=True)
class Call:
    """One call of a module: its first name in `named_modules()`, what went in, and what the next layer got.

    `own` is what came out before the hooks of the caller. A module that is not registered is no leaf.
    """

    name: str
    leaf: bool
    inputs: list[Tensor]
    own: Tensor
    output: Tensor

    @property
    def bad_in(self) -> bool:
        """Whether an input has an entry that is not finite."""
        return not all(bool(torch.isfinite(value).all()) for value in self.inputs)

    @property
    def bad_out(self) -> bool:
        """Whether the output has an entry that is not finite."""
        return not bool(torch.isfinite(self.output).all())


@dataclass(frozen=True)
class Run:
    """How a model runs: which modules are in eval mode, what the caller's hooks make of outputs, which run it is."""

    evaluating: Sequence[str] = ()
    replaced: Mapping[str, Callable[[Tensor], Tensor]] = field(default_factory=dict)
    number: int = 1

    def trace(self, spec: list[Any], x: Tensor, name: str = "") -> list[Call]:
        """Every call of a module when the model of `spec` runs on `x`, in the order in which the calls end.

        Direct composition of functions; nothing is done in place.
        """
        kind, *rest = spec
        if kind != "chain":
            return [self._call(name, [x], self._computed(kind, name, x, rest))]
        calls: list[Call] = []
        y, options = x, rest[2]
        for step in rest[1]:
            if step in options.get("hidden", {}):
                hidden = self.trace(options["hidden"][step], y, HIDDEN)[-1]
                calls.append(replace(hidden, leaf=False))
                y = calls[-1].output
                continue
            child, path = resolve(spec, step)
            full = f"{name}.{path}" if name else path
            if child[:2] == ["layer", "mix"]:
                calls.append(self._call(full, [y, x], y + 0.5 * x))
            elif child[:2] == ["layer", "boost"]:
                calls.append(self._call(full, [y], y + float("inf")))
            elif child[0] == "refuses":
                continue
            else:
                calls += self.trace(child, y, full)
            y = calls[-1].output
        return [*calls, self._call(name, [x], y * options.get("factor", 1.0), leaf=False)]

    def _call(self, name: str, inputs: list[Tensor], own: Tensor, leaf: bool = True) -> Call:
        return Call(name, leaf, inputs, own, self.replaced[name](own) if name in self.replaced else own)

    def _computed(self, kind: str, name: str, x: Tensor, rest: list[Any]) -> Tensor:
        """What one layer makes of x."""
        if kind == "linear":
            return x @ rest[0].T + rest[1]
        if kind == "affine":
            return rest[0] * x + rest[1]
        if kind == "counting":
            return x * (1 + self.number)
        if kind == "modal":
            return x / 2 if name in self.evaluating else x + 1
        if kind == "offset":
            return x + rest[0]
        return OPERATIONS[rest[0]](x.clone(), *rest[1:])


BEFORE_THE_CALLERS_HOOK = (
    "A hook of the caller replaced the output, and you took it before that. Hooks of a module run in the order in "
    "which they were registered, those for all modules first: register yours on the module, without `prepend`."
)
HIDDEN = "(not registered)"


def trace(spec: list[Any], x: Tensor) -> list[Call]:
    """Every call of a module when the model runs on `x`, without hooks and in training mode."""
    return Run().trace(spec, x)


# 11-remove-all-hooks and 11-clean-copy: a model full of hooks.


def some_hooks(rng: Rng, places: dict[str, str], legacy: bool) -> list[Any]:
    """Hooks of every kind, with every option, in random order: [name of the module, kind, options, label].

    `places` holds the names of a child, a container, a module inside it, a shared module, a module that is never
    called, one of its entries, and a module deeper down; it is empty for a model that is a single layer, which then has
    them all. Some modules have hooks of one kind only. Two hooks on one module are the same function. `legacy` puts a
    hook of the deprecated kind on the entry.
    """
    at = dict.fromkeys(("child", "container", "inside", "shared", "never", "entry", "deep"), "") | places
    full = "backward" if places or not legacy else "legacy"
    hooks: list[list[Any]] = [
        ["", "forward", {"prepend": True}],
        ["", full, {}],
        [at["child"], "forward", {}],
        [at["child"], "forward", {"with_kwargs": True}],
        [at["child"], full, {}],
        [at["container"], "pre", {"with_kwargs": True}],
        [at["inside"], "forward", {"always_call": True}],
        [at["shared"], "pre", {}],
        [at["shared"], "forward", {}],
        [at["shared"], full, {} if full == "legacy" else {"prepend": True}],
        [at["never"], "forward", {}],
        [at["entry"], "legacy" if legacy else "backward", {}],
        [at["deep"], "backward-pre", {}],
        [at["deep"], "backward-pre", {"prepend": True}],
    ]
    for _ in range(rng.integer(1, 4)):
        hooks.append([rng.choice(list(at.values())), rng.choice(("pre", "forward")), {}])
    twice = [at["child"], "forward", {}, "the same function twice"]
    return [*([*hook, f"hook {index}"] for index, hook in enumerate(rng.shuffled(hooks))), twice, twice]


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


def left_on(before: Any, left: Any, spec: list[Any]) -> list[str] | None:
    """The names of the modules that still have all their hooks, when all others have lost all of theirs; else None."""
    if type(left) is not dict:
        return None
    rows = list(zip(*before.values())), list(zip(*left.values()))
    if not partly_cleared(*rows):
        return None
    return [name for (name, _), now in zip(walk(spec), rows[1]) if any(now)]


def left_below(names: list[str] | None, before: dict[str, Any], spec: list[Any]) -> bool:
    """Whether hooks are left on modules deeper down only, or there and on the model itself, or everywhere but there."""
    if not names:
        return False
    below = [name for (name, _), had in zip(walk(spec), zip(*before.values())) if name and any(had)]
    return names == below or (any("." in name for name in names) and all("." in name or not name for name in names))


def left_on_containers(names: list[str] | None, spec: list[Any]) -> bool:
    """Whether hooks are left on modules with children only, and not on the model alone."""
    return bool(names) and names != [""] and set(names or ()) <= set(of_kind(spec, "chain", "list"))


def first_left(seen: Seen, spec: list[Any]) -> str:
    """How many module hooks are left, and where the first of them is."""
    if not (count := sum(counts_seen(seen))):
        return ""
    kind = next(kind for kind in seen.keys if any(seen[kind].value))
    name = next((name for (name, _), left in zip(walk(spec), seen[kind].value) if left), "?")
    where = f"`{name}`" if name else "the model itself"
    return f"module hooks are still there, {count} of them; one is in `{kind}` of {where}"


def flags_free(before: Seen, now: Seen, spec: list[Any]) -> None:
    """Each flag is as before, or None again."""
    for (name, _), old, new in zip(walk(spec), before, now):
        if new.value is not None and new.value != old.value:
            where = f"`{name}`" if name else "the model itself"
            refuse(f"the flag `_is_full_backward_hook` of {where} was {old.value} and is {new.value}")


ROOT_LEFT = (
    "The model itself kept its hooks. It is a module, too: `modules()` begins with it, and goes on to any depth."
)
CONTAINERS_LEFT = "Modules that have children kept their hooks. Containers are modules, too: skip none of `modules()`."


PLAIN_DICTS = (
    "You put new dicts in the place of the old ones, and now no hook can be registered any more: a handle needs a weak "
    "reference to the dict, which a plain `{}` does not allow. Empty the old dict with `clear()`."
)
FLAG_SET = (
    "You set the flag `_is_full_backward_hook`, and the module now refuses backward hooks of one kind. Leave the flag, "
    "or set it back to `None`."
)


def flag_set(before: Seen, now: Seen) -> bool:
    """Whether a flag has another value than before, and not None."""
    return any(new.value is not None and new.value != old.value for old, new in zip(before, now))


def all_new_hooks_fire(seen: Seen, spec: list[Any], refusing: Sequence[str], x: Tensor) -> None:
    """Each new hook fired once for every call of its module."""
    if isinstance(seen["new"].value, str):
        refuse(f"registering new hooks afterwards raised {seen['new'].value}")
    if type(seen["new"].value) is not dict or any(type(label) is not str for label in seen["new"].keys):
        refuse("no new hooks could be registered")
    kinds = ("pre", "forward", "backward-pre", "backward")
    fired = Counter({label: expect(seen["new"][label]).of_type(int) for label in seen["new"].keys})
    for call in trace(spec, x):
        for kind in kinds:
            fired[f"{kind} {call.name}"] -= kind != "backward" or call.name not in refusing
    for label, surplus in fired.items():
        if surplus:
            kind, _, name = label.removesuffix(WITH_OTHER_ARGUMENTS).strip().partition(" ")
            where = f"`{name}`" if name else "the model itself"
            if label.endswith(WITH_OTHER_ARGUMENTS):
                refuse(f"a new {kind} hook on {where} was called for another module, or {WITH_OTHER_ARGUMENTS[1:-1]}")
            times = "more" if surplus > 0 else "less"
            refuse(f"a new {kind} hook on {where} fired {times} often than its module was called")
