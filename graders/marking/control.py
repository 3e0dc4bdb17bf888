"""The control: a notebook of our own whose results are known, marked before, between and after those of a class.

One of its answers is right and one is wrong. When either comes out otherwise, the machine or the graders are at fault,
and nothing counts that was marked since the control last came out well. The time it takes tells the machine's pace.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from graders.core.results import Status
from graders.judge.submission import Marks, judge
from graders.marking.control_exercise import BAD, GOOD
from graders.run.conversation import probes_for, run_notebook
from graders.run.transcript import read_transcript
from graders.run.warm import WarmProcess
from graders.wire.limits import Limits

NOMINAL_SECONDS = {"forked": 0.6, "started": 3.0}
"""What the control takes in a forked box and in a started one, on the machine for which the limits were chosen: a core
of 2024 with little else to do."""
SLOWEST = 4.0
"""No machine gets more than this many times the usual limits."""

CELLS = (
    "import torch",
    "def known_good(x):\n    x.register_hook(lambda grad: 2 * grad)\n    return x.sum()",
    "def known_bad(x):\n    x.register_hook(lambda grad: None)\n    return x.sum()",
)


def control(seed: int, limits: Limits, kit: Path, tier: str, warm: WarmProcess | None = None) -> tuple[str, float]:
    """What is wrong with the control, in a few words and empty when nothing is; and the seconds that it took."""
    exercises = (GOOD, BAD)
    draws = {one.key: one.draws(seed) for one in exercises}
    try:
        probes = probes_for(exercises, draws, seed)
        run = read_transcript(run_notebook(CELLS, probes, limits, kit, tier=tier, warm=warm))
        found = [one.status for one in judge(exercises, Marks(draws), CELLS, run)]
    except Exception as error:
        return f"{type(error).__name__}: {error}", 0.0
    if found == [Status.PASSED, Status.WRONG]:
        return "", run.seconds
    return run.message or f"its right and wrong answers came out {found[0].value} and {found[1].value}", run.seconds


def slowness(seconds: float, *, warm: bool) -> float:
    """How many times the usual time limits this machine should have, from what the control took: 1 to `SLOWEST`."""
    return min(SLOWEST, max(1.0, seconds / NOMINAL_SECONDS["forked" if warm else "started"]))


def scaled(limits: Limits, factor: float) -> Limits:
    """The same limits with `factor` times the seconds."""
    return replace(
        limits,
        cell_seconds=limits.cell_seconds * factor,
        notebook_seconds=limits.notebook_seconds * factor,
        probe_seconds=limits.probe_seconds * factor,
        pace=limits.pace * factor,
    )
