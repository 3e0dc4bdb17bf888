"""Judges large answers in a separate process with limits on time and memory.

A check usually takes a millisecond, but nobody has proved that a crafted answer cannot make it take hours. Small
answers hold too little for that. Large ones are judged here: an answer that goes over the limits is suspect, and does
not hold up anybody else's marks.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import pickle
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from graders.core.exercise import Exercise, Inputs
from graders.core.results import ExerciseResult
from graders.judge.exercise import judge_exercise, suspect_result
from graders.run.transcript import Outcome

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
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def judge(self, exercise: Exercise, draws: Sequence[Inputs], outcomes: Sequence[Outcome]) -> ExerciseResult:
        """Like `judge_exercise`, but suspect beyond the bounds. Whatever that raises, this raises as `RuntimeError`."""
        place = exercise.module, exercise.class_name
        with self._lock:
            connection = self._ready_connection()
            try:
                # Pickle is safe here: this is our own data, on its way to a process of our own.
                connection.send_bytes(pickle.dumps((place, list(draws), list(outcomes))))
                answered = connection.poll(self._bounds.clock)
                found = pickle.loads(connection.recv_bytes()) if answered else None
            except (EOFError, OSError):
                found = None
            if found is None:
                self.close()
        if isinstance(found, ExerciseResult):
            return found
        if isinstance(found, Exception):
            raise found
        most = f"{self._bounds.seconds} seconds or {self._bounds.memory >> 20} MiB"
        return suspect_result(exercise, f"judging it took more than {most}")

    def _ready_connection(self) -> Connection:
        if self._connection is not None and self._process is not None and self._process.is_alive():
            return self._connection
        self.close()
        context = multiprocessing.get_context("spawn")  # a process that has used torch cannot safely be forked
        self._connection, worker_end = context.Pipe()
        self._process = context.Process(target=_serve_requests, args=(worker_end, self._bounds), daemon=True)
        self._process.start()
        worker_end.close()
        with contextlib.suppress(EOFError, OSError):
            self._connection.recv_bytes()  # wait until it has imported torch, which must not count as judging time
        return self._connection

    def close(self) -> None:
        """End the process, if there is one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._connection = None


BOUNDED_WORKER = BoundedWorker()
"""The worker that this process uses."""


def _serve_requests(connection: Connection, bounds: Bounds) -> None:
    """Judge what arrives on `connection` until it is closed. Runs in the worker process."""
    import torch

    torch.set_num_threads(1)
    connection.send_bytes(b"ready")
    while True:
        try:
            (module, name), draws, outcomes = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        found: ExerciseResult | Exception
        try:
            exercise: Exercise = getattr(importlib.import_module(module), name)
            _limit_resources(bounds)
            found = judge_exercise(exercise, draws, outcomes)
        except Exception as error:
            found = RuntimeError(f"{type(error).__name__}: {error}")
        connection.send_bytes(pickle.dumps(found))


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
