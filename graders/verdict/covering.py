"""Build a covering design: few cases in which each value of each axis (a circumstance, such as the dtype) occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

Value = str | int | bool | float | None
Case = dict[str, Value]
Rules = Sequence[tuple[tuple[str, ...], Callable[..., bool]]]


def covering_cases(
    axes: Mapping[str, Sequence[Value]], pairs: Sequence[tuple[str, str]], impossible: Rules
) -> list[Case]:
    """A small set of cases in which each value of each axis occurs, and each pair of values of the axes in `pairs`.

    A rule in `impossible` names some axes and has a function of their values that is true where they cannot go
    together. Pairs that are impossible are left out; an impossible value raises `TypeError`.

    The search is greedy: a case starts with the first open demand. From each further axis it takes the value that meets
    the most other demands; among equals, the one used least with the case's other values, so that no axes go in step.
    """
    wanted = [{name: value} for name, values in axes.items() for value in values]
    for first, second in pairs:
        wanted += [{first: a, second: b} for a, b in product(axes[first], axes[second])]
    cases: list[Case] = []
    while wanted:
        case = next(_complete_cases(wanted[0], axes, wanted, cases, impossible), None)
        if case is not None:
            cases.append({name: case[name] for name in axes})
            wanted = [demand for demand in wanted if not demand.items() <= case.items()]
        elif len(wanted[0]) == 1:
            raise TypeError(f"no case can have {wanted[0]}: everything with it is impossible")
        else:
            del wanted[0]  # this pair is impossible
    return cases or [{}]


def _complete_cases(
    start: Case, axes: Mapping[str, Sequence[Value]], wanted: Sequence[Case], cases: Sequence[Case], impossible: Rules
) -> Iterator[Case]:
    """The possible cases that contain `start`, the most useful first."""
    if any(set(names) <= start.keys() and rule(*(start[name] for name in names)) for names, rule in impossible):
        return
    name = next((name for name in axes if name not in start), None)
    if name is None:
        yield start
        return

    def use(value: Value) -> tuple[int, int]:
        longer = {**start, name: value}
        met = sum(name in demand and demand[name] == value and _can_be_met(demand, longer) for demand in wanted)
        alike = [case for case in cases if case[name] == value]
        return -met, len(alike) + sum(case[other] == start[other] for case in alike for other in start)

    for value in sorted(axes[name], key=use):
        yield from _complete_cases({**start, name: value}, axes, wanted, cases, impossible)


def _can_be_met(demand: Case, case: Case) -> bool:
    """Whether a case that begins like this can still meet a demand."""
    return all(case.get(name, value) == value for name, value in demand.items())
