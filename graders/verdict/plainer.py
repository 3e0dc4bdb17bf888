"""Finds a plainer case in which an answer fails as well, by asking it again where it can be asked.

A drawn case varies many circumstances at a time, and a program that shows all of them is long. Each is made plain in
turn, and stays so if the same observation still differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graders.core.exercise import Ask, Inputs
from graders.core.transcript import Outcome
from graders.scenes.scene import Scene
from graders.verdict.comparison import Comparison


def oddity(scene: Scene, draw: Inputs) -> int:
    """How many circumstances of a case are not the plainest."""
    return sum(draw["case"][axis] != values[0] for axis, values in scene.axes.items())


def plainer_failure(
    comparison: Comparison, promise: str, start: tuple[Inputs, Outcome], ask: Ask
) -> tuple[Inputs, Outcome] | None:
    """A draw that is plainer than that of `start`, in which this promise fails, and what the answer shows in it.

    None if there is no plainer one in which the same observation differs.
    """
    scene, (first, shown) = comparison.stage.scene, start
    what = _observation(_paths(comparison, first, shown, promise)[0])

    def fails(draw: Inputs, only: Sequence[str]) -> Outcome | None:
        outcome: Outcome = ask({**draw, "only": only})
        found = outcome.seen is not None and any(
            _observation(path) == what for path in _paths(comparison, draw, outcome, promise, only)
        )
        return outcome if found else None

    case: dict[str, Any] = first["case"]
    for axis, values in [*scene.axes.items()] * 2:  # what was impossible beside another value may be possible then
        plainer = {**case, axis: values[0]}
        if plainer != case and not scene.is_impossible(plainer) and fails({**first, "case": plainer}, [promise]):
            case = plainer
    draw = {**first, "case": case, "example": []}
    outcome = fails(draw, ()) if case != first["case"] else None
    return (draw, outcome) if outcome else None


def _paths(comparison: Comparison, draw: Inputs, outcome: Outcome, promise: str, only: Sequence[str] = ()) -> list[str]:
    assert outcome.seen is not None
    return [*comparison.differences(outcome.seen, draw, promise, only=only)]


def _observation(path: str) -> str:
    """The observation that a path such as "a promise: x.grad[2]" leads to, with its promise."""
    section, _, inner = path.partition(": ")
    return f"{section}: {inner.partition('[')[0].partition(': ')[0]}"
