"""Tells the programs of a refused answer in a child of the judge, and leaves out what makes no difference."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graders.core.difference import Difference
from graders.core.exercise import Inputs
from graders.core.shown import MISSING
from graders.probing.asking import Answer
from graders.probing.known_state import known_state, seed_torch
from graders.verdict.comparison import Comparison
from graders.verdict.program_lines import Untold
from graders.verdict.reducing import Make, alike, reduced, shown_by
from graders.verdict.telling import Program, Until, tell
from graders.wire import forking
from graders.wire.data import decode, encode
from graders.wire.frames import Frame

SECONDS = 10.0
SAME_WORDS = 60
"""Two exceptions are the same if so many characters of their texts agree."""


@dataclass(frozen=True)
class Wanted:
    """What has to be told."""

    promise: str
    draw: Inputs
    story: int
    until: Until
    seen: Any = MISSING
    note: str = ""
    error: str = ""
    difference: Difference | None = None
    """What the promise says of it."""


@dataclass(frozen=True)
class ToldProgram:
    """What was told, and its program. `shows_cause` says whether it shows something wrong in a new interpreter, after a
    mistake that the answer is known to make, or could not be tried.
    """

    wanted: Wanted
    program: Program
    shows_cause: bool


def tell_shortest(comparison: Comparison, wanted: Sequence[Wanted], causes: Collection[str]) -> ToldProgram | None:
    """The shortest of these programs, without the lines that make no difference. `causes` are the ids of mistakes.

    It is told with the reference, in a child of this process where one can be forked. None if nothing can be told.
    """
    if not wanted:
        return None
    # Wrong programs may end their process, or come to no end: then it is told without them.
    tells = [lambda shorter=shorter: _tell(comparison, wanted, causes, shorter=shorter) for shorter in (True, False)]
    found = _first_answer(comparison, tells)
    return _decoded(wanted, found) if found else None


def shows_cause(comparison: Comparison, program: str, causes: Collection[str]) -> bool:
    """Whether a program shows something wrong after one of these mistakes, found in a child as well."""

    def look() -> Answer:
        expected, _ = shown_by(program, {comparison.stage.name: _makes(comparison)[0]()})
        tree, body = encode([_is_wrong_after(comparison, program, expected, causes)])
        return Answer({"type": "seen", "tree": tree}, body)

    found = _first_answer(comparison, [look])
    return bool(found and decode(found.head["tree"], found.body)[0])


def _first_answer(comparison: Comparison, answers: Sequence[Callable[[], Answer]]) -> Answer | None:
    """The first of these answers that comes to an end, each in a child of this process where one can be forked."""
    if not forking.can_fork:
        return answers[0]()
    from graders.probing.forked import ForkedProbes  # it needs os.fork

    children = ForkedProbes(lambda request: answers[request.head["at"]]())
    try:
        asked = (Frame({"type": "tell", "at": at}, b"") for at in range(len(answers)))
        found = (children.answer(comparison.key, frame, SECONDS) for frame in asked)
        return next((answer for answer in found if answer.head["type"] == "seen"), None)
    finally:
        children.end()


def _tell(comparison: Comparison, wanted: Sequence[Wanted], causes: Collection[str], *, shorter: bool) -> Answer:
    """The number of the one with the shortest program, its lines, what else a `ToldProgram` has, and what it prints
    with the reference.
    """
    scene: Any = comparison.stage.scene
    told: list[tuple[int, int, Program]] = []
    for at, one in enumerate(wanted):
        _, story = scene.stories[one.story]
        reference = comparison.stage.programs[0].fresh_copy().function
        with known_state(one.draw["seed"]), contextlib.suppress(Untold):
            seed_torch(one.draw["seed"])
            arguments = scene.arguments(story, one.draw["seed"], one.draw["case"])
            program = tell(story, comparison.stage.name, reference, arguments, one.until)
            told.append((len(program.lines), at, program))
    found: list[Any] = []
    if told:
        _, at, program = min(told)
        expected = program.expected
        expected = expected.item() if isinstance(expected, np.generic) else expected  # an entry of a numpy array
        said = _lines_that_matter(comparison, wanted[at], program, causes) if shorter else [[*program.lines], True]
        found = [at, *said, *([] if expected is MISSING else [expected])]
    tree, body = encode(found)
    return Answer({"type": "seen", "tree": tree}, body)


def _lines_that_matter(comparison: Comparison, wanted: Wanted, program: Program, causes: Collection[str]) -> list[Any]:
    """The lines of a program, without what makes no difference if one of the causes shows in it what the answer showed.
    And whether it shows something wrong after one of them.
    """
    name, text = comparison.stage.name, "\n".join(program.lines)
    makes = _makes(comparison)
    expected, _ = shown_by(text, {name: makes[0]()})

    def stands_in(shown: Any, error: str) -> bool:
        if wanted.error or error:
            return error[:SAME_WORDS] == wanted.error[:SAME_WORDS]
        return not alike(shown, expected) if wanted.seen is MISSING else alike(shown, wanted.seen)

    # Other wrong programs may show the same for other reasons.
    known = [index for index in comparison.mistakes if comparison.stage.programs[index].id in causes]
    stand_ins = [makes[index] for index in known if stands_in(*shown_by(text, {name: makes[index]()}))]
    lines = reduced(text, name, [makes[0], *stand_ins]).splitlines() if stand_ins else [*program.lines]
    return [lines, _is_wrong_after(comparison, text, expected, causes)]


def _makes(comparison: Comparison) -> list[Make]:
    return [lambda one=one: one.fresh_copy().function for one in comparison.stage.programs]  # type: ignore[misc]


def _is_wrong_after(comparison: Comparison, text: str, expected: Any, causes: Collection[str]) -> bool:
    """Whether a program ends otherwise or shows something else than is `expected` after one of these mistakes."""
    makes = _makes(comparison)
    known = (index for index in comparison.mistakes if comparison.stage.programs[index].id in causes)
    shown = (shown_by(text, {comparison.stage.name: makes[index]()}) for index in known)
    return any(error or not alike(value, expected) for value, error in shown)


def _decoded(wanted: Sequence[Wanted], answer: Answer) -> ToldProgram | None:
    if not (found := decode(answer.head["tree"], answer.body)):
        return None
    at, lines, shows_cause, *expected = found
    return ToldProgram(wanted[at], Program(tuple(lines), *expected), shows_cause)
