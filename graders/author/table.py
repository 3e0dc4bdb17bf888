"""The table exercise by axis: which circumstances each exercise covers, and why it leaves others out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graders.core.circumstances import AXES, Axis, Circumstances
from graders.core.exercise import Exercise
from graders.differential.exercise import SceneExercise

_SEPARATOR = "·"


def table(exercises: Iterable[Exercise]) -> Iterator[str]:
    """One block of lines for each exercise that names its circumstances, and one line for those that do not."""
    silent = []
    for exercise in exercises:
        if isinstance(exercise, SceneExercise):
            axes = (f"{axis} ({', '.join(map(str, values))})" for axis, values in exercise.scene.axes.items())
            yield f"{exercise.key}: {len(exercise.cases)} cases"
            yield f"  {exercise.scene.family.__name__}: {f' {_SEPARATOR} '.join(axes)}"
            continue
        if exercise.circumstances is None:
            silent.append(exercise.key)
            continue
        yield f"{exercise.key}: {len(exercise.cases)} cases"
        yield from _lines(exercise.circumstances)
    if silent:
        yield f"no circumstances named: {', '.join(silent)}"


def _lines(circumstances: Circumstances) -> Iterator[str]:
    """The axes of each thing in one line, and what is left out by its reason."""
    for thing in dict.fromkeys(axis.of for axis in AXES):
        axes = [axis for axis in AXES if axis.of == thing]
        covered = [_covered(circumstances, axis) for axis in axes if axis.name in circumstances.covers]
        reasons: dict[str, list[str]] = {}
        for axis in axes:
            if axis.name not in circumstances.covers:
                reasons.setdefault(circumstances.reason(axis) or "NOT SAID", []).append(axis.name)
        left_out = [f"not {', '.join(names)}: {reason}" for reason, names in reasons.items()]
        yield f"  {thing:<10} {f' {_SEPARATOR} '.join(covered + left_out)}"
    for name in circumstances.own:
        yield f"  {'own':<10} {name} ({', '.join(map(str, circumstances.values(name)))})"


def _covered(circumstances: Circumstances, axis: Axis) -> str:
    values = circumstances.values(axis.name)
    return axis.name if values == axis.values else f"{axis.name} ({', '.join(map(str, values))})"
