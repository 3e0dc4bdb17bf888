"""What a scene is: all that a caller of the learner's function may have and do, and what shows meanwhile.

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
reference. What it writes into a section is compared, and each section is a check. It never says what is right.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from graders.wire.draws import Rng

Value = str | int | bool | float | None
Sections = dict[str, dict[str, Any]]

EXAMPLE = "the example of the contract comes out"
"""The section of the literal example. It is tried once, along with the first case."""


@dataclass(frozen=True, eq=False)
class Scene:
    """The scene of one exercise: a family with the options of that exercise."""

    family: Callable[..., None]
    names: Mapping[str, str]
    """What is looked at, in the order of the checks: as the family says it, and with the words of the exercise.

    The first is the task itself. One that is left out has an empty name."""
    axes: Mapping[str, tuple[Value, ...]]
    """In which circumstances, by name. Each value of each occurs in every marking."""
    pairs: Sequence[tuple[str, str]] = ()
    """Axes of which each pair of values occurs together in some case."""
    impossible: Sequence[Callable[..., bool]] = ()
    """What cannot be together; each function asks for values of axes by the names of its parameters."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the exercise gives to its family: plain values, and functions of scene files."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """All that the exercise says, from which the box makes this scene again."""

    @property
    def sections(self) -> tuple[str, ...]:
        """What is looked at, in the words of the exercise."""
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
        """What shows when a function of this name is used in a case.

        `example` holds lines of code, each with whether what it evaluates to is looked at. All inputs follow from
        `seed`. `to` is done to each float32 tensor that is drawn.
        """
        parts: Sections = {given: {} for given in self.names}
        torch.manual_seed(seed)
        self.family(call, Rng("scene", seed, to=to), SimpleNamespace(**case), parts, **self.options)
        seen = {name: parts[given] for given, name in self.names.items() if name}
        if example:
            torch.manual_seed(seed)
            seen[EXAMPLE] = _run_example(call, name, example)
        return seen


def family(
    *,
    sections: Sequence[str],
    axes: Mapping[str, Sequence[Value]],
    pairs: Sequence[tuple[str, str]] = (),
    impossible: Sequence[Callable[..., bool]] = (),
) -> Callable[[Callable[..., None]], Callable[..., Scene]]:
    """Make of a function a family of scenes.

    It is called as `function(call, rng, case, seen, **options)`: the learner's function, the source of all inputs, the
    values of the axes as attributes, and an empty dict for each section.

    What it makes takes those options, of the family's `words` those that fill `{...}` in the names of sections (a
    section for which a word is missing is left out), and `only={"place": ("leaf",)}` for an axis of which an exercise
    has other values (with `()` it does without), or which it alone has.
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
    """A section with the words of an exercise; empty when it has none for it."""
    try:
        return section.format(**words)
    except KeyError:
        return ""


def _run_example(call: Callable[..., Any], name: str, lines: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """What the lines of an example show, by their code. It is our own code, and the learner's function in it.

    Where a line fails, this and all later ones show the error. What raises everywhere has raised in the scene already.
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
