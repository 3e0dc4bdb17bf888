from __future__ import annotations

import pytest

from graders.marking import jobs as job_numbers
from graders.wire.limits import MIB


@pytest.mark.parametrize(
    ("cores", "free", "jobs"), [(4, 1 << 40, 4), (4, 1200 * MIB, 2), (4, 100 * MIB, 1), (1, 1 << 40, 1)], ids=str
)
def test_jobs_are_bounded_by_cores_and_by_the_memory_that_boxes_usually_take(cores: int, free: int, jobs: int) -> None:
    assert job_numbers.jobs_for(cores, free) == jobs


def test_the_memory_of_this_machine_is_known() -> None:
    assert 1 << 28 < job_numbers._free_memory() < 1 << 50
