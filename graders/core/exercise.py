"""What every room knows of an exercise. How one is made of a contract, a reference and wrong programs, and how answers
are compared, is the business of `graders.differential`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graders.core.errors import ExerciseDefect
from graders.core.explanations import Explanation

Inputs = dict[str, Any]
Case = Mapping[str, Any]


class IllConditionedDraws(ExerciseDefect):
    """The draws of an exercise leave it to rounding what is right."""


@dataclass(frozen=True)
class Mistake:
    """A known way to go wrong: the id under which reports count it, and what the learner reads."""

    id: str
    message: str


@dataclass(frozen=True)
class Check:
    """One thing that must hold on every draw.

    `run(seen, draw)` raises `Mismatch` where what was seen does not show it.
    """

    name: str
    run: Callable[[Any, Inputs], None]

    @property
    def sentence(self) -> str:
        """The name as a person reads it."""
        return check_sentence(self.name)


def check_sentence(name: str) -> str:
    """The name of a check as a person reads it, and as results have it."""
    return name.removeprefix("test_").replace("_", " ")


@dataclass(frozen=True, eq=False, kw_only=True)
class Exercise:
    """All that is known about one exercise.

    The first check is the task itself; the others are its conditions. Points are shared equally among the
    checks, and no condition earns its share while the first check fails: an answer that does nothing
    leaves everything else untouched, too.
    """

    key: str
    name: str
    """What the learner defines."""
    title: str
    points: float
    hints: tuple[str, ...]
    contract: str
    """In Markdown, as the learner reads it above the stub."""
    cases: tuple[Case, ...]
    """The circumstances of each draw, by name."""
    checks: tuple[Check, ...]
    mistakes: tuple[Mistake, ...]
    file: Path = field(repr=False)
    module: str = field(repr=False)
    """The module in which it is found, under the name of its class."""
    class_name: str = field(repr=False)
    why: str = ""
    minutes: int = 0
    difficulty: int = 0
    core: bool = False

    __test__ = False  # pytest collects exercises by our own collector

    @property
    def follows_rules(self) -> bool:
        """Whether the rules of all exercises hold, to which the notebook then links: from lesson 1 on, where they
        stand.
        """
        return not self.key.startswith("00-")

    @property
    def lesson(self) -> str:
        """The stem of the lesson: the name of the folder of its graders without `lesson_`."""
        return self.file.parent.name.removeprefix("lesson_")

    @property
    def box_source(self) -> str:
        """Python text that defines `probe(student, **draw)` in the box, complete on its own."""
        raise NotImplementedError

    def probe(self, student: Any, **draw: Any) -> Any:
        """The same in this process: use the learner's definitions, attributes of `student`, and return what showed."""
        raise NotImplementedError

    def draws(self, seed: int) -> list[Inputs]:
        """One draw for each case: a pure function of `seed`. Raises `IllConditionedDraws`."""
        raise NotImplementedError

    def explain(self, draws: Sequence[Inputs], outcomes: Sequence[Any]) -> Explanation | None:
        """The mistake that explains an answer which is not right; None when none does."""
        return None


def exercises_in_module(module: object) -> Iterator[Exercise]:
    """The exercises of a grader module, in its order."""
    return (value for value in vars(module).values() if isinstance(value, Exercise))
