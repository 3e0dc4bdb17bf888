"""Recognises mistakes: finds the wrong programs that show what the learner's function showed.

Each section that fails is explained by itself, by up to two mistakes in all. There a mistake must show exactly the same
differences as the learner's function, in every case, apart from those of a mistake that was found before. If several
do, the one with the fewest differences that are not the answer's is chosen. If two are equally close there is no
explanation, because none is better than a wrong one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graders.core.exercise import Inputs
from graders.core.expect import Seen
from graders.core.explanations import FIRST_RESULT, Explanation, Findings
from graders.core.transcript import Outcome
from graders.scenes.scene import EXAMPLE
from graders.verdict.comparing import find_differences
from graders.verdict.comparison import Comparison, Differences, float_tolerance
from graders.verdict.implementations import Implementation, Play
from graders.verdict.outliving import repeats_first_result

NOTHING_DONE = Implementation(
    "nothing-done",
    lambda *args, **kwargs: None,
    "Your function has no effect: it showed just what a function shows that does nothing and returns `None`. Return "
    "what the task asks for; and in a hook, return the new value, since `None` keeps the old one.",
)
"""Competes with the mistakes, so that a function that does nothing is not taken for one with a forgotten return."""
CAUSES = 2
"""Of so many mistakes a learner is told at once."""
LEAST_SHARE = 0.5
"""Of all that is wrong with a mistake, this share has to show with an answer where something else shows first."""
SAME_MESSAGE = 60
"""Two exceptions are the same if this many characters of their messages agree, without numbers and own names."""
OWN_NAMES = r"[\w.<>]*\(\)|'(?!(?:list|tuple|dict|float|int|str|NoneType|Tensor)')\w*'|'<\w+>'|\b\d+\b"
"""Matches numbers, but not shapes such as 2x3, and the names that learners choose, of functions, parameters and
attributes, but not types.
"""
Place = tuple[int, str]
"""The number of a case, and a section."""


@dataclass(frozen=True)
class _Shown:
    """What a mistake shows at a place, beside what the answer does: the paths where it is wrong, and which of them are
    the same with the answer.
    """

    wrong: frozenset[str]
    same: frozenset[str]


@dataclass(frozen=True)
class _Suspect:
    """A mistake, and what it shows at each place."""

    program: Implementation
    at: dict[Place, _Shown]

    @property
    def share(self) -> float:
        """Of all that is wrong with it, the share that the answer shows as well."""
        return sum(len(shown.same) for shown in self.at.values()) / sum(len(shown.wrong) for shown in self.at.values())


def explain_outcomes(comparison: Comparison, draws: Sequence[Inputs], outcomes: Sequence[Outcome]) -> Findings:
    """The mistakes that explain a wrong answer."""
    with comparison.stage.open() as play:
        ended = next((index for index, outcome in enumerate(outcomes) if outcome.seen is None), None)
        if ended is not None:
            alike = _mistakes_ending_alike(comparison, play, draws[: ended + 1], outcomes[ended])
            found = _the_only([comparison.stage.programs[mistake] for mistake in alike])
            return Findings((Explanation(found.id, found.message),)) if found else Findings()
        answer = {
            (case, section): comparison.differences(outcome.seen, draw, section, play)
            for case, (draw, outcome) in enumerate(zip(draws, outcomes))
            for section in comparison.sections
            if outcome.seen is not None
        }
        inquiry = _Inquiry(comparison.sections, answer)
        findings = inquiry.findings(_suspects(comparison, play, draws, outcomes, inquiry))
        if findings.causes or not repeats_first_result(comparison.sections[0], answer, outcomes):
            return findings
        return Findings((FIRST_RESULT,), (comparison.sections[0],), frozenset(inquiry.failing[1:]))


class _Inquiry:
    """Looks for the causes of the differences of an answer."""

    def __init__(self, sections: Sequence[str], answer: dict[Place, Differences]) -> None:
        self.sections, self.answer = sections, answer
        self.failing = [name for name in sections if any(answer[place] for place in self._places(name))]
        self.wrong = {case for (case, _), differences in answer.items() if differences}
        self.wrong_first = sorted(dict.fromkeys(case for case, _ in answer), key=lambda case: case not in self.wrong)
        """The cases, those first in which the answer is wrong: there most mistakes are told from it."""

    def _places(self, section: str) -> list[Place]:
        return [place for place in self.answer if place[1] == section]

    def is_the_only(self, suspect: _Suspect) -> bool:
        """Whether a mistake shows all that the answer shows, and nothing else, in the cases so far."""
        return not any(self._unlike(place, [suspect]) for place in suspect.at)

    def may_be_a_cause(self, suspect: _Suspect) -> bool:
        """Whether the cases so far allow it. To ask for something in common early saves most of the time."""
        met = [shown for shown in suspect.at.values() if shown.wrong]
        alike = any(shown.same for shown in met) or not (met or self.wrong <= {case for case, _ in suspect.at})
        return alike and (self.may_be_part(suspect) or self._explains_start(suspect))

    def may_be_part(self, suspect: _Suspect) -> bool:
        """Whether the answer is wrong wherever the mistake is, and has all of its changes."""
        return all(
            not shown.wrong
            or (self.answer[place] and all(path in self.answer[place] for path in shown.wrong if _is_change(path)))
            for place, shown in suspect.at.items()
        )

    def _explains_start(self, suspect: _Suspect) -> bool:
        """Whether a mistake shows the same as the answer up to the first section that fails, and the same changes."""
        leading = self.sections[: self.sections.index(self.failing[0]) + 1] if self.failing else ()
        return all(
            (not self._unlike(place, [suspect]) if place[1] in leading else True)
            and not any(map(_is_change, shown.wrong.symmetric_difference(self.answer[place])))
            for place, shown in suspect.at.items()
        )

    def findings(self, suspects: Sequence[_Suspect]) -> Findings:
        """The causes, found in one section after the other."""
        causes: list[_Suspect] = []
        evidence: list[str] = []
        for section in self.failing:
            if len(causes) == CAUSES or not self._left(section, causes):
                continue
            more = self._causes_in(section, causes, suspects)
            causes += more
            evidence += [section] * len(more)
        nothing = any(cause.program is NOTHING_DONE for cause in causes)  # whatever else shows is a hook without effect
        left = {section: [] if nothing else self._left(section, causes) for section in self.failing}
        shows_example = [EXAMPLE in left and self._is_exact(EXAMPLE, [cause]) for cause in causes]
        evidence = [EXAMPLE if shows else section for section, shows in zip(evidence, shows_example)]
        return Findings(
            tuple(Explanation(cause.program.id, cause.program.message) for cause in causes),
            tuple(evidence),
            frozenset(section for section, rest in left.items() if not rest) - {*evidence},
            {section: [self.answer[place][path]() for place, path in rest] for section, rest in left.items() if rest},
        )

    def _causes_in(self, section: str, causes: Sequence[_Suspect], suspects: Sequence[_Suspect]) -> Sequence[_Suspect]:
        """What explains the rest of a section: one more mistake or, if there is no cause yet, perhaps two."""
        known = {cause.program.id for cause in causes}
        able = [one for one in suspects if one.program.id not in known and self._contributes(section, one, causes)]
        for size in (1,) if causes else (1, CAUSES):
            parts = able if size + len(causes) == 1 else [one for one in able if self.may_be_part(one)]
            if section != self.failing[0]:  # what shows later may follow from something else: ask for more
                parts = [one for one in parts if one.share >= LEAST_SHARE]
            sets = [some for some in itertools.combinations(parts, size) if self._each_alone(section, some)]
            fitting = [some for some in sets if self._is_exact(section, (*causes, *some))]
            scores = [sum(len(self._unlike(place, (*causes, *some))) for place in self.answer) for some in fitting]
            best = [some for some, score in zip(fitting, scores) if score == min(scores)]
            names = {tuple(one.program.id for one in some) for some in best}
            if best:
                return best[0] if len(names) == 1 and not self._did_something(best[0]) else ()
        return ()

    def _did_something(self, causes: Sequence[_Suspect]) -> bool:
        """Whether `NOTHING_DONE` is among them, but the answer shows more than that, apart from changes."""
        unlike = (path for place in self.answer for path in self._unlike(place, causes))
        return any(one.program is NOTHING_DONE for one in causes) and not all(map(_is_change, unlike))

    def _contributes(self, section: str, suspect: _Suspect, causes: Sequence[_Suspect]) -> bool:
        """Whether it shows something of the answer in a section that is left."""
        return any(path in suspect.at[place].same for place, path in self._left(section, causes))

    def _each_alone(self, section: str, causes: Sequence[_Suspect]) -> bool:
        """Whether each shows something of the answer in a section where the others are right."""
        return all(
            any(
                one.at[place].same.difference(*(other.at[place].wrong for other in causes if other is not one))
                for place in self._places(section)
            )
            for one in causes
        )

    def _is_exact(self, section: str, causes: Sequence[_Suspect]) -> bool:
        return not any(self._unlike(place, causes) for place in self._places(section))

    def _unlike(self, place: Place, causes: Sequence[_Suspect]) -> set[str]:
        """The paths of a place where these mistakes together and the answer do not show the same."""
        shown = [cause.at[place] for cause in causes]
        paths = {*self.answer[place], *(path for one in shown for path in one.wrong)}
        return {path for path in paths if not _is_explained(path, shown)}

    def _left(self, section: str, causes: Sequence[_Suspect]) -> list[tuple[Place, str]]:
        """What the answer shows in observations in which none of the causes is wrong."""
        found = []
        for place in self._places(section):
            touched = {_observation(path) for cause in causes for path in cause.at[place].wrong}
            found += [(place, path) for path in self.answer[place] if _observation(path) not in touched]
        return found


def _is_explained(path: str, shown: Sequence[_Shown]) -> bool:
    """Whether one mistake is the same there as the answer, or two are wrong there, so that nobody can say."""
    return any(path in one.same for one in shown) or sum(path in one.wrong for one in shown) > 1


def _is_change(path: str) -> bool:
    """Whether a path is that of a change that a watch reported: "section: by the call: the values of `w` changed"."""
    section, _, inner = path.partition(": ")
    return section != EXAMPLE and ": " in inner


def _observation(path: str) -> str:
    """The part of a path that names the observation; of the changes that a watch reported, each is one."""
    return path if _is_change(path) else path.partition("[")[0]


def _suspects(
    comparison: Comparison, play: Play, draws: Sequence[Inputs], outcomes: Sequence[Outcome], inquiry: _Inquiry
) -> list[_Suspect]:
    """The mistakes that may be causes: those that show all that the answer shows, and nothing else; if there are none,
    those that may be one of two.
    """

    def add(suspect: _Suspect, case: int, shown: Outcome, sections: Sequence[str]) -> bool:
        """Add what a mistake shows in these sections of a case; False if it raised an exception."""
        draw, outcome = draws[case], outcomes[case]
        if shown.seen is None or outcome.seen is None:
            return False
        for section in sections:
            mine, its = inquiry.answer[case, section], comparison.differences(shown.seen, draw, section, play)
            suspect.at[case, section] = _beside(mine, its, outcome.seen, shown.seen, float_tolerance(draw))
        return True

    def played(suspect: _Suspect, mistake: int) -> Iterator[None]:
        """Play a mistake in more and more sections and cases, and add what it shows, up to an exception."""
        keeps = keeps_something(suspect.program)
        order = range(len(draws)) if keeps else inquiry.wrong_first
        failing = [section for section in comparison.sections if inquiry.answer[order[0], section]]
        # Most are unlike the answer where it fails first. That tells them apart without the other stories.
        for only in (failing[:1], failing):
            if keeps or len(only) == len(comparison.sections):
                break
            if not add(suspect, order[0], comparison.outcome(play, mistake, draws[order[0]], only), only):
                return
            yield
        shown_by_draw = mistake_outcomes(comparison, play, mistake, [draws[case] for case in order])
        for case, shown in zip(order, shown_by_draw):
            if not add(suspect, case, shown, comparison.sections):
                return
            yield

    every = [(_Suspect(comparison.stage.programs[mistake], {}), mistake) for mistake in comparison.mistakes]
    going_on = [(suspect, played(suspect, mistake)) for suspect, mistake in every]
    for stays in (inquiry.is_the_only, inquiry.may_be_a_cause):
        for suspect, cases in going_on:
            while next(cases, cases) is None and stays(suspect):  # what it shows next is added to it
                pass
        found = [one for one, _ in going_on if len(one.at) == len(inquiry.answer) and stays(one)]
        if found:
            break
    return found


def _beside(mine: Differences, its: Differences, seen: Seen, shown: Seen, floats: float) -> _Shown:
    """What a mistake shows at a place, beside what the answer does."""
    same = {
        path for path in its if path in mine and (_is_change(path) or _is_same_observation(path, seen, shown, floats))
    }
    return _Shown(frozenset(its), frozenset(same))


def mistake_outcomes(comparison: Comparison, play: Play, mistake: int, draws: Sequence[Inputs]) -> Iterator[Outcome]:
    """What a mistake shows for each draw. It is not cached if the program keeps something from one draw to the next."""
    keeps = keeps_something(comparison.stage.programs[mistake])
    for draw in draws:
        yield play(mistake, draw) if keeps else comparison.outcome(play, mistake, draw)


def keeps_something(program: Implementation) -> bool:
    """Whether it may remember earlier draws in a mutable default."""
    defaults = getattr(program.function, "__defaults__", None) or ()
    return any(isinstance(value, list | dict | set) for value in defaults)


def _is_same_observation(path: str, one: Seen, other: Seen, floats: float) -> bool:
    """Whether both show the same in the observation to which `path` leads."""
    section, _, inner = path.partition(": ")
    # The line of an example is such a name, too, and may hold any character; what an answer showed may have any keys.
    keys = [*one[section].keys, *other[section].keys]
    names = [key for key in keys if type(key) is str and inner.startswith(key)]
    name = max(names, key=len, default="")
    if not name:  # the section itself is missing
        return bool(one[section].value == other[section].value)
    return not any(find_differences(Seen(one[section][name].value, "it"), other[section][name].value, floats))


def _mistakes_ending_alike(comparison: Comparison, play: Play, draws: Sequence[Inputs], ended: Outcome) -> list[int]:
    """The mistakes that run through all draws but the last, and end there with the same exception as the answer."""
    stories, stopped_at = comparison.stage.scene.stories, ended.stopped_at
    only = [stories[stopped_at[0]][0]] if stopped_at and stopped_at[0] < len(stories) else []

    def is_alike(last: Outcome) -> bool:
        return last.seen is None and _exception_signature(last) == _exception_signature(ended)

    found = []
    for mistake in comparison.mistakes:
        # Most do not end there: the stories of that promise tell it without the earlier cases.
        keeps = keeps_something(comparison.stage.programs[mistake])
        if keeps or is_alike(comparison.outcome(play, mistake, draws[-1], only)):
            *earlier, last = mistake_outcomes(comparison, play, mistake, draws)
            if all(one.seen is not None for one in earlier) and is_alike(last):
                found.append(mistake)
    return found


def _exception_signature(outcome: Outcome) -> tuple[str, str, str, int | None]:
    """What two equal exceptions have in common: the type, the words of the message, the learner's call and the story.

    In `2 * None` and `None * 2` the operands stand in another order.
    """
    words = re.sub(r"'(\w+)' and '(\w+)'", lambda pair: " and ".join(sorted(pair.groups())), outcome.message)
    words = re.sub(OWN_NAMES, "", words)
    call = re.sub(r"'[^']*'", "", outcome.call)  # the path of a temporary file changes from run to run
    return outcome.error, words[:SAME_MESSAGE], call, outcome.stopped_at and outcome.stopped_at[0]


def _the_only(programs: Sequence[Implementation]) -> Implementation | None:
    """The first if all have one id; None otherwise, and when it is `NOTHING_DONE`."""
    ids = {program.id for program in programs}
    return programs[0] if len(ids) == 1 and ids != {NOTHING_DONE.id} else None
