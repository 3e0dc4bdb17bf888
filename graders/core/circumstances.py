"""Circumstances: what a contract promises in general, tried in general.

One table names the axes that are the same in all exercises. An exercise says which of them its contract covers and
which not, with the reason; from that its cases are made, few, and such that each value occurs in every marking.

    circumstances=Circumstances(
        covers={"dtype": ALL, "rank": ALL, "layout": ALL, "grad": ALL, "call": ("once", "again")},
        excludes={"model": "it gets no model", "number": "it gets no number", ...},
        pairs=[("rank", "layout")],
        own={"mixing": (False, True)},
    )

Each value of a case reaches `draw`, and by its name also `probe`, the checks and the mistakes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

Value = str | int | bool | float | None
Case = dict[str, Value]
ALL = "all values of an axis"


@dataclass(frozen=True)
class Axis:
    """One way in which circumstances differ. `of` is the thing that it belongs to."""

    of: str
    name: str
    values: tuple[Value, ...]
    sentence: str


AXES = (
    Axis("tensor", "dtype", ("float32", "float64"), "the dtype of the tensors"),
    Axis("tensor", "rank", (0, 1, 2, 3, 4), "the number of dimensions"),
    Axis("tensor", "layout", ("contiguous", "transposed", "slice", "expanded"), "how the values lie in memory"),
    Axis("tensor", "place", ("leaf", "non-leaf", "parameter"), "what the tensor is to autograd"),
    Axis("tensor", "grad", ("empty", "filled"), "what its `.grad` holds beforehand"),
    Axis("tensor", "values", ("round", "full"), "eighths, or numbers that use all digits of the dtype"),
    Axis("number", "number", ("zero", "negative", "fraction", "large"), "a number that is an argument"),
    Axis("collection", "collection", ("empty", "one", "many", "repeated"), "the number of entries"),
    Axis("model", "mode", ("train", "eval", "mixed"), "the modes of the modules, with a layer that shows them"),
    Axis("model", "frozen", ("nothing", "part"), "which parameters require no grad"),
    Axis("model", "tied", ("no", "yes"), "whether two modules share a parameter"),
    Axis("model", "named", ("first", "last", "nested", "root", "second name"), "where the module stands that is named"),
    Axis("model", "output", ("tensor", "tuple", "dict"), "what the module returns"),
    Axis("model", "follower", ("plain", "in-place"), "the layer behind the module"),
    Axis("model", "passing", ("position", "keyword"), "how the module gets its input"),
    Axis("model", "registered", ("yes", "no"), "whether a module that is called is a submodule"),
    Axis("model", "layers", ("linear", "convolution", "norm", "activation"), "the type of the layer"),
    Axis("hooks", "hooks", ("none", "watching", "replacing"), "what the hooks of the caller do"),
    Axis("hooks", "hooked", ("root", "named", "parameter"), "where the hooks of the caller sit"),
    Axis("call", "call", ("once", "again", "in turn"), "one call, two on one object, or two objects in turn"),
    Axis("call", "grad_mode", ("on", "off"), "off: the call stands under `torch.no_grad()`"),
    Axis("call", "backward", ("plain", "create_graph", "autograd.grad", "after an aborted one"), "the backward pass"),
    Axis("failure", "failure", ("own", "RuntimeError", "KeyError", "KeyboardInterrupt"), "the exception"),
    Axis("failure", "failing_run", ("first", "second"), "the run in which it is raised"),
)  # fmt: skip
BY_NAME = {axis.name: axis for axis in AXES}

IMPOSSIBLE: tuple[Callable[..., bool], ...] = (
    lambda rank, layout: (layout == "transposed" and rank < 2) or (layout == "expanded" and rank < 1),
    lambda place, grad: place == "non-leaf" and grad == "filled",
)
"""What cannot be together. Each asks for axes by the names of its parameters, and counts where all are covered."""


@dataclass(frozen=True)
class Circumstances:
    """The circumstances of one exercise.

    `covers` maps the name of an axis to `ALL` or to those of its values that the contract covers. `excludes` gives a
    reason for each axis, or for all axes of a thing ("tensor", "number", "collection", "model", "hooks", "call",
    "failure"), that is not covered. `own` holds axes that only this exercise has, `constants` values for every case.
    Every pair of values of two axes in `pairs` comes together in some case. `impossible` is as `IMPOSSIBLE`.
    """

    covers: Mapping[str, str | Sequence[Value]]
    excludes: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    pairs: Sequence[tuple[str, str]] = ()
    impossible: Sequence[Callable[..., bool]] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    at_least: int = 3

    def __post_init__(self) -> None:
        """A name or a value that the table lacks is a slip of the author. Raises `TypeError`."""
        for name, values in self.covers.items():
            if name not in BY_NAME:
                raise TypeError(f"there is no axis {name!r}; the axes are {', '.join(BY_NAME)}")
            for value in self.values(name):
                if value not in BY_NAME[name].values:
                    raise TypeError(f"the axis {name} has no value {value!r}; it has {BY_NAME[name].values}")
            if not values:
                raise TypeError(f"the axis {name} is covered with no value")
        for name in self.excludes:
            if name not in BY_NAME and name not in {axis.of for axis in AXES}:
                raise TypeError(f"{name!r} is excluded, and there is no such axis")
        axes = {*self.covers, *self.own}
        together = [*self.pairs, *(tuple(inspect.signature(rule).parameters) for rule in self.impossible)]
        for names in together:
            if unknown := set(names) - axes:
                raise TypeError(f"{', '.join(sorted(unknown))} is paired or impossible, and neither covered nor own")

    def values(self, name: str) -> tuple[Value, ...]:
        """The values of an axis that are covered; all of one of the exercise's own; none of one that is excluded."""
        if name in self.own:
            return tuple(self.own[name])
        chosen = self.covers.get(name, ())
        return BY_NAME[name].values if chosen is ALL else tuple(chosen)

    def reason(self, axis: Axis) -> str:
        """Why an axis is not covered; empty when nobody said so."""
        return self.excludes.get(axis.name) or self.excludes.get(axis.of, "")

    @property
    def unnamed(self) -> list[str]:
        """Axes that are neither covered nor excluded, or both by their own name: the author has to say."""
        return [
            axis.name
            for axis in AXES
            if (axis.name in self.covers and axis.name in self.excludes)
            or (axis.name not in self.covers and not self.reason(axis))
        ]

    @functools.cached_property
    def cases(self) -> tuple[Case, ...]:
        """The covering design: a pure function of the axes, the same for every seed."""
        axes = {name: self.values(name) for name in (*self.covers, *self.own)}
        rules = [
            (names, rule)
            for rule in (*IMPOSSIBLE, *self.impossible)
            if set(names := tuple(inspect.signature(rule).parameters)) <= set(axes)
        ]
        found = covering(axes, self.pairs, rules)
        filled = [found[index % len(found)] for index in range(max(len(found), self.at_least))]
        return tuple({**self.constants, **case} for case in filled)


Rules = Sequence[tuple[tuple[str, ...], Callable[..., bool]]]


def covering(axes: Mapping[str, Sequence[Value]], pairs: Sequence[tuple[str, str]], impossible: Rules) -> list[Case]:
    """Few cases in which each value of each axis occurs, and each pair of values of the axes in `pairs`.

    Greedy: a case starts with the first demand that is still open, and takes of each further axis the value that
    meets most other demands, then the one that was used least beside the values that the case has, so that no two
    axes go in step. Raises `TypeError` for a value that no case can have.
    """
    wanted = [{name: value} for name, values in axes.items() for value in values]
    for first, second in pairs:
        wanted += [{first: a, second: b} for a, b in product(axes[first], axes[second])]
    cases: list[Case] = []
    while wanted:
        case = next(_completions(wanted[0], axes, wanted, cases, impossible), None)
        if case is not None:
            cases.append({name: case[name] for name in axes})
            wanted = [demand for demand in wanted if not demand.items() <= case.items()]
        elif len(wanted[0]) == 1:
            raise TypeError(f"no case can have {wanted[0]}: everything with it is impossible")
        else:
            del wanted[0]  # a pair that cannot be
    return cases or [{}]


def _completions(
    start: Case, axes: Mapping[str, Sequence[Value]], wanted: Sequence[Case], cases: Sequence[Case], impossible: Rules
) -> Iterator[Case]:
    """The cases that contain `start`, the most useful first."""
    if any(set(names) <= start.keys() and rule(*(start[name] for name in names)) for names, rule in impossible):
        return
    name = next((name for name in axes if name not in start), None)
    if name is None:
        yield start
        return

    def use(value: Value) -> tuple[int, int]:
        longer = {**start, name: value}
        met = sum(name in demand and demand[name] == value and _agree(demand, longer) for demand in wanted)
        alike = [case for case in cases if case[name] == value]
        return -met, len(alike) + sum(case[other] == start[other] for case in alike for other in start)

    for value in sorted(axes[name], key=use):
        yield from _completions({**start, name: value}, axes, wanted, cases, impossible)


def _agree(demand: Case, case: Case) -> bool:
    """Whether a demand can still be met by what a case begins with."""
    return all(case.get(name, value) == value for name, value in demand.items())


def every_pair(*names: str) -> list[tuple[str, str]]:
    """All pairs of these axes, for `Circumstances.pairs`."""
    return list(combinations(names, 2))
