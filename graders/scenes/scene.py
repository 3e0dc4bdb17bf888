"""Defines scenes. A scene acts as a caller of the learner's function, and records what can be observed.

    @family(
        sections=("the gradient is {changed}", "nothing else changes"),
        axes={"dtype": ("float32", "float64"), "place": ("leaf", "non-leaf")},
    )
    def changes_gradient(call, rng, case, seen, arguments):
        change, rest = seen.values()
        ...
        change["x.grad of a pass"] = x.grad

    changes_gradient(arguments=a_number, words={"changed": "scaled"})   # in a grader: the scene of an exercise

A scene runs twice from the same seed: in the box with the learner's function as `call`, and outside with the
reference. What it writes into each section is compared, and each section is a check. The scene never knows what is
right.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import torch

from graders.probing.known_state import seed_torch
from graders.wire.draws import Rng

Value = str | int | bool | float | None
Sections = dict[str, dict[str, Any]]
Call = Callable[..., Any]
"""The learner's function."""

EXAMPLE = "the example of the contract comes out"
"""The section for the example in the contract. It runs once, along with the first case."""


@dataclass(frozen=True, eq=False)
class Scene:
    """The scene of one exercise: a family of scenes with the options of that exercise."""

    family: Callable[..., None]
    names: Mapping[str, str]
    """The sections in the order of the checks: the family's names for them, and those with the words of the exercise.

    The first is the task itself. A section that is left out has an empty name."""
    axes: Mapping[str, tuple[Value, ...]]
    """The values of each circumstance, by its name. Every marking covers every value of every axis."""
    pairs: Sequence[tuple[str, str]] = ()
    """Pairs of axes whose values all occur together, each combination in some case."""
    impossible: Sequence[Callable[..., bool]] = ()
    """Functions that return True for impossible combinations; their parameters have the names of axes."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the exercise passes to its family: plain values, and functions of scene files."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """All arguments of the exercise, from which the box makes this scene again."""
    begins_plainly: ClassVar[bool] = False
    """Whether the first case has the first value of every axis."""

    @property
    def sections(self) -> tuple[str, ...]:
        """The names of the sections, in the words of the exercise."""
        return tuple(filter(None, self.names.values()))

    def shown(
        self,
        call: Callable[..., Any],
        name: str,
        seed: int,
        case: Mapping[str, Any],
        example: Sequence[Sequence[Any]] = (),
        to: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> Sections:
        """What shows, by section, when the function `call`, which learners know as `name`, is used in a case.

        `seed` determines all inputs. `example` holds pairs of a line of code and whether its value shows. `to` is
        applied to each float32 tensor that is drawn.
        """
        parts: Sections = {given: {} for given in self.names}
        seed_torch(seed)
        self.family(call, Rng("scene", seed, to=to), SimpleNamespace(**case), parts, **self.options)
        seen = {name: parts[given] for given, name in self.names.items() if name}
        if example:
            seed_torch(seed)
            seen[EXAMPLE] = run_example(call, name, example)
        return seen


def family(
    *,
    sections: Sequence[str],
    axes: Mapping[str, Sequence[Value]],
    pairs: Sequence[tuple[str, str]] = (),
    impossible: Sequence[Callable[..., bool]] = (),
) -> Callable[[Callable[..., None]], Callable[..., Scene]]:
    """Turn a function into a family of scenes, which is a function that makes the scene of an exercise.

    The decorated function is called as `function(call, rng, case, seen, **options)`, with the learner's function, the
    source of all inputs, the values of the axes as attributes, and an empty dict for each section.

    The family takes those options; `words`, which fill the `{...}` in the names of sections (a section with a missing
    word is left out); and `only`, such as `{"place": ("leaf",)}`, which changes the values of an axis, adds an axis, or
    drops one, with `()` as its values.
    """

    def make(function: Callable[..., None]) -> Callable[..., Scene]:
        def scene(
            *,
            words: Mapping[str, str] | None = None,
            only: Mapping[str, Sequence[Value]] | None = None,
            **options: Any,
        ) -> Scene:
            chosen = {name: tuple(values) for name, values in {**axes, **(only or {})}.items() if values}
            return Scene(
                family=function,
                names={section: _in_words(section, words or {}) for section in sections},
                axes=chosen,
                pairs=pairs,
                impossible=impossible,
                options=options,
                given={"words": words, "only": only, **options},
            )

        scene.__doc__, scene.__name__, scene.__module__ = function.__doc__, function.__name__, function.__module__
        return scene

    return make


def _in_words(section: str, words: Mapping[str, str]) -> str:
    """The name of a section with the words of an exercise; empty when a word is missing."""
    try:
        return section.format(**words)
    except KeyError:
        return ""


def run_example(call: Callable[..., Any], name: str, lines: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """What the lines of an example show, by their code. The code is ours and calls the learner's function.

    If a line raises, this and all later ones show the error. A function that always raises has done so in the scene
    already, so this is a failure in the example alone.
    """
    space: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, name: call}
    seen: dict[str, Any] = {}
    for index, (code, shows) in enumerate(lines):
        try:
            value = (eval if shows else exec)(code, space)
        except Exception as error:
            return {**seen, **{code: f"{type(error).__name__}: {error}" for code, shows in lines[index:] if shows}}
        if shows:
            seen[code] = value.detach().clone() if isinstance(value, torch.Tensor) else value
    return seen
