"""What tells that something of an answer outlives a call of it, though no known mistake explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graders.core.transcript import Outcome
from graders.scenes.scene import NOT_THE_SAME_AGAIN
from graders.verdict.comparing import find_differences
from graders.verdict.comparison import Differences
from graders.verdict.implementations import tensors_and_floats


def outlives_a_call(outcomes: Sequence[Outcome]) -> bool:
    """Whether something of an answer was left from one call to the next: its first story shows something else again."""
    return any(NOT_THE_SAME_AGAIN in outcome.seen.keys for outcome in outcomes if outcome.seen)


def repeats_first_result(
    section: str, answer: Mapping[tuple[int, str], Differences], outcomes: Sequence[Outcome]
) -> bool:
    """Whether an observation is right in the first case, and the same in a later one, where that is wrong.

    `answer` has the differences by the number of the case and the section. Counts may be the same by chance.
    """
    first, *later = (outcome.seen for outcome in outcomes)
    if first is None:
        return False
    right = {*first[section].keys} - {_name(path) for path in answer[0, section]}
    wrong = [(seen, _name(path)) for case, seen in enumerate(later, 1) if seen for path in answer[case, section]]
    repeated = [(seen[section][name], first[section][name].value) for seen, name in wrong if name in right]
    return any(_has_fractions(value) and not any(find_differences(again, value)) for again, value in repeated)


def _has_fractions(value: Any) -> bool:
    return any(bool((part.double() % 1 != 0).any()) for part in tensors_and_floats(value))


def _name(path: str) -> str:
    """The name of the observation to which a path leads."""
    return path.partition(": ")[2].partition("[")[0]
