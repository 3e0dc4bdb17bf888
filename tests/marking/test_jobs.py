from __future__ import annotations

import os

import pytest

from graders.marking.jobs import default_jobs, jobs_for
from graders.wire.limits import MIB


@pytest.mark.parametrize(
    ("cores", "free", "jobs"), [(4, 1 << 40, 4), (4, 1200 * MIB, 2), (4, 100 * MIB, 1), (1, 1 << 40, 1)], ids=str
)
def test_jobs_are_bounded_by_cores_and_by_the_memory_that_boxes_usually_take(cores: int, free: int, jobs: int) -> None:
    assert jobs_for(cores, free) == jobs


def test_on_this_machine_at_least_one_notebook_runs_at_a_time() -> None:
    assert 1 <= default_jobs() <= (os.cpu_count() or 1)
