"""Runners for tests: they stand where boxes would, and run what is ours in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from graders.probing.asking import answer_probe
from graders.sandbox.outside.boxes import Boxes
from graders.sandbox.outside.conversation import Probe
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import Transcript
from graders.wire.data import arrays_to_tensors, decode
from graders.wire.frames import Frame


@dataclass
class InProcessRunner:
    """Runs cells and probes in this process, without any limit, and notes the cells of each notebook.

    `before` is called with the cells of each notebook before it runs; it may raise.
    """

    tier: str = "A"
    pace: float = 1.0
    warm: None = None
    before: Callable[[Sequence[str]], object] = field(default=lambda cells: None)
    noted: list[list[str]] = field(default_factory=list)
    confirmed: int = 0

    def at_pace(self, factor: float) -> InProcessRunner:
        self.pace = factor
        return self

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        self.before(cells)
        self.noted.append(list(cells))
        namespace: dict[str, Any] = {}
        frames = [Frame({"type": "ready"})]
        for index, cell in enumerate(cells):
            exec(cell, namespace)
            frames.append(Frame({"type": "cell", "cell": index, "status": "ok", "message": ""}))
        frames.append(Frame({"type": "cells-done"}))
        for probe in probes:
            source: dict[str, Any] = {}
            exec(probe.source, source)
            draw = arrays_to_tensors(decode(probe.tree, probe.body))
            found = answer_probe(source["probe"], namespace, draw, probe.seed)
            frames.append(
                Frame({"type": "asked", "key": probe.key, "case": probe.case, "cells": len(cells), "nonce": "0"})
            )
            frames.append(Frame({**found.head, "nonce": "0"}, found.body))
        return Transcript([*frames, Frame({"type": "probe-end"}), ended()], self.tier, self.pace)

    def confirm_runs(self) -> None:
        self.confirmed += 1

    def stop(self) -> None:
        """Nothing of it can be ended."""


def ended(how: str = "finished", message: str = "", seconds: float = 1.0) -> Frame:
    return Frame({"type": "ended", "how": how, "message": message, "seconds": seconds})


class NoBoxes(Boxes):
    """Gives out one runner, whatever the options, and notes them."""

    def __init__(self, runner: Any) -> None:
        self.given, self.run_options = runner, []

    def runner(self, run_options: RunOptions) -> Any:
        self.run_options.append(run_options)
        return self.given


@contextmanager
def no_prestarted_boxes(runner: Any) -> Iterator[Boxes]:
    yield NoBoxes(runner)
