"""What isolation costs: `python -m tests.benchmarks.bench_box [--rounds N] [--notebooks N] [--started]`.

Boxes are forked from a warm process, as in every run of the graders where that is possible; with `--started` each is a
program of its own. The same notebook is marked in tiers A and B and, as the other side of each pair, in D, which
isolates nothing. In each round every tier has its turn, in an order of its own, so that a machine that grows busy is
busy for all. Two figures say what a tier costs beyond D: the median over rounds of the difference within a round, and
the difference between the fastest runs, which other people on the machine disturb least. Processor time is no figure:
what a killed process used is credited to its parent in one tier and to nobody in another.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from graders.core import course
from graders.sandbox.outside.box_modules import box_modules_folder
from graders.sandbox.outside.conversation import Probe, probes_for
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess
from tests.notebooks import LESSON, LESSON_1

CELLS = ["import torch", *(answers[0] for answers in LESSON_1.right.values())]
TARGET_MS = 30.0


def measure(tier: str, notebooks: int, probes: Sequence[Probe], box_modules: Path, warm: WarmProcess | None) -> float:
    """Milliseconds for one of `notebooks` submissions in a row."""
    started = time.perf_counter()
    for _ in range(notebooks):
        transcript = BoxRunner(box_modules, tier, warm=warm).run(CELLS, probes)
        assert transcript.ended == "finished", transcript.frames[-1]
    return 1000 * (time.perf_counter() - started) / notebooks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--notebooks", type=int, default=1, help="submissions of a tier in a row")
    parser.add_argument("--started", action="store_true", help="start each box instead of forking it")
    options = parser.parse_args()
    tiers = [tier for tier in "ABD" if not missing_for_tier(tier, warm=not options.started)]
    exercises = course.lesson_exercises(LESSON)
    probes = probes_for(exercises, {exercise.key: exercise.draws(1) for exercise in exercises}, 1)
    measured: dict[str, list[float]] = {tier: [] for tier in tiers}
    with box_modules_folder() as box_modules, WarmProcess(box_modules) as process:
        warm = None if options.started or not process.is_available() else process
        for tier in tiers:
            measure(tier, 1, probes, box_modules, warm)  # files come into memory
        for _ in range(options.rounds):
            for tier in random.sample(tiers, len(tiers)):
                measured[tier].append(measure(tier, options.notebooks, probes, box_modules, warm))
    how = "started" if warm is None else "forked"
    print(f"{options.rounds} rounds; milliseconds a submission, boxes {how}")
    print("tier  median  fastest | beyond D: median  fastest  ratio")
    over = []
    for tier in tiers:
        own, plain = measured[tier], measured["D"]
        beyond = statistics.median(a - b for a, b in zip(own, plain, strict=True))
        ratio = statistics.median(a / b for a, b in zip(own, plain, strict=True))
        print(
            f"{tier:4}  {statistics.median(own):6.0f}  {min(own):7.0f} | "
            f"{beyond:+16.0f}  {min(own) - min(plain):+7.0f}  {ratio:5.3f}"
        )
        over += [tier] if beyond > TARGET_MS else []
    print(f"target: at most {TARGET_MS:.0f} ms beyond D; " + (f"missed by {', '.join(over)}" if over else "met"))


if __name__ == "__main__":
    sys.exit(main())
