"""Recognises a mistake: finds the wrong program that shows what the learner's function showed.

In the first section that fails in any case, and in those before it, the mistake must show exactly the same differences
as the learner's function, in every case. If several do, the one with the fewest differences in other sections is
chosen. If two are equally close there is no explanation, because none is better than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from graders.core.exercise import Inputs
from graders.core.expect import Seen
from graders.core.explanations import Explanation
from graders.core.transcript import Outcome
from graders.verdict.comparing import find_differences, tells_changes
from graders.verdict.comparison import Comparison, float_tolerance
from graders.verdict.implementations import Implementation, Play
from graders.wire.data import Changes

NOTHING_DONE = Implementation("nothing-done", lambda *args, **kwargs: None)
"""Competes with the mistakes, so that a function that does nothing is not taken for one with a forgotten return."""
SAME_MESSAGE = 60
"""Two exceptions are the same if this many characters of their messages agree, without numbers and own names."""
OWN_NAMES = r"[\w.<>]*\(\)|'(?!(?:list|tuple|dict|float|int|str|NoneType|Tensor)')\w*'|'<\w+>'|\d"
"""Matches numbers and the names that learners choose, of functions, parameters and attributes, but not types."""


def explain_outcomes(
    comparison: Comparison, draws: Sequence[Inputs], outcomes: Sequence[Outcome]
) -> Explanation | None:
    """The mistake that explains a wrong answer; None when none does, or several do equally well."""
    with comparison.stage.open() as play:
        ended = next((index for index, outcome in enumerate(outcomes) if outcome.seen is None), None)
        if ended is not None:
            return _single_explanation(
                comparison, _mistakes_ending_alike(comparison, play, draws[: ended + 1], outcomes[ended])
            )
        leading = _leading_sections(comparison, play, draws, outcomes)
        scores: dict[int, int] = {}
        for mistake in comparison.mistakes:
            unlike = 0
            for draw, outcome, shown in zip(draws, outcomes, mistake_outcomes(comparison, play, mistake, draws)):
                more = _count_unlike_places(comparison, play, draw, outcome, shown, leading)
                if more is None:
                    break
                unlike += more
            else:
                scores[mistake] = unlike
    return _single_explanation(
        comparison, [mistake for mistake, score in scores.items() if score == min(scores.values())]
    )


def mistake_outcomes(comparison: Comparison, play: Play, mistake: int, draws: Sequence[Inputs]) -> Iterator[Outcome]:
    """What a mistake shows for each draw. It is not cached if the program keeps something from one draw to the next."""
    keeps = keeps_something(comparison.stage.programs[mistake])
    for draw in draws:
        yield play(mistake, draw) if keeps else comparison.outcome(play, mistake, draw)


def keeps_something(program: Implementation) -> bool:
    """Whether it may remember earlier draws in a mutable default."""
    defaults = getattr(program.function, "__defaults__", None) or ()
    return any(isinstance(value, list | dict | set) for value in defaults)


def _count_unlike_places(
    comparison: Comparison, play: Play, draw: Inputs, outcome: Outcome, shown: Outcome, leading: Sequence[str]
) -> int | None:
    """At how many places a mistake and the answer differ; None when they differ in a leading section or in a change.

    `shown` is what the mistake shows.
    """
    if shown.seen is None or outcome.seen is None or _reported_changes(shown.seen) != _reported_changes(outcome.seen):
        return None
    unlike = 0
    for section in comparison.sections:
        mine, its = (comparison.differences(seen, draw, section, play) for seen in (outcome.seen, shown.seen))
        apart = [
            path
            for path in {*mine, *its}
            if path not in mine
            or path not in its
            or not _is_same_observation(path, outcome.seen, shown.seen, float_tolerance(draw))
        ]
        if apart and section in leading:
            return None
        unlike += len(apart)
    return unlike


def _leading_sections(
    comparison: Comparison, play: Play, draws: Sequence[Inputs], outcomes: Sequence[Outcome]
) -> Sequence[str]:
    """The sections up to the first that fails. A mistake that explains the answer must agree with it in all of them."""
    for number, section in enumerate(comparison.sections, 1):
        for draw, outcome in zip(draws, outcomes):
            if outcome.seen is not None and comparison.differences(outcome.seen, draw, section, play):
                return comparison.sections[:number]
    return ()


def _reported_changes(seen: Seen) -> list[list[str]]:
    """All changes that a witness reported, sorted, for each section that has any."""
    return [
        sorted(map(str, _entries(part[name].value)))
        for section in seen.keys
        for part in [seen[section]]
        for name in part.keys
        if tells_changes(str(name)) or isinstance(part[name].value, Changes)
    ]


def _entries(changes: Any) -> Sequence[Any]:
    return changes.found if isinstance(changes, Changes) else changes if type(changes) is list else ()


def _is_same_observation(path: str, one: Seen, other: Seen, floats: float) -> bool:
    """Whether both show the same in the observation to which `path` leads."""
    section, _, inner = path.partition(": ")
    name = inner.partition("[")[0].partition(": ")[0]
    if not name:  # the section itself is missing
        return bool(one[section].value == other[section].value)
    return not any(find_differences(Seen(one[section][name].value, "it"), other[section][name].value, floats))


def _mistakes_ending_alike(comparison: Comparison, play: Play, draws: Sequence[Inputs], ended: Outcome) -> list[int]:
    """The mistakes that run through all draws but the last, and end there with the same exception as the answer."""
    found = []
    for mistake in comparison.mistakes:
        *earlier, last = mistake_outcomes(comparison, play, mistake, draws)
        if (
            all(one.seen is not None for one in earlier)
            and last.seen is None
            and _exception_signature(last) == _exception_signature(ended)
        ):
            found.append(mistake)
    return found


def _exception_signature(outcome: Outcome) -> tuple[str, str, str]:
    """What two equal exceptions have in common: the type, the words of the message, and the learner's call."""
    words = re.sub(OWN_NAMES, "", outcome.message)
    call = re.sub(r"'[^']*'", "", outcome.call)  # the path of a temporary file changes from run to run
    return outcome.error, words[:SAME_MESSAGE], call


def _single_explanation(comparison: Comparison, found: Sequence[int]) -> Explanation | None:
    """The explanation if all found mistakes have one id; None otherwise, and when it is `NOTHING_DONE`."""
    programs = [comparison.stage.programs[mistake] for mistake in found]
    ids = {program.id for program in programs}
    return Explanation(programs[0].id, programs[0].message) if len(ids) == 1 and ids != {NOTHING_DONE.id} else None
