"""Judges large answers in a separate process with limits on time and memory.

A check usually takes a millisecond, but nobody has proved that a crafted answer cannot make it take hours. Small
answers hold too little for that. Large ones are judged here: an answer that goes over the limits is suspect, and does
not hold up anybody else's marks.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graders.core.exercise import Exercise, Inputs
from graders.core.own_process import OwnProcess, ProcessEnded
from graders.core.results import ExerciseResult
from graders.core.transcript import Outcome
from graders.verdict.judge_exercise import judge_exercise, suspect_result

LARGE = 1 << 17
"""Answers of more than this `Outcome.size` are judged here. Right answers in the course have at most 40,000."""


@dataclass(frozen=True)
class Bounds:
    """Limits for judging one exercise: CPU `seconds`, elapsed seconds (`clock`), and bytes of `memory`."""

    seconds: int = 20
    clock: float = 200.0
    memory: int = 1 << 30


def is_large(outcomes: Sequence[Outcome]) -> bool:
    """Whether one of these outcomes is too large to be judged without limits."""
    return max((outcome.size for outcome in outcomes), default=0) > LARGE


class BoundedWorker:
    """A process that judges answers. It is started when first needed, and again after it was ended."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        """Answers are judged one at a time, whichever thread sends them."""
        self._bounds = bounds or Bounds()
        self._lock = threading.Lock()
        self._process = OwnProcess()

    def judge(self, exercise: Exercise, draws: Sequence[Inputs], outcomes: Sequence[Outcome]) -> ExerciseResult:
        """Like `judge_exercise`, but suspect beyond the bounds. Whatever that raises, this raises as `RuntimeError`."""
        place, bounds = (exercise.module, exercise.class_name), self._bounds
        with self._lock:
            try:
                self._process.call(_import_torch)  # this must not count as judging time
                return self._process.call(
                    _judge_within, bounds, place, list(draws), list(outcomes), seconds=bounds.clock
                )
            except ProcessEnded:
                most = f"{bounds.seconds} seconds or {bounds.memory >> 20} MiB"
                return suspect_result(exercise, f"judging it took more than {most}")

    def close(self) -> None:
        """End the process, if there is one."""
        self._process.close()


BOUNDED_WORKER = BoundedWorker()
"""The worker that this process uses."""
atexit.register(BOUNDED_WORKER.close)


def _import_torch() -> None:
    import torch

    torch.set_num_threads(1)


def _judge_within(
    bounds: Bounds, place: tuple[str, str], draws: Sequence[Inputs], outcomes: Sequence[Outcome]
) -> ExerciseResult:
    """Judge the answer to the exercise with this module and name. Runs in the worker process."""
    try:
        exercise: Exercise = getattr(importlib.import_module(place[0]), place[1])
        _limit_resources(bounds)
        return judge_exercise(exercise, draws, outcomes)
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from None


def _limit_resources(bounds: Bounds) -> None:
    """Limit the CPU time and memory that this process takes from now on. Windows has no such limits."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + bounds.seconds
    wanted: list[tuple[Any, int]] = [(resource.RLIMIT_CPU, seconds)]
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as file:
            wanted.append((resource.RLIMIT_AS, int(file.read().split()[0]) * resource.getpagesize() + bounds.memory))
    for what, soft in wanted:
        hard = resource.getrlimit(what)[1]
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (soft, hard))
