"""The covering design: few cases in which each value of each axis occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

Value = str | int | bool | float | None
Case = dict[str, Value]
Rules = Sequence[tuple[tuple[str, ...], Callable[..., bool]]]


def covering_cases(
    axes: Mapping[str, Sequence[Value]], pairs: Sequence[tuple[str, str]], impossible: Rules
) -> list[Case]:
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
        case = next(_complete_cases(wanted[0], axes, wanted, cases, impossible), None)
        if case is not None:
            cases.append({name: case[name] for name in axes})
            wanted = [demand for demand in wanted if not demand.items() <= case.items()]
        elif len(wanted[0]) == 1:
            raise TypeError(f"no case can have {wanted[0]}: everything with it is impossible")
        else:
            del wanted[0]  # a pair that cannot be
    return cases or [{}]


def _complete_cases(
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
        met = sum(name in demand and demand[name] == value and _can_be_met(demand, longer) for demand in wanted)
        alike = [case for case in cases if case[name] == value]
        return -met, len(alike) + sum(case[other] == start[other] for case in alike for other in start)

    for value in sorted(axes[name], key=use):
        yield from _complete_cases({**start, name: value}, axes, wanted, cases, impossible)


def _can_be_met(demand: Case, case: Case) -> bool:
    """Whether a demand can still be met by what a case begins with."""
    return all(case.get(name, value) == value for name, value in demand.items())
