"""Finds a plainer case in which an answer fails as well, by asking it again where it can be asked.

A drawn case varies many circumstances at a time, and a program that shows all of them is long. Each is made plain in
turn, and stays so if the same observation still differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graders.core.exercise import Ask, Inputs
from graders.core.transcript import Outcome
from graders.scenes.scene import EXAMPLE, Scene
from graders.verdict.comparison import Comparison


def oddity(scene: Scene, draw: Inputs) -> int:
    """How many circumstances of a case are not the plainest."""
    return sum(draw["case"][axis] != values[0] for axis, values in scene.axes.items())


def plainer_failure(
    comparison: Comparison, draws: Sequence[Inputs], outcomes: Sequence[Outcome], ask: Ask
) -> tuple[Inputs, Outcome] | None:
    """A draw that is plainer than those in which the first promise fails, and what the answer shows in it.

    None if there is no plainer one, if only the example fails, or if the answer raised an exception: that is asked for
    in plainer cases where it comes.
    """
    scene, failing = comparison.stage.scene, list[tuple[Inputs, str]]()
    if any(outcome.seen is None for outcome in outcomes):
        return None
    for promise in comparison.sections:
        pairs = zip(draws, outcomes)
        failing = [(draw, path) for draw, outcome in pairs for path in _paths(comparison, draw, outcome, promise)[:1]]
        if failing:
            break
    if not failing or promise == EXAMPLE:
        return None
    start, path = min(failing, key=lambda one: oddity(scene, one[0]))
    what = _observation(path)

    def fails(draw: Inputs, only: Sequence[str]) -> Outcome | None:
        outcome: Outcome = ask({**draw, "only": only})
        found = outcome.seen is not None and any(
            _observation(path) == what for path in _paths(comparison, draw, outcome, promise, only)
        )
        return outcome if found else None

    case: dict[str, Any] = start["case"]
    for axis, values in [*scene.axes.items()] * 2:  # what was impossible beside another value may be possible then
        plainer = {**case, axis: values[0]}
        if plainer != case and not scene.is_impossible(plainer) and fails({**start, "case": plainer}, [promise]):
            case = plainer
    draw = {**start, "case": case, "example": []}
    outcome = fails(draw, ()) if case != start["case"] else None
    return (draw, outcome) if outcome else None


def _paths(comparison: Comparison, draw: Inputs, outcome: Outcome, promise: str, only: Sequence[str] = ()) -> list[str]:
    assert outcome.seen is not None
    return [*comparison.differences(outcome.seen, draw, promise, only=only)]


def _observation(path: str) -> str:
    """The observation that a path such as "a promise: x.grad[2]" leads to, with its promise."""
    section, _, inner = path.partition(": ")
    return f"{section}: {inner.partition('[')[0].partition(': ')[0]}"
