"""Exercises for tests of the rooms that only mark: drawn, probed and checked by plain functions, without a scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graders.core.exercise import Exercise, Inputs
from graders.core.explanations import Explanation, Findings
from graders.wire.draws import Rng


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainExercise(Exercise):
    """`draw(rng, **case)` makes a draw, `source` defines `probe`, `recognise(draws, outcomes)` names a mistake."""

    draw: Callable[..., Inputs]
    source: str
    recognise: Callable[[Sequence[Inputs], Sequence[Any]], str | None] = lambda draws, outcomes: None

    @property
    def box_source(self) -> str:
        return self.source

    def probe(self, student: Any, **draw: Any) -> Any:
        namespace: dict[str, Any] = {}
        exec(self.source, namespace)
        return namespace["probe"](student, **draw)

    def draws(self, seed: int) -> list[Inputs]:
        return [self.draw(Rng(seed, self.key, index), **case) for index, case in enumerate(self.cases)]

    def explain(self, draws: Sequence[Inputs], outcomes: Sequence[Any]) -> Findings:
        found = self.recognise(draws, outcomes)
        return Findings(
            tuple(Explanation(mistake.id, mistake.message) for mistake in self.mistakes if mistake.id == found),
            (self.checks[0].sentence,) if found else (),
        )
