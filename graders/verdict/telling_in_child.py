"""Tells the programs of a refused answer in a child of the judge, and leaves out what makes no difference."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
    case: int = 0


def tell_in_child(comparison: Comparison, wanted: Sequence[Wanted]) -> list[Program | None]:
    """The program of each story with the reference, told in a child of this process where it can be forked.

    None stands for what cannot be told, or is longer than another one.
    """
    if not wanted:
        return []
    if not forking.can_fork:
        return _decoded(_tell_all(comparison, wanted, shorter=True))
    from graders.probing.forked import ForkedProbes  # it needs os.fork

    children = ForkedProbes(lambda request: _tell_all(comparison, wanted, shorter=request.type == "tell shorter"))
    try:
        # Wrong programs may end their process, or come to no end: then it is told without them.
        asked = (Frame({"type": how}, b"") for how in ("tell shorter", "tell"))
        answers = (_decoded(children.answer(comparison.key, frame, SECONDS)) for frame in asked)
        return next(filter(None, answers), [None] * len(wanted))
    finally:
        children.end()


def _tell_all(comparison: Comparison, wanted: Sequence[Wanted], *, shorter: bool) -> Answer:
    scene: Any = comparison.stage.scene
    told: list[Program | None] = []
    for one in wanted:
        _, story = scene.stories[one.story]
        reference = comparison.stage.programs[0].fresh_copy().function
        with known_state(one.draw["seed"]):
            seed_torch(one.draw["seed"])
            program = None
            with contextlib.suppress(Untold):
                arguments = scene.arguments(story, one.draw["seed"], one.draw["case"])
                program = tell(story, comparison.stage.name, reference, arguments, one.until)
        told.append(program)
    found: list[Any] = [None] * len(told)
    _, at, shortest = min(((len(one.lines), at, one) for at, one in enumerate(told) if one), default=(0, 0, None))
    if shortest:
        known, expected = shortest.expected is not MISSING, shortest.expected
        expected = expected.item() if isinstance(expected, np.generic) else expected  # an entry of a numpy array
        lines = _lines_that_matter(comparison, wanted[at], shortest) if shorter else list(shortest.lines)
        found[at] = [lines, known, expected if known else None]
    tree, body = encode(found)
    return Answer({"type": "seen", "tree": tree}, body)


def _lines_that_matter(comparison: Comparison, wanted: Wanted, program: Program) -> list[str]:
    """The lines of a program; if wrong programs show in it what the answer showed, without what makes no difference."""
    name, text = comparison.stage.name, "\n".join(program.lines)
    makes: list[Make] = [lambda one=one: one.fresh_copy().function for one in comparison.stage.programs]  # type: ignore[misc]
    expected, _ = shown_by(text, {name: makes[0]()})

    def stands_in(make: Make) -> bool:
        shown, error = shown_by(text, {name: make()})
        if wanted.error or error:
            return error[:SAME_WORDS] == wanted.error[:SAME_WORDS]
        return not alike(shown, expected) if wanted.seen is MISSING else alike(shown, wanted.seen)

    mistakes = (makes[index] for index in comparison.mistakes)
    stand_ins = [*filter(stands_in, mistakes)]
    return reduced(text, name, [makes[0], *stand_ins]).splitlines() if stand_ins else list(program.lines)


def _decoded(answer: Answer) -> list[Program | None]:
    if answer.head["type"] != "seen":
        return []
    found = decode(answer.head["tree"], answer.body)
    return [one and Program(tuple(one[0]), one[2] if one[1] else MISSING) for one in found]
