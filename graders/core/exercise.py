"""What every room knows about an exercise; `graders.verdict` says how one is made and how answers are compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graders.core.difference import Difference
from graders.core.errors import ExerciseDefect
from graders.core.explanations import Findings

Inputs = dict[str, Any]
Case = Mapping[str, Any]
Ask = Callable[[Inputs], Any]
"""Asks an answer on one more draw; returns its outcome."""


class IllConditionedDraws(ExerciseDefect):
    """Rounding decides what is right for the draws of an exercise, so they cannot be marked fairly."""


@dataclass(frozen=True)
class Told:
    """A program that shows what is wrong with an answer, "" if there is none; the check that it is about, and what that
    finds in the case that is shown, with its circumstances.
    """

    program: str = ""
    check: str = ""
    difference: Difference | None = None
    case: Case = field(default_factory=dict)


@dataclass(frozen=True)
class Mistake:
    """A known way to go wrong: the id under which reports count it, and the message for the learner."""

    id: str
    message: str


@dataclass(frozen=True)
class Check:
    """One condition that must hold on every draw.

    `run(seen, draw)` raises `Mismatch` if what was seen on this draw does not meet it.
    """

    name: str
    run: Callable[[Any, Inputs], None]

    @property
    def sentence(self) -> str:
        """The name in words, as `check_sentence` makes it."""
        return check_sentence(self.name)


def check_sentence(name: str) -> str:
    """The name of a check in words, as results have it: without `test_`, with spaces for underscores."""
    return name.removeprefix("test_").replace("_", " ")


@dataclass(frozen=True, eq=False, kw_only=True)
class Exercise:
    """Everything known about one exercise.

    The first check is the task itself; the others are its conditions. All checks have equal shares of the points, but
    no condition earns its share while the first check fails: an answer that does nothing meets most conditions.
    """

    key: str
    name: str
    """The name of the function or class that the learner defines."""
    title: str
    points: float
    hints: tuple[str, ...]
    contract: str
    """The text above the stub, in Markdown."""
    cases: tuple[Case, ...]
    """The circumstances of each draw: the names of axes and their values."""
    checks: tuple[Check, ...]
    mistakes: tuple[Mistake, ...]
    file: Path = field(repr=False)
    module: str = field(repr=False)
    """The grader module that defines it; there, it has the name `class_name`."""
    class_name: str = field(repr=False)
    why: str = ""
    """Why the worked answer is as it is; shown with that answer."""
    minutes: int = 0
    """How long it takes somebody with three months of PyTorch; 0 if it does not say."""
    difficulty: int = 0
    """From 1 (easy) to 3 (hard); 0 if it does not say."""
    core: bool = False
    """Whether it is on the core path, the shorter way through the course."""
    program_after: int = 1
    """In a notebook, a program is shown from this refused check on: one that shows what is to be found comes later."""

    __test__ = False  # our own pytest collector finds exercises

    @property
    def follows_rules(self) -> bool:
        """Whether the general rules apply, and the notebook links to them: from lesson 1 on, which explains them."""
        return not self.key.startswith("00-")

    @property
    def lesson(self) -> str:
        """The stem of its lesson: the name of the grader's folder without `lesson_`."""
        return self.file.parent.name.removeprefix("lesson_")

    @property
    def box_source(self) -> str:
        """Self-contained Python source that defines `probe(student, **draw)` in the box."""
        raise NotImplementedError

    def probe(self, student: Any, **draw: Any) -> Any:
        """Call the learner's definitions, which are attributes of `student`, in this process; return what was seen."""
        raise NotImplementedError

    def draws(self, seed: int) -> list[Inputs]:
        """One draw for each case, a pure function of `seed`. Raises `IllConditionedDraws`."""
        raise NotImplementedError

    def explain(self, draws: Sequence[Inputs], outcomes: Sequence[Any]) -> Findings:
        """The known mistakes that explain a wrong answer, and what they explain."""
        return Findings()

    def tell(
        self,
        draws: Sequence[Inputs],
        outcomes: Sequence[Any],
        causes: Collection[str] = (),
        ask: Ask | None = None,
    ) -> Told:
        """A program that shows, after a wrong answer, what is wrong with it. `causes` are the ids of its mistakes.

        `ask` asks the answer once more, on another draw, where that can be done: it makes the program shorter.
        """
        return Told()


def exercises_in_module(module: object) -> Iterator[Exercise]:
    """The exercises that a grader module defines, in order."""
    return (value for value in vars(module).values() if isinstance(value, Exercise))
