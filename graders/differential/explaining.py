"""Which mistake was made: the wrong program that shows what the learner's function showed.

The first section that is wrong anywhere, and those before it, have to be explained wholly, in every case: what the
learner's function showed there, the mistake shows, too, and what the mistake gets wrong, so does the learner's. Of
several, the one that is least unlike it elsewhere stands. Where two are equally alike, nobody can tell, and no headline
is better than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from graders.core.exercise import Inputs
from graders.core.expect import Seen
from graders.core.explanations import Explanation
from graders.differential.comparing import find_differences, tells_changes
from graders.differential.implementations import Implementation, Play
from graders.differential.subject import Differences, Subject, float_tolerance
from graders.run.transcript import Outcome

NOTHING_DONE = Implementation("nothing-done", lambda *args, **kwargs: None)
"""Competes with the mistakes: who does nothing at all has not just forgotten to return something."""
SAME_MESSAGE = 60
"""Characters of a message of torch, without numbers and names, by which two exceptions are the same."""
OWN_NAMES = r"[\w.<>]*\(\)|'(?!(?:list|tuple|dict|float|int|str|NoneType|Tensor)')\w*'|'<\w+>'|\d"
"""Numbers, and what authors call as they like: functions, parameters, attributes. Types are not among them."""


def explain_outcomes(subject: Subject, draws: Sequence[Inputs], outcomes: Sequence[Outcome]) -> Explanation | None:
    """The mistake that explains an answer which is not right; None when none does, or several do."""
    with subject.stage.open() as play:
        ended = next((index for index, outcome in enumerate(outcomes) if outcome.seen is None), None)
        if ended is not None:
            return _single_explanation(
                subject, _mistakes_ending_alike(subject, play, draws[: ended + 1], outcomes[ended])
            )
        mine = [
            subject.differences(outcome.seen, draw, play=play)
            for draw, outcome in zip(draws, outcomes)
            if outcome.seen is not None
        ]
        failing = [path for found in mine for path in found]
        leading = _leading_sections(subject.sections, failing)
        scores: dict[int, int] = {}
        for mistake in subject.mistakes:
            unlike = 0
            for draw, outcome, wrong, shown in zip(
                draws, outcomes, mine, _mistake_outcomes(subject, play, mistake, draws)
            ):
                more = _count_unlike_places(subject, play, mistake, draw, outcome, wrong, shown, leading)
                if more is None:
                    break
                unlike += more
            else:
                scores[mistake] = unlike
    return _single_explanation(subject, [mistake for mistake, score in scores.items() if score == min(scores.values())])


def _mistake_outcomes(subject: Subject, play: Play, mistake: int, draws: Sequence[Inputs]) -> Iterator[Outcome]:
    """What a mistake shows for each draw. If it keeps something, that depends on the draws before: never cached."""
    keeps = _keeps_something(subject.stage.players[mistake])
    for draw in draws:
        yield play(mistake, draw) if keeps else subject.outcome(play, mistake, draw)


def _keeps_something(program: Implementation) -> bool:
    defaults = getattr(program.function, "__defaults__", None) or ()
    return any(isinstance(value, list | dict | set) for value in defaults)


def _count_unlike_places(
    subject: Subject,
    play: Play,
    mistake: int,
    draw: Inputs,
    outcome: Outcome,
    mine: Differences,
    shown: Outcome,
    leading: Sequence[str],
) -> int | None:
    """At how many places both are not alike; None when one is in a leading section, or in what has changed.

    Sections lead up to the first in which something is wrong: a mistake that is wrong before is another one.
    """
    if shown.seen is None or outcome.seen is None or _reported_changes(shown.seen) != _reported_changes(outcome.seen):
        return None
    theirs = subject.mistake_differences(play, mistake, draw, shown)
    apart = {
        path
        for path in {*mine, *theirs}
        if path not in mine
        or path not in theirs
        or not _is_same_observation(path, outcome.seen, shown.seen, float_tolerance(draw))
    }
    return None if any(_is_in_section(section, path) for section in leading for path in apart) else len(apart)


def _leading_sections(sections: Sequence[str], failing: Sequence[str]) -> Sequence[str]:
    """The sections that lead: what is right in the first of them is right with the mistake, too."""
    wrong = [any(_is_in_section(section, path) for path in failing) for section in sections]
    return sections[: wrong.index(True) + 1] if any(wrong) else ()


def _is_in_section(section: str, path: str) -> bool:
    return path.startswith(f"{section}: ")


def _reported_changes(seen: Seen) -> list[list[str]]:
    """All that a witness told, in every section."""
    return [
        sorted(map(str, part[name].value if type(part[name].value) is list else []))
        for section in seen.keys
        for part in [seen[section]]
        for name in part.keys
        if tells_changes(str(name))
    ]


def _is_same_observation(path: str, one: Seen, other: Seen, floats: float) -> bool:
    """Whether both show the same in the observation of a path."""
    section, _, inner = path.partition(": ")
    name = inner.partition("[")[0].partition(": ")[0]
    if not name:  # the section itself is missing
        return bool(one[section].value == other[section].value)
    return not any(find_differences(Seen(one[section][name].value, "it"), other[section][name].value, floats))


def _mistakes_ending_alike(subject: Subject, play: Play, draws: Sequence[Inputs], mine: Outcome) -> list[int]:
    """The mistakes that come to the same end on the last of these draws, after those before."""
    found = []
    for mistake in subject.mistakes:
        *earlier, last = _mistake_outcomes(subject, play, mistake, draws)
        if (
            all(one.seen is not None for one in earlier)
            and last.seen is None
            and _exception_signature(last) == _exception_signature(mine)
        ):
            found.append(mistake)
    return found


def _exception_signature(outcome: Outcome) -> tuple[str, str, str]:
    """The exception, the words of its message, and the call of the learner's function before it."""
    words = re.sub(OWN_NAMES, "", outcome.message)
    call = re.sub(r"'[^']*'", "", outcome.call)  # the path of a new file is another one each time
    return outcome.error, words[:SAME_MESSAGE], call


def _single_explanation(subject: Subject, found: Sequence[int]) -> Explanation | None:
    """That one, unless there are several of different names, or none, or it is that nothing was done at all."""
    players = [subject.stage.players[mistake] for mistake in found]
    ids = {player.id for player in players}
    return Explanation(players[0].id, players[0].message) if len(ids) == 1 and ids != {NOTHING_DONE.id} else None
