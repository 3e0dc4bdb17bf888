"""No right answer is refused by bad luck: solutions and all right answers on as many seeds as a stated time allows.

`HOOKWORK_SEED_MINUTES` is that time; without it, a quarter of a minute, since each run draws other seeds. An hour on
two cores is what a release takes.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest

from graders.author.answers import answers_to
from graders.author.prove import mark_source
from graders.core import course
from graders.core.results import Status
from graders.core.seeds import new_seed
from graders.marking.jobs import default_jobs
from graders.wire.draws import Rng

MINUTES = float(os.environ.get("HOOKWORK_SEED_MINUTES", "0.25"))
THREADS = (1, 2)
"""Proofs run with one thread and with several: nothing may depend on their number."""


def refused(threads: int, minutes: float) -> tuple[int, list[str]]:
    """How many pairs of exercise and seed were tried, one at least, and which right answers were refused.

    The time begins when all exercises and answers are there.
    """
    import torch

    torch.set_num_threads(threads)
    right = [(exercise, answers_to(exercise).right) for exercise in course.every_exercise()]
    deadline, tried, found = time.time() + 60 * minutes, 0, []
    while True:
        seed = new_seed()
        for exercise, answers in Rng(seed).shuffled(right):
            if tried and time.time() > deadline:
                return tried, found
            draws = exercise.draws(seed)
            for answer in answers:
                result = mark_source(exercise, answer.source, seed, draws)
                if result.status is not Status.PASSED:
                    why = next((check.message for check in result.checks if not check.passed), result.message)
                    found.append(f"{exercise.key}, seed {seed}, {threads} threads: {answer.what}: {why}")
            tried += 1


@pytest.mark.slow
def test_no_right_answer_is_refused_on_any_seed(
    record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = default_jobs()
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        work = [pool.submit(refused, THREADS[job % len(THREADS)], MINUTES) for job in range(jobs)]
        results = [job.result() for job in work]
    tried = sum(count for count, _ in results)
    record_property("pairs", tried)
    with capsys.disabled():
        print(f"\n{tried} pairs of an exercise and a seed in {MINUTES:g} minutes, every right answer on each")
    assert [problem for _, found in results for problem in found] == []
    assert tried > 0
