from __future__ import annotations

import os

import pytest

from graders.marking import jobs as job_numbers
from graders.wire.limits import MIB, Limits

LIMITS = Limits(memory=1000 * MIB)


@pytest.mark.parametrize(
    ("cores", "notebooks", "jobs"), [(4, 100.0, 4), (4, 2.9, 2), (4, 0.1, 1), (1, 100.0, 1)], ids=str
)
def test_jobs_are_bounded_by_cores_and_by_memory(
    monkeypatch: pytest.MonkeyPatch, cores: int, notebooks: float, jobs: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setattr(job_numbers, "_free_memory", lambda: int(notebooks * LIMITS.memory_together))
    assert job_numbers.default_jobs(LIMITS) == jobs


def test_the_memory_of_this_machine_is_known() -> None:
    assert 1 << 28 < job_numbers._free_memory() < 1 << 50
