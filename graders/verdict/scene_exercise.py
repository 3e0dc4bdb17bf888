"""Defines exercises that are marked in a scene, with a contract, a reference, and wrong programs.

    @exercise("03-scale-grad", points=1, minutes=5, difficulty=1, title="Scale a gradient on its way back",
              hints=(...), why=..., scene=stories(promises=[scaled], axes={"dtype": ("float32", "float64")}))
    class TestScaleGrad:
        '''Multiply by `s` ... the gradient that arrives at `t`. Return the handle.

        **Example.**

        >>> ...

        **Fine print.** ...
        '''

        def reference(t, s):
            return t.register_hook(lambda grad: grad * s)

        class Mistakes:
            def forgot_return(t, s):
                '''The message for the learner. Without it, `graders.core.mistakes` must have one for this name.'''
                return t.register_hook(lambda grad: None)

An answer is right when it shows in the scene what the reference shows. A mistake is recognised when the wrong program
shows what the learner's function showed.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numpy as np
import torch

from graders.core import course
from graders.core.errors import BadExercise, ExerciseDefect
from graders.core.exercise import Ask, Case, Check, Exercise, IllConditionedDraws, Inputs, Mistake, Told
from graders.core.expect import Mismatch, Seen
from graders.core.explanations import LEFT_FROM_EARLIER, Findings
from graders.core.mistakes import COMMON_MESSAGES
from graders.core.transcript import Outcome
from graders.scenes.scene import Scene, stories
from graders.verdict.comparison import Comparison
from graders.verdict.contract import Contract
from graders.verdict.covering import covering_cases
from graders.verdict.explaining import NOTHING_DONE, explain_outcomes
from graders.verdict.implementations import Implementation
from graders.verdict.outliving import outlives_a_call
from graders.verdict.planting import NOTHING, Planted
from graders.verdict.refusing import Refusal, find_refusal
from graders.verdict.ways import no_handle, wrong_ways
from graders.wire.data import decode, encode
from graders.wire.draws import Rng
from graders.wire.threads import one_thread

KEY = re.compile(r"\d\d-[a-z][a-z0-9]*(-[a-z0-9]+)*")
LEAST_CASES = 3
RIGHT_AT_FIRST = "# Earlier calls may have left something behind: where these lines run first, they can be right.\n"
"""Ends the program of an answer that keeps something, unless it is known to show something wrong at once."""
GRADIENTS_ON = "torch.set_grad_enabled(True)  # for what you run next\n"
"""Ends a program that switched them off."""
HANDLE = re.compile(r"\b[Rr]eturn\b[^.]*\bhandles?\b")
"""Found in a task that asks for a handle, or for several."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SceneExercise(Exercise):
    """An exercise whose answers are compared with a reference in a scene."""

    comparison: Comparison
    scene: Scene
    planted: Planted
    contract_source: Contract

    @functools.cached_property
    def box_source(self) -> str:
        """The source that defines `probe` in the box. Raises `NotInTheBox`."""
        return box_source(self.scene, self.name)

    def probe(self, student: Any, **draw: Any) -> Any:
        """Use the learner's function, an attribute of `student`, in the scene; returns what shows."""
        call, only = getattr(student, self.name), draw.get("only", ())
        return self.scene.shown(call, self.name, draw["seed"], draw["case"], draw["example"], only=only)

    def draws(self, seed: int) -> list[Inputs]:
        """One draw for each case of the exercise.

        Each is redrawn until rounding does not matter. Raises `IllConditionedDraws` after 100 attempts, and
        `ReferenceFailed` when the reference does not run through.
        """
        return copy.deepcopy(self._kept_draws(seed))

    @functools.cached_property
    def _kept_draws(self) -> Callable[[int], list[Inputs]]:
        """The draws of a seed, kept for the last one, because the control is asked the same thing again and again."""
        return functools.lru_cache(maxsize=1)(self._make_draws)

    def _make_draws(self, seed: int) -> list[Inputs]:
        with one_thread(), self.comparison.stage.open() as play:
            return [self._well_conditioned_draw(seed, index, play) for index in range(len(self.cases))]

    def _well_conditioned_draw(self, seed: int, index: int, play: Any) -> Inputs:
        example = [[step.code, bool(step.shows)] for step in self.contract_source.example] if index == 0 else []
        for attempt in range(100):
            inner = Rng(seed, self.key, index, attempt).integer(0, 2**31)
            case = self.planted.in_box(Rng(seed, self.key, index, attempt, "planted"), self.cases[index])
            draw = {"seed": inner, "case": case, "example": example}
            if self.comparison.is_well_conditioned(play, draw):
                return draw
        raise IllConditionedDraws(f"exercise {self.key}, case {index}: rounding decided the result of all 100 draws")

    def explain(self, draws: Sequence[Inputs], outcomes: Sequence[Outcome]) -> Findings:
        """The mistakes whose programs show what the learner's function showed."""
        return explain_outcomes(self.comparison, draws, outcomes)

    def tell(
        self,
        draws: Sequence[Inputs],
        outcomes: Sequence[Outcome],
        causes: Collection[str] = (),
        ask: Ask | None = None,
    ) -> Told:
        """The program that shows why an answer was refused, if there is one."""
        try:
            found = self.refusal(draws, outcomes, causes, ask)
        except Exception:  # the verdict stands without it; `build --check` lists what is not told
            return Told()
        if not found:
            return Told()
        is_off = found.program.rfind("set_grad_enabled(False)") > found.program.rfind("set_grad_enabled(True)")
        again = (LEFT_FROM_EARLIER.id in causes or outlives_a_call(outcomes)) and not found.shows_cause
        ends = is_off * GRADIENTS_ON + again * RIGHT_AT_FIRST
        return Told(found.program + ends, found.promise, found.difference, found.draw.get("case", {}))

    def refusal(
        self,
        draws: Sequence[Inputs],
        outcomes: Sequence[Outcome],
        causes: Collection[str] = (),
        ask: Ask | None = None,
    ) -> Refusal | None:
        """The same with what it shows; None if there is none."""
        ask = ask if self.planted is NOTHING else None  # what is planted belongs to its case
        return find_refusal(self.comparison, self.contract_source.example, draws, outcomes, causes, ask)


class NotInTheBox(ExerciseDefect):
    """Raised when an exercise gives its scene an option that does not exist in the box, beside the learner's code."""


def find_scene_exercise(key: str) -> SceneExercise:
    """The exercise of the course with this key, with its scene and references. Raises `UnknownKey`."""
    return cast(SceneExercise, course.find_exercise(key))


def exercise(
    key: str,
    *,
    scene: Scene,
    title: str,
    points: float,
    hints: Sequence[str],
    planted: Planted = NOTHING,
    minutes: int = 0,
    difficulty: int = 0,
    core: bool = False,
    why: str = "",
    name: str = "",
) -> Callable[[type], SceneExercise]:
    """Make an exercise from a class. `scene` is the one in which the learner's function is used, and `planted` is what
    it may not know of its own models.

    `minutes` is how long a person with three months of PyTorch takes, `difficulty` is 1, 2 or 3, and `core` says
    whether the exercise is on the core path; `build --check` asks for the first two. `why` is shown below the worked
    answer: why it is done this way, and what else would work. `name` is what the learner defines; by default the words
    of the key, joined by underscores.

    The class has a contract as its docstring; one or more functions whose names begin with `reference`, where an answer
    may agree with any of them at each place; a class `Mistakes` of wrong programs; and optionally a dict `may_differ`,
    which maps the name of an observation to a function of what was seen and what the reference showed. It returns
    whether they may differ in this way. A wrong program `forgot_return` is the mistake "forgot-return";
    `forgot_return__2` is another form of it with the same message. `Mistakes` may inherit wrong programs. Where
    the task asks for a handle, "no-handle" need not be written. Raises `BadExercise` when a part is missing or invalid.
    """
    if not KEY.fullmatch(key):
        raise BadExercise(f"{key!r} is not an exercise key: it looks like 03-scale-grad")
    if difficulty not in (0, 1, 2, 3) or minutes < 0:  # 0: not chosen yet
        raise BadExercise(f"exercise {key}: its difficulty is 1, 2 or 3, and its minutes are a number above 0")
    defined = name or key[3:].replace("-", "_")

    def make(body: type) -> SceneExercise:
        members = vars(body)
        references = [Implementation(part, value) for part, value in members.items() if part.startswith("reference")]
        if not references or not members.get("__doc__") or "Mistakes" not in members:
            raise BadExercise(f"exercise {key} needs a contract as its docstring, a reference and a class Mistakes")
        contract_source = Contract.from_docstring(members["__doc__"])
        slips = _wrong_programs(members["Mistakes"])
        if HANDLE.search(contract_source.task) and not any(slip.id == "no-handle" for slip in slips):
            slips += _wrong_programs(wrong_ways(references[0].function, [no_handle]), COMMON_MESSAGES["no-handle"])
        example = {step.code: expected_value(step.shows) for step in contract_source.example if step.shows}
        comparison = Comparison(
            key, defined, scene, references, [*slips, NOTHING_DONE], members.get("may_differ", {}), example
        )
        return SceneExercise(
            key=key,
            name=defined,
            title=title,
            points=points,
            hints=tuple(hints),
            contract=contract_source.markdown,
            cases=_covering_cases(scene, planted),
            checks=tuple(_section_check(comparison, section) for section in comparison.sections),
            mistakes=tuple({slip.id: Mistake(slip.id, slip.message) for slip in slips}.values()),
            file=Path(inspect.getfile(references[0].function)),
            module=body.__module__,
            class_name=body.__name__,
            why=why,
            minutes=minutes,
            difficulty=difficulty,
            core=core,
            program_after=planted.shown_after,
            comparison=comparison,
            scene=scene,
            planted=planted,
            contract_source=contract_source,
        )

    return make


def _covering_cases(scene: Scene, planted: Planted) -> tuple[Case, ...]:
    """The plainest case and those of a covering design over all axes, at least `LEAST_CASES`, repeated if need be.

    A `KeyboardInterrupt`, which `except Exception` lets pass, comes wherever something may raise.
    """
    axes = {**planted.axes, **scene.axes}
    rules = [(tuple(inspect.signature(rule).parameters), rule) for rule in (*planted.impossible, *scene.impossible)]
    rules = [(names, rule) for names, rule in rules if set(names) <= set(axes)]
    pairs = [pair for pair in scene.pairs if set(pair) <= set(axes)]
    plainest = {axis: values[0] for axis, values in axes.items()}
    found = [plainest, *covering_cases(axes, pairs, rules)]
    for place in axes.get("raised_in", ()):
        interrupt = {"failure": "KeyboardInterrupt", "raised_in": place}
        case = {**plainest, **interrupt}
        possible = not any(rule(*(case[name] for name in names)) for names, rule in rules)
        if possible and not any(interrupt.items() <= other.items() for other in found):
            found.append(case)
    return tuple(found[index % len(found)] for index in range(max(len(found), LEAST_CASES)))


def _section_check(comparison: Comparison, section: str) -> Check:
    def run(seen: Seen, draw: Inputs) -> None:
        if found := comparison.differences(seen, draw, section):
            raise Mismatch(next(iter(found.values())))

    return Check(f"test_{section.replace(' ', '_')}", run)


def _wrong_programs(mistakes: type, message: str = "") -> list[Implementation]:
    """The wrong programs, inherited ones first. Another form of a mistake shares its message unless it has its own.

    `message` is for all of them, if it is given. Raises `BadExercise` for a mistake that has no message.
    """
    members = {part: program for base in mistakes.__mro__[-2::-1] for part, program in vars(base).items()}
    found, messages = list[Implementation](), dict(COMMON_MESSAGES)
    for part, program in members.items():
        if part.startswith("__"):
            continue
        id = part.partition("__")[0].replace("_", "-")
        if not (message or program.__doc__ or id in messages):
            raise BadExercise(
                f"{program.__module__}: the mistake {part} needs a docstring: what went wrong, and how to fix it. "
                "Only a name that stands in graders/core/mistakes.py brings its own"
            )
        messages[id] = message or " ".join((program.__doc__ or messages[id]).split())
        found.append(Implementation(id, program, messages[id]))
    return found


def expected_value(text: str) -> Any:
    """The value that an example prints, such as `tensor([1., 2.])`, `array([1.])`, `[1, 'a']` or `nan`, decoded."""
    names = {"tensor": torch.tensor, "nan": float("nan"), "inf": float("inf"), "torch": torch}
    names |= {"array": np.array, "float32": np.float32}
    tree, body = encode(eval(text, names))
    return decode(tree, body)


def box_source(scene: Scene, name: str) -> str:
    """Python source that defines `probe` for this scene. Raises `NotInTheBox` for an option that it cannot express."""
    imports = {stories.__name__: stories.__module__}
    given = {"promises": scene.promises, "axes": scene.axes, **scene.given}
    arguments = ", ".join(f"{argument}={_as_code(value, imports)}" for argument, value in given.items())
    lines = [f"from {module} import {what}" for what, module in imports.items()]
    return "\n".join(
        [
            "from __future__ import annotations",
            *lines,
            "def probe(student, seed, case, example):",
            f"    scene = {stories.__name__}({arguments})",
            f"    return scene.shown(getattr(student, {name!r}), {name!r}, seed, case, example)",
        ]
    )


def _as_code(value: Any, imports: dict[str, str]) -> str:
    """A value as Python code; the imports that it needs are added to `imports`. Raises `NotInTheBox`."""
    if isinstance(value, FunctionType):
        if not value.__module__.startswith("graders.scenes.") or "<" in value.__qualname__:
            raise NotInTheBox(
                f"{value.__qualname__} of {value.__module__} is not in the box: write it into a scene file"
            )
        if imports.setdefault(value.__name__, value.__module__) != value.__module__:
            raise NotInTheBox(f"two functions of scenes are called {value.__name__}: rename one of them")
        return value.__name__
    if isinstance(value, list | tuple):
        inner = "".join(f"{_as_code(part, imports)}, " for part in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_as_code(part, imports)}" for key, part in value.items()) + "}"
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return f"float({str(value)!r})"
    try:
        ast.literal_eval(repr(value))
    except (SyntaxError, ValueError):
        raise NotInTheBox(f"{value!r} cannot be written into the box: give the scene plain values") from None
    return repr(value)
