"""The exercise: one class that says what is drawn, what is observed, what must hold, and what goes wrong.

    @exercise("03-scale-grad", points=2, minutes=5, difficulty=1, title="Scale a gradient", hints=(...,))
    class TestScaleGrad:
        '''The contract, in Markdown, as the learner reads it above the stub.'''

        def draw(rng): ...                        # a pure function of the seed, in the judge's process
        def alive(w, x, s): ...                   # optional: can this draw tell right from wrong at all?
        def oracle(w, x, s): ...                  # optional: the numbers that rounding must not change
        def probe(student, w, x, s): ...          # beside the learner's code; returns data
        mistakes = (Mistake("forgot-return", lambda seen, w, s: ...), ...)
        def test_the_gradient_is_scaled(seen, w, s): ...   # a check, in the judge's process

Functions receive the values of the draw by name, those that they ask for, and those of the circumstances.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graders.core.circumstances import Circumstances
from graders.core.conditioning import well_conditioned
from graders.core.difference import Kind
from graders.core.errors import ExerciseDefect
from graders.core.explanations import Explanation
from graders.core.mistakes import COMMON, EXPLAINED_KINDS
from graders.wire.draws import Rng
from graders.wire.threads import one_thread

Draw = dict[str, Any]
Case = Mapping[str, Any]

KEY = re.compile(r"\d\d-[a-z][a-z0-9]*(-[a-z0-9]+)*")


class DeadProbe(ExerciseDefect):
    """The draws of an exercise cannot tell a right answer from a wrong one, or leave it to rounding."""


class _Silent:
    """The type of `SILENT`: neither yes nor no, and false where only a yes counts."""

    def __bool__(self) -> bool:
        return False


SILENT = _Silent()
"""What a recogniser says of a draw that cannot show its mistake."""


@dataclass(frozen=True)
class Mistake:
    """A known way to go wrong, and how the numbers show it.

    `recognise(seen, ...)` looks at what was seen on one draw (values of the draw by name) and answers whether this
    mistake explains it; `SILENT` means that this draw cannot show it. `raises` recognises it by a part of the learner's
    exception instead. Without `message`, that of the table of common mistakes is used.

    A mistake is a headline only when it explains every draw that fails, and no other does. `rather_than` names those
    of which this one is a special form, and which therefore do not count beside it. `kinds` are the kinds of difference
    that it is enough for, where these are few: a hook that is left need not be why a number is wrong. One that would
    show `everywhere` is contradicted by a draw that holds and does not show it: who never returns does so always.
    """

    id: str
    recognise: Callable[..., Any] | None = None
    message: str = ""
    raises: str | tuple[str, ...] = ()
    rather_than: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    everywhere: bool = False

    def __post_init__(self) -> None:
        """Complete the message; a mistake that could never be recognised is a defect of the grader."""
        if not self.message:
            object.__setattr__(self, "message", COMMON[self.id])
        if not self.kinds:
            object.__setattr__(self, "kinds", EXPLAINED_KINDS.get(self.id, ()))
        if isinstance(self.raises, str):
            object.__setattr__(self, "raises", (self.raises,))
        if self.recognise is None and not self.raises:
            raise TypeError(f"mistake {self.id!r} has no way to be recognised")


@dataclass(frozen=True)
class Check:
    """One thing that must hold on every draw."""

    name: str
    run: Callable[..., None]

    @property
    def sentence(self) -> str:
        """The name as a person reads it."""
        return sentence_of(self.name)


def sentence_of(name: str) -> str:
    """The name of a check as a person reads it, and as results have it."""
    return name.removeprefix("test_").replace("_", " ")


@dataclass(frozen=True, eq=False)
class Exercise:
    """All that is known about one exercise.

    The first check is the task itself; the others are its conditions. Points are shared equally among the
    checks, and no condition earns its share while the first check fails: an answer that does nothing
    leaves everything else untouched, too.
    """

    key: str
    name: str
    title: str
    points: float
    hints: tuple[str, ...]
    contract: str
    cases: tuple[Case, ...]
    draw: Callable[..., Draw]
    probe: Callable[..., Any]
    checks: tuple[Check, ...]
    mistakes: tuple[Mistake, ...]
    alive: Callable[..., bool] | None
    file: Path = field(repr=False)
    class_name: str = field(repr=False)
    circumstances: Circumstances | None = None
    oracle: Callable[..., Any] | None = None
    tolerance: tuple[float, float] = (1e-5, 1e-5)
    why: str = ""
    minutes: int = 0
    difficulty: int = 0
    core: bool = False

    __test__ = False  # pytest collects exercises by our own collector

    @property
    def follows_rules(self) -> bool:
        """Whether the contract is written for the rules of all exercises, to which the notebook then links."""
        return self.circumstances is not None

    @property
    def box_source(self) -> str:
        """What defines `probe` in the box; empty where that has to be cut out of the grader."""
        return ""

    def explain(self, draws: Sequence[Draw], outcomes: Sequence[Any]) -> Explanation | None:
        """What explains an answer that is not right, where the exercise knows it without its list of mistakes."""
        return None

    @property
    def lesson(self) -> str:
        """The stem of the lesson: the name of the folder of its graders without `lesson_`."""
        return self.file.parent.name.removeprefix("lesson_")

    @property
    def tried(self) -> list[Case]:
        """The cases, with the values that the draw or the probe asks for: no other makes a difference."""
        if _takes_the_rest(self.draw):
            return list(self.cases)
        asked = {*_parameters(self.draw), *_parameters(self.probe)}
        return [{name: value for name, value in case.items() if name in asked} for case in self.cases]

    def draws(self, seed: int) -> list[Draw]:
        """One draw for each case: a pure function of `seed`.

        A draw that cannot tell right from wrong, or whose expected values are at the mercy of rounding, is drawn
        again. Raises `DeadProbe` when none can.
        """
        with one_thread():
            return [self._living_draw(seed, index, case) for index, case in enumerate(self.cases)]

    def _living_draw(self, seed: int, index: int, case: Case) -> Draw:
        for attempt in range(100):
            draw = self._draw(Rng(seed, self.key, index, attempt), case)
            if (self.alive is None or call_by_name(self.alive, draw)) and self._well_conditioned(draw):
                return draw
        raise DeadProbe(
            f"exercise {self.key}, case {index}: 100 draws, and none tells right from wrong without being at the "
            "mercy of rounding; look at its draw, alive and oracle"
        )

    def _draw(self, rng: Rng, case: Case) -> Draw:
        """What `draw` makes of a case; with circumstances it asks for those that it needs, and all are in the draw.

        One that ends in `**case` gets all of them.
        """
        if self.circumstances is None:
            return self.draw(rng, **case)
        if _takes_the_rest(self.draw):
            return {**case, **self.draw(rng, **case)}
        return {**case, **call_by_name(self.draw, dict(case), rng)}

    def _well_conditioned(self, draw: Draw) -> bool:
        if (oracle := self.oracle) is None:
            return True
        return well_conditioned(lambda cast: call_by_name(oracle, cast), draw, self.tolerance)


def call_by_name(function: Callable[..., Any], draw: Draw, *first: Any) -> Any:
    """Call `function(*first, ...)` with the values of the draw that it asks for by name."""
    return function(*first, **asked_of(draw, function, len(first)))


def asked_of(draw: Draw, function: Callable[..., Any], first: int = 0) -> Draw:
    """The part of a draw that a function asks for by the names of its parameters, without those that come first."""
    return {name: draw[name] for name in _parameters(function)[first:]}


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the parameters. To look at a signature takes longer than many a probe."""
    return tuple(inspect.signature(function).parameters)


@functools.cache
def _takes_the_rest(function: Callable[..., Any]) -> bool:
    """Whether its last parameter is a `**case`."""
    return any(part.kind is part.VAR_KEYWORD for part in inspect.signature(function).parameters.values())


def exercise(
    key: str,
    *,
    title: str,
    points: float,
    hints: Sequence[str],
    minutes: int = 0,
    difficulty: int = 0,
    core: bool = False,
    why: str = "",
    name: str | None = None,
    cases: Sequence[Case] = ({}, {}, {}),
    circumstances: Circumstances | None = None,
) -> Callable[[type], Exercise]:
    """Make an `Exercise` of a class.

    `minutes` are those that a person with three months of PyTorch takes, `difficulty` is 1, 2 or 3, and `core` says
    that it is on the core path; `build --check` asks for the first two. `why` stands below the worked answer: why it
    is done this way, and what else would do. `name` is what the learner defines, when it is not the key's words
    joined by underscores. The cases come from `circumstances`; without them, each of `cases` is the keyword arguments
    of one draw. `tolerance` in the class is (rtol, atol) of the widest comparison, against which `oracle` is held.
    Raises `TypeError` when a part is missing.
    """
    if not KEY.fullmatch(key):
        raise TypeError(f"{key!r} is no exercise key: it looks like 03-scale-grad")
    if difficulty not in (0, 1, 2, 3) or minutes < 0:  # 0: not said yet
        raise TypeError(f"exercise {key}: its difficulty is 1, 2 or 3, and its minutes are a number above 0")

    def make(body: type) -> Exercise:
        members = dict(vars(body))
        missing = [part for part in ("draw", "probe", "mistakes", "__doc__") if not members.get(part)]
        if missing:
            raise TypeError(f"exercise {key} lacks {', '.join(missing)}")
        checks = tuple(Check(part, function) for part, function in members.items() if part.startswith("test_"))
        if not checks:
            raise TypeError(f"exercise {key} has no check: a function whose name starts with test_")
        return Exercise(
            key=key,
            name=name or key[3:].replace("-", "_"),
            title=title,
            points=points,
            hints=tuple(hints),
            contract=inspect.cleandoc(members["__doc__"]),
            cases=tuple(cases) if circumstances is None else circumstances.cases,
            draw=members["draw"],
            probe=members["probe"],
            checks=checks,
            mistakes=tuple(members["mistakes"]),
            alive=members.get("alive"),
            file=Path(inspect.getfile(members["probe"])),
            class_name=body.__name__,
            circumstances=circumstances,
            oracle=members.get("oracle"),
            tolerance=members.get("tolerance", (1e-5, 1e-5)),
            why=why,
            minutes=minutes,
            difficulty=difficulty,
            core=core,
        )

    return make


def exercises_of(module: object) -> Iterator[Exercise]:
    """The exercises of a grader module, in its order."""
    return (value for value in vars(module).values() if isinstance(value, Exercise))
