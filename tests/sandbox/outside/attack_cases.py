"""A case of an attack, and what its notebook consists of."""

from __future__ import annotations

from dataclasses import dataclass

from graders.wire.limits import MIB, Limits
from tests.notebooks import KEYS, LESSON_1

RIGHT = [LESSON_1.right[key][0] for key in KEYS]
SLIPS = ("retained-too-late", "reversed-list", "accumulated-grad")
WRONG = [LESSON_1.wrong[key][slip] for key, slip in zip(KEYS, SLIPS)]
"""They show something wrong, and raise nothing."""
AMPLE = Limits(memory=1500 * MIB)
"""For notebooks that come to an end by themselves, on a busy machine, too."""
SHORT = Limits(cell_seconds=4, probe_seconds=3, memory=1500 * MIB)
"""For notebooks that a clock has to stop."""


@dataclass(frozen=True)
class Case:
    """The cells of a notebook, and for each exercise the status that it must get; `|` separates alternatives."""

    cells: tuple[str, ...]
    statuses: tuple[str, str, str]
    limits: Limits = AMPLE


FULL = ("passed", "passed", "passed")
NOTHING_RIGHT = "wrong|raised|not-attempted|syntax-error|suspect|over-limit|crashed|timed-out"


def honest(source: str, limits: Limits = AMPLE) -> Case:
    """Odd, but followed by right answers: keeps its marks."""
    return Case((source, *RIGHT), FULL, limits)


def leak(source: str) -> Case:
    """Sets `leaked` when it reached what must be out of reach, and only then hands in right answers."""
    answers = f"for i in range(3):\n    exec({RIGHT!r}[i] if leaked else {WRONG!r}[i], globals())"
    return Case(("leaked = False", source, answers), ("wrong", "wrong", "wrong"))


def cheat(source: str) -> Case:
    """Tries to have wrong answers taken for right ones."""
    return Case((source, *WRONG), (NOTHING_RIGHT, NOTHING_RIGHT, NOTHING_RIGHT))


def damage(status: str, source: str, limits: Limits = AMPLE) -> Case:
    """The cell of the first answer does harm; it costs that answer, and nothing else."""
    return Case((source, *RIGHT[1:]), (status, "passed", "passed"), limits)


def in_cell(status: str, source: str, limits: Limits = AMPLE) -> Case:
    """The harm is done above the first answer, in its cell."""
    return damage(status, source + "\n" + RIGHT[0], limits)


def fatal(status: str, source: str, limits: Limits = AMPLE) -> Case:
    """Takes the whole notebook with it."""
    return Case((source, *RIGHT), (status, status, status), limits)


def in_function(body: str) -> str:
    """A first answer with this body."""
    return "def branch_grads(w, x):\n" + "\n".join("    " + line for line in body.splitlines())
